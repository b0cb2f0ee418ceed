"""The engines by name; and one server per lake, shared by all processes that work on it: found,
started, held, stopped.

Not here: the server's life (`supervisor`), its command (`jvm`, `sail`), sessions on it (`session`).
Web and code servers may ask for its status; only processes that run work call `hold_server`,
because a held server never goes idle.
"""

import fcntl
import json
import os
import subprocess
import threading
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile

from filelock import FileLock, Timeout

from backfill_assets.engines.abilities import SPARK, Engine
from backfill_assets.engines.cache import package_version
from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.jvm import Embedded
from backfill_assets.engines.processes import end_processes_in, processes_in
from backfill_assets.engines.sail import Sail
from backfill_assets.engines.supervisor import (
    START_TIMEOUT_SECONDS,
    STOP_GRACE_SECONDS,
    Record,
    ServerFolder,
    ServerRequest,
    take_lock,
)
from backfill_assets.kernel.core.engines import EMBEDDED, SAIL
from backfill_assets.kernel.core.errors import (
    BackfillError,
    EngineLost,
    SettingsError,
    TransientError,
)
from backfill_assets.kernel.core.ownership import open_unless_link
from backfill_assets.kernel.core.process import environment_with_package, python_command
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.place.processes import Process

_POLL_SECONDS = 0.05
_START_LOCK_SECONDS = START_TIMEOUT_SECONDS + 60  # its holder may first fetch jars, then start
SUPERVISOR = "backfill_assets.engines.supervisor"
# Engines of which a lake has a server of its own. A further one has the same methods and
# attributes, and a log line that `supervisor._LISTENING` finds.
ServerEngine = Embedded | Sail
SERVERS: dict[str, ServerEngine] = {EMBEDDED: Embedded(), SAIL: Sail()}
SERVER_PROGRAMS = {SUPERVISOR, *(engine.program for engine in SERVERS.values())}
_holding = threading.RLock()
_held: dict[Path, int] = {}  # descriptors of the clients' locks that this process holds, by folder
# That this process started: kept so that they are reaped.
_supervisors: list["subprocess.Popen[bytes]"] = []


def engine_named(name: str) -> Engine:
    """The engine that the setting `engine` names; Spark for addresses and master URLs."""
    return SERVERS.get(name, SPARK)


def server_engine(settings: EngineSettings) -> ServerEngine:
    """The engine of a lake's own server: the embedded Spark is also the driver for a master URL."""
    return SERVERS.get(settings.engine, SERVERS[EMBEDDED])


def engine_name(settings: EngineSettings) -> str:
    """The engine that computes, and its version, in words. For an engine elsewhere, the version of
    the client here."""
    engine = server_engine(settings)
    return f"{engine.name.lower()} {package_version(engine.packages[0])}"


def identity_version(identity: dict[str, str]) -> str:
    """The packages that a running server is made of, in words."""
    packages = (p for engine in SERVERS.values() for p in engine.packages)
    return ", ".join(f"{name} {identity[name]}" for name in packages if name in identity)


@dataclass(frozen=True)
class ServerStatus:
    """A running server."""

    pid: int
    version: str  # what it runs
    uptime_seconds: float
    rss_bytes: int  # resident memory
    in_use: bool  # whether it has clients

    def __str__(self) -> str:
        """The server as one line, without what it runs."""
        used = "in use" if self.in_use else "idle"
        return (
            f"process {self.pid}, {used}, up {self.uptime_seconds:.0f} s, {self.rss_bytes >> 20} "
            "MiB"
        )


def hold_server(lake: Path) -> None:
    """Keep the lake's server from going idle while this process lives, or until `release_server`.

    Waits while the server is stopping (seconds). The kernel frees the lock when this process ends,
    however it does.
    """
    state = ServerFolder.of(lake)
    state.make()
    with _holding:
        if state.folder not in _held:
            file = state.open_in_use()
            fcntl.flock(file, fcntl.LOCK_SH)
            _held[state.folder] = file


