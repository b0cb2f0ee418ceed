"""One Spark Connect server per lake, shared by all processes that work on it.

Lives here: finding, starting, holding and stopping the server. Does not live here: the JVM's life (`supervisor`), its
command (`jvm`), sessions on it (`session`). Web and code servers may ask for its status; only processes that
run work call `hold`, because a held server never goes idle.
"""

import fcntl
import os
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

from backfill_assets.core.errors import BackfillError, EngineLost, SettingsError, TransientError
from backfill_assets.core.ownership import open_unlinked
from backfill_assets.core.process import python_command, with_package
from backfill_assets.engine.confs import LOOPBACK, EngineSettings, scrub
from backfill_assets.engine.jvm import differences
from backfill_assets.engine.launch import Launch, launch_of, version_of
from backfill_assets.engine.processes import Process, end
from backfill_assets.engine.server_state import Record, ServerFolder, take
from backfill_assets.engine.supervisor import SERVERS, START_TIMEOUT_SECONDS, STOP_GRACE_SECONDS

_POLL_SECONDS = 0.05
_START_LOCK_SECONDS = START_TIMEOUT_SECONDS + 60  # whoever holds it may first fetch jars, then start
SUPERVISOR = "backfill_assets.engine.supervisor"
_STOP_COMMAND = "`backfill-assets server stop`"


@dataclass(frozen=True)
class Endpoint:
    """Where a lake's server listens, and its process. `url` contains the token, which the repr does not show; `socket`
    is the unix socket to dial in its place, if there is one."""

    url: str = field(repr=False)
    process: Process
    socket: Path | None = None


@dataclass(frozen=True)
class ServerStatus:
    """A running server: its JVM, what it runs, for how long (seconds), its memory (bytes), and if it has clients."""

    pid: int
    version: str
    uptime_seconds: float
    rss_bytes: int
    in_use: bool


class _Holds:
    """The shared locks this process holds, one per lake, and the supervisors it started (to be reaped)."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.files: dict[tuple[int, Path], int] = {}
        self.children: list[subprocess.Popen[bytes]] = []

    def file(self, state: ServerFolder) -> int | None:
        """This process's file descriptor for the lake's clients' lock, None if it holds none."""
        held = self.files.get((os.getpid(), state.folder))
        path = state.folder / "in_use"
        if held is None or not path.exists() or not os.path.samestat(os.fstat(held), path.stat()):
            return None  # a lake deleted and made anew at the same path has another file
        return held


@cache
def _holds() -> _Holds:
    return _Holds()


def hold(lake: Path) -> None:
    """Keep the lake's server from going idle for the life of this process (or until `release`).

    Waits while the server is stopping (seconds). The kernel frees the lock when this process ends, however it does.
    """
    state = ServerFolder.of(lake)
    state.make()
    holds = _holds()
    with holds.lock:
        if holds.file(state) is None:
            file = state.open_in_use()
            fcntl.flock(file, fcntl.LOCK_SH)
            holds.files[os.getpid(), state.folder] = file


def release(lake: Path) -> None:
    """Let the lake's server go idle as far as this process is concerned; does nothing if it is not held."""
    holds = _holds()
    with holds.lock:
        file = holds.files.pop((os.getpid(), ServerFolder.of(lake).folder), None)
        if file is not None:
            os.close(file)


def _others_hold(state: ServerFolder) -> bool:
    """True if another process uses the lake's server."""
    holds = _holds()
    with holds.lock:
        held = holds.file(state)
        file = state.open_in_use() if held is None else held
        alone = take(file)
        if held is None:
            os.close(file)
        else:
            fcntl.flock(file, fcntl.LOCK_SH)  # a failed attempt at the whole lock may have cost us our share
        return not alone


def ensure_server(lake: Path, settings: EngineSettings) -> Endpoint:
    """The lake's server, started (7 s), adopted or replaced if need be; many callers at once get the same one.

    Raises SettingsError if other processes use a server with other settings, EngineLost if it does not start. Does
    not hold it: call `hold` first where work follows.
    """
    state = ServerFolder.of(lake)
    state.make()
    launch, record = launch_of(settings), state.record()
    if record is None or not _serves(record, launch.identity):
        with _start_lock(state):
            record = _agreed(state, lake, settings, launch)
    token = f"/;token={record.token}" if record.token else ""
    return Endpoint(f"sc://{LOOPBACK}:{record.port}{token}", record.jvm, Path(record.socket) if record.socket else None)


def begin_server(lake: Path, settings: EngineSettings) -> threading.Thread | None:
    """Start the lake's server beside what this process does, and hold it; None where the engine is none of its own.

    Nobody is told what goes wrong: who asks for a session waits for this start, tries again and is told. A process that
    ends before that leaves a server which stops when it was idle for its time.
    """
    if not settings.has_server:
        return None

    def start() -> None:
        """What the thread does."""
        with suppress(BackfillError, OSError):
            hold(lake)
            ensure_server(lake, settings)

    thread = threading.Thread(target=start, name="start of the Spark server", daemon=True)
    thread.start()
    return thread