def release_server(lake: Path) -> None:
    """Let the lake's server go idle as far as this process is concerned; does nothing if it is not
    held."""
    with _holding:
        file = _held.pop(ServerFolder.of(lake).folder, None)
        if file is not None:
            os.close(file)


def _is_held_elsewhere(state: ServerFolder) -> bool:
    """True if another process uses the lake's server."""
    with _holding:
        held = _held.get(state.folder)
        if held is None:
            file = state.open_in_use()
            is_alone = take_lock(file)
            os.close(file)
        else:
            is_alone = take_lock(held)
            # A failed attempt at the whole lock may have cost us our share.
            fcntl.flock(held, fcntl.LOCK_SH)
        return not is_alone


def ensure_server(lake: Path, settings: EngineSettings) -> Record:
    """The lake's server, started (7 s) or replaced if need be; many callers at once get the same
    one.

    Raises SettingsError if other processes use a server with other settings, EngineLost if it does
    not start. Does not hold it: call `hold_server` first where work follows.
    """
    state = ServerFolder.of(lake)
    state.make()
    wanted, record = server_engine(settings).identity(settings), state.record()
    if record is not None and _is_wanted_server(record, wanted):
        return record
    with _acquired_start_lock(state):
        record = state.record()
        if record is not None and _is_wanted_server(record, wanted):
            return record
        if record is not None and record.usable:
            _refuse_other_server(lake, record, wanted)
        _end_processes(state)
        return _start_supervisor(state, lake, settings)


def _refuse_other_server(lake: Path, record: Record, wanted: dict[str, str]) -> None:
    """Raise SettingsError if the running server has other settings and other processes use it."""
    is_other = record.identity != wanted
    if is_other and _is_held_elsewhere(ServerFolder.of(lake)):
        raise SettingsError(
            f"the server of {lake}",
            f"it runs with other settings ({identity_differences(record.identity, wanted)}) "
            "and other processes use it",
            "Nothing was started",
            "Wait for them, use the same settings, or run `backfill-assets server stop`",
        )


def begin_server(lake: Path, settings: EngineSettings) -> threading.Thread | None:
    """Start the lake's server in a thread, and hold it; None where the engine has no server of the
    lake's own.

    Errors are dropped here: the first call for a session waits for this start, tries again and
    raises them.
    """
    if not settings.has_server:
        return None

    def start() -> None:
        """Run in the thread."""
        with suppress(BackfillError, OSError):
            hold_server(lake)
            ensure_server(lake, settings)

    thread = threading.Thread(target=start, name="start of the Spark server", daemon=True)
    thread.start()
    return thread


def _is_wanted_server(record: Record, wanted: dict[str, str]) -> bool:
    """Whether the recorded server can be used, is as `wanted` in everything that decides how it
    computes, and its supervisor lives."""
    return record.usable and record.identity == wanted and record.supervisor.is_alive()


def identity_differences(running: dict[str, str], wanted: dict[str, str]) -> str:
    """The differences of a running server from the wanted one, in words; digests are named, not
    shown."""
    found = list[str]()
    for name in sorted(running.keys() | wanted.keys()):
        if running.get(name) == wanted.get(name):
            continue
        if name.startswith("the "):
            found.append(name)
        else:
            found.append(f"{name} {running.get(name)} instead of {wanted.get(name)}")
    return ", ".join(found)


def _acquired_start_lock(state: ServerFolder) -> AbstractContextManager[object]:
    try:
        return FileLock(state.folder / "start.lock", timeout=_START_LOCK_SECONDS).acquire()
    except Timeout:
        raise TransientError(
            f"the server of {state.folder.parent}",
            f"another process has been starting it for {_START_LOCK_SECONDS:.0f} s",
            "Nothing was started",
            f"See {state.log}, then run again",
        ) from None