def _serves(record: Record, wanted: dict[str, str]) -> bool:
    return record.usable and record.identity == wanted and record.supervisor.is_alive()


def _agreed(state: ServerFolder, lake: Path, settings: EngineSettings, launch: Launch) -> Record:
    """Under the start lock: the running server if it is as wanted, else a new one."""
    record, wanted = state.record(), launch.identity
    if record is not None and _serves(record, wanted):
        return record
    if record is not None and record.usable and record.identity != wanted:
        if _others_hold(state):
            raise SettingsError(
                f"the server of {lake}",
                f"it runs with other settings ({differences(record.identity, wanted)}) and other processes use it",
                "Nothing was started", f"Wait for them, use the same settings, or run {_STOP_COMMAND}",
            )  # fmt: skip
        _end_all(state, record)
    return _started(state, lake, settings, launch)


def _start_lock(state: ServerFolder) -> FileLock:
    lock = FileLock(state.folder / "start.lock", timeout=_START_LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise TransientError(
            f"the server of {state.folder.parent}",
            f"another process has been starting it for {_START_LOCK_SECONDS:.0f} s",
            "Nothing was started", f"See {state.log}, then run again",
        ) from None  # fmt: skip
    return lock


def _started(state: ServerFolder, lake: Path, settings: EngineSettings, launch: Launch) -> Record:
    state.write_request(request := launch.prepare(state))
    supervisor = _spawn(state, lake, settings.umask, launch.environ(state))
    deadline = time.monotonic() + START_TIMEOUT_SECONDS + STOP_GRACE_SECONDS
    while time.monotonic() < deadline:
        record = state.record()
        if record is not None and record.supervisor.pid == supervisor.pid and _serves(record, launch.identity):
            return record
        if supervisor.poll() is not None:
            break
        time.sleep(_POLL_SECONDS)
    else:
        supervisor.terminate()
    told = _newest_error(state).replace(request.token or "***", "***")
    raise EngineLost(
        f"the server of {lake}", f"it did not start ({told})",
        "Nothing was run", f"See {state.log}, then run again",
    )  # fmt: skip


def _spawn(state: ServerFolder, lake: Path, umask: int, environ: dict[str, str]) -> "subprocess.Popen[bytes]":
    """Start the supervisor in a session of its own, so that no terminal or parent takes it along."""
    path = state.folder / "supervisor.log"
    with os.fdopen(open_unlinked(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as log:
        child = subprocess.Popen(
            python_command(SUPERVISOR, str(lake.resolve())),
            cwd=state.folder, env=with_package(environ), start_new_session=True, umask=umask,
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    holds = _holds()
    with holds.lock:
        holds.children = [c for c in holds.children if c.poll() is None] + [child]
    return child


def _newest_error(state: ServerFolder) -> str:
    """The line of the logs that explains most, for a message."""
    for name in ("server.log", "supervisor.log"):
        try:
            text = (state.folder / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
        telling = [line for line in lines if "rror" in line or "xception" in line or "earlier server" in line]
        if telling or lines:
            return scrub((telling or lines)[-1])[:300]
    return "its logs are empty"


def _end_all(state: ServerFolder, record: Record) -> None:
    """End supervisor and JVM, whichever of them live, and are what the record says."""
    end(record.supervisor, 2 * STOP_GRACE_SECONDS + 1, {SUPERVISOR})
    end(record.jvm, STOP_GRACE_SECONDS, SERVERS)
    state.remove_record()


def end_server(lake: Path, server: Process) -> None:
    """End this very server, for all who use it; does nothing where another one has taken its place."""
    state = ServerFolder.of(lake)
    with _start_lock(state):
        record = state.record()
        if record is not None and record.jvm == server:
            _end_all(state, record)


def stop_server(lake: Path, force: bool = False) -> bool:
    """Stop the lake's server; False if none was running.

    Raises TransientError if other processes use it, unless `force`; their running queries then fail within seconds.
    """
    state = ServerFolder.of(lake)
    record = state.record()
    if record is None or not (record.jvm.is_alive() or record.supervisor.is_alive()):
        return False
    if not force and _others_hold(state):
        raise TransientError(
            f"the server of {lake}", "other processes are using it", "It was not stopped",
            "Wait for them, or stop it with --force, which makes their queries fail",
        )  # fmt: skip
    with _start_lock(state):
        record = state.record()
        if record is not None:
            _end_all(state, record)
    return True


def server_status(lake: Path) -> ServerStatus | None:
    """The lake's running server, None if there is none. Starts nothing, holds nothing, needs no pyspark."""
    state = ServerFolder.of(lake)
    record = state.record()
    if record is None or not record.usable:
        return None
    rss = record.jvm.memory_bytes()
    if rss is None:
        return None
    probe = state.open_in_use()
    try:
        in_use = not take(probe)
    finally:
        os.close(probe)
    return ServerStatus(record.jvm.pid, version_of(record.identity), record.jvm.age_seconds(), rss, in_use)