def _start_supervisor(state: ServerFolder, lake: Path, settings: EngineSettings) -> Record:
    """Start the supervisor and wait for its server. Raises EngineLost where it does not start."""
    request = server_engine(settings).request(state, settings)
    supervisor = _start_program(state, lake, settings, request)
    with _holding:
        _supervisors[:] = [s for s in _supervisors if s.poll() is None] + [supervisor]
    deadline = time.monotonic() + START_TIMEOUT_SECONDS + STOP_GRACE_SECONDS
    while supervisor.poll() is None and time.monotonic() < deadline:
        record = state.record()
        is_of_supervisor = record is not None and record.supervisor.pid == supervisor.pid
        if record is not None and is_of_supervisor and _is_wanted_server(record, request.identity):
            return record
        time.sleep(_POLL_SECONDS)
    if supervisor.poll() is None:
        supervisor.terminate()
    reason = _newest_error(state).replace(request.token or "***", "***")
    raise EngineLost(
        f"the server of {lake}",
        f"it did not start ({reason})",
        "Nothing was run",
        f"See {state.log}, then run again",
    )


def _start_program(
    state: ServerFolder, lake: Path, settings: EngineSettings, request: ServerRequest
) -> "subprocess.Popen[bytes]":
    """Start the supervisor's program with this request, in a session of its own so that no terminal
    or parent takes it along."""
    path = state.folder / "supervisor.log"
    environ = server_engine(settings).environ(state, settings)
    log = os.fdopen(open_unless_link(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb")
    # The file of the request has no name: it holds the token.
    with log, TemporaryFile("w+", dir=state.folder) as request_file:
        json.dump(asdict(request), request_file)
        request_file.seek(0)
        return subprocess.Popen(
            python_command(SUPERVISOR, str(lake.resolve())),
            cwd=state.folder,
            start_new_session=True,
            env=environment_with_package(environ),
            umask=settings.umask,
            stdin=request_file,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _newest_error(state: ServerFolder) -> str:
    """The line of the logs that explains most, for a message."""
    # Where the supervisor failed, the server's log is of an earlier server.
    for name in ("supervisor.log", "server.log"):
        with suppress(FileNotFoundError):
            text = (state.folder / name).read_text(encoding="utf-8", errors="replace")
            stripped = [line.strip() for line in text.splitlines()]
            lines = [line for line in stripped if line and not line.startswith("at ")]
            errors = [line for line in lines if "rror" in line or "xception" in line]
            if lines:
                return scrub_secrets((errors or lines)[-1])[:300]
    return "its logs are empty"


def _end_processes(state: ServerFolder) -> None:
    """End the lake's supervisor and server, recorded or not; a record may be forged, so it decides
    nothing here."""
    end_processes_in(state.folder, SERVER_PROGRAMS, 2 * STOP_GRACE_SECONDS + 1)
    state.remove_record()
    for socket in state.folder.glob("*.sock"):  # a killed process leaves its name behind
        socket.unlink(missing_ok=True)


def end_server(lake: Path, server: Process) -> None:
    """End this server, whoever uses it; does nothing where another server has taken its place."""
    state = ServerFolder.of(lake)
    with _acquired_start_lock(state):
        record = state.record()
        if record is not None and record.process == server:
            _end_processes(state)


def stop_server(lake: Path, force: bool = False) -> bool:
    """Stop the lake's server; False if none was running.

    Raises TransientError if other processes use it, unless `force`; their running queries then fail
    within seconds.
    """
    state = ServerFolder.of(lake)
    if not processes_in(state.folder, SERVER_PROGRAMS):  # the record may be lost
        return False
    if not force and _is_held_elsewhere(state):
        raise TransientError(
            f"the server of {lake}",
            "other processes are using it",
            "It was not stopped",
            "Wait for them, or stop it with --force, which makes their queries fail",
        )
    with _acquired_start_lock(state):
        _end_processes(state)
    return True


def server_status(lake: Path) -> ServerStatus | None:
    """The lake's running server, None if there is none. Starts nothing, holds nothing, needs no
    pyspark."""
    state = ServerFolder.of(lake)
    record = state.record()
    if record is None or not record.usable or (rss := record.process.memory_bytes()) is None:
        return None
    in_use = state.folder in _held or _is_held_elsewhere(state)
    return ServerStatus(
        record.process.pid,
        identity_version(record.identity),
        record.process.age_seconds(),
        rss,
        in_use,
    )
