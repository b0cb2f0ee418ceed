"""A lake's server between processes: its folder `LAKE/.server`, its record, its clients' lock; and
its supervisor.

The supervisor starts the server, watches it, and stops it once it is idle. The locks are the
kernel's, so no dead process keeps one: `start.lock` (who may start or stop a server) and `in_use`
(shared by the clients; free means idle). Not here: the request (`server` starts the supervisor with
it). Imports neither pyspark nor Dagster: it stays resident.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType

from backfill_assets.engines.class_archive import LEAST_SECONDS, LIST_FILE, begin_archive
from backfill_assets.engines.confs import LOOPBACK
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.ownership import open_unless_link, remove_rights, user_name
from backfill_assets.kernel.place.processes import Process

SERVER_FOLDER = ".server"
RECORD_FILE = "endpoint.json"
# A connect on the loopback takes microseconds, more only on a stalled machine.
_ANSWER_TIMEOUT_SECONDS = 2.0
POLL_SECONDS = 0.25
START_TIMEOUT_SECONDS = 180.0  # 7 s on an idle machine, 30 s seen under load; beyond this it hangs
STOP_GRACE_SECONDS = 5.0
_LISTENING = re.compile(r"Spark Connect server started at: \S*?:(\d+)")


@dataclass(frozen=True)
class ServerRequest:
    """A server that a supervisor shall start."""

    command: list[str] = field(repr=False)
    identity: dict[str, str] = field(repr=False)
    idle_seconds: float  # then the supervisor stops it
    properties: str = ""  # the file with its token (mode 0600, of this request alone); "": no token
    token: str = field(default="", repr=False)
    socket: str = ""  # see `Record`; "": none
    archive: list[str] = field(default_factory=list)  # what `class_archive` makes after its end


@dataclass(frozen=True)
class Record:
    """A server's record on disk."""

    process: Process  # the server
    supervisor: Process
    port: int  # of the loopback; 0: it is starting, no client may connect
    token: str = field(repr=False)
    identity: dict[str, str] = field(repr=False)  # what must be equal for a server to be shared
    socket: str = ""  # a unix socket in its folder that leads into a network of its own; "": none

    @property
    def url(self) -> str:
        """The address for clients; contains the token."""
        return f"sc://{LOOPBACK}:{self.port}" + (f"/;token={self.token}" if self.token else "")

    @property
    def path(self) -> str:
        """The unix socket to dial in place of the address, "" if there is none. The way through the
        server's working folder is short, as such addresses must be, and only this user may take
        it."""
        return f"/proc/{self.process.pid}/cwd/{self.socket}" if self.socket else ""

    @property
    def usable(self) -> bool:
        """True if the server runs and accepts connections."""
        return self.port > 0 and self.process.is_alive() and self._accepts()

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX if self.socket else socket.AF_INET) as probe:
            probe.settimeout(_ANSWER_TIMEOUT_SECONDS)
            return probe.connect_ex(self.path or (LOOPBACK, self.port)) == 0


@dataclass(frozen=True)
class ServerFolder:
    """The folder `LAKE/.server` of a lake."""

    folder: Path

    @classmethod
    def of(cls, lake: Path) -> "ServerFolder":
        """The state folder of `lake`; touches nothing."""
        return cls(lake.resolve() / SERVER_FOLDER)

    @property
    def log(self) -> Path:
        """The server's log (its previous one is `server.previous.log`)."""
        return self.folder / "server.log"

    @property
    def scratch(self) -> Path:
        """Temporary files of the server; emptied at each start."""
        return self.folder / "tmp"

    def make(self) -> None:
        """Create the folder, readable by this user only; raises SettingsError where it is a link or
        another user's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        status = self.folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            is_link = stat.S_ISLNK(status.st_mode)
            raise SettingsError(
                f"the folder {self.folder}",
                "it is a link"
                if is_link
                else f"it belongs to {user_name(status.st_uid)}, whose server it is",
                "No server was started and none was used",
                "Remove the link"
                if is_link
                else "Work as that user, or remove the folder once no server runs there",
            )
        remove_rights(self.folder, 0o077)

    def write_private(self, path: Path, text: str) -> None:
        """Replace `path` in one step by `text`, mode 0600 from its first byte on."""
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        private = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(private, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)

    def record(self) -> Record | None:
        """The record, None if there is none that this user wrote, or it is damaged (both mean: no
        server to use)."""
        try:
            with os.fdopen(
                open_unless_link(self.folder / RECORD_FILE, os.O_RDONLY), encoding="utf-8"
            ) as file:
                if os.fstat(file.fileno()).st_uid != os.geteuid():
                    return None
                body = json.load(file)
            return Record(**body | {k: Process(**body[k]) for k in ("process", "supervisor")})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write_record(self, record: Record) -> None:
        """Publish `record`."""
        self.write_private(self.folder / RECORD_FILE, json.dumps(asdict(record)))

    def remove_record(self) -> None:
        """Forget the server."""
        (self.folder / RECORD_FILE).unlink(missing_ok=True)

    def open_in_use(self) -> int:
        """A file descriptor for the clients' lock; the caller closes it."""
        return open_unless_link(self.folder / "in_use", os.O_RDWR | os.O_CREAT)


def take_lock(file: int) -> bool:
    """Take the lock on `file` alone, without waiting; False if others share it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


class StopRequested(Exception):
    """SIGTERM: the supervisor is to stop."""


def supervise_server(state: ServerFolder, request: ServerRequest) -> None:
    """Start the server, and return once it is gone: it died, or it was idle, or the record no
    longer names it.

    When it was idle, this process holds the clients' lock until it ends, so that new clients wait
    for the stop.
    """
    child, began = _start_server(state, request), time.monotonic()
    process = Process.of(child.pid) or Process(child.pid, 0.0)
    record = Record(
        process=process,
        supervisor=Process.this(),
        port=0,
        token=request.token,
        identity=request.identity,
        socket=request.socket,
    )
    try:
        with suppress(StopRequested):
            state.write_record(record)
            if port := _listening_port(state, request, child):
                record = replace(record, port=port)
                state.write_record(record)
                _watch_server(state, record, child, request.idle_seconds)
    finally:
        _stop_server(state, record, child)
        if request.archive and time.monotonic() - began >= LEAST_SECONDS:
            begin_archive(request.archive, state.folder / LIST_FILE)


def _start_server(state: ServerFolder, request: ServerRequest) -> "subprocess.Popen[bytes]":
    """Start the server's program in an empty scratch folder, with a new log; the log of the server
    before is kept beside it."""
    shutil.rmtree(state.scratch, ignore_errors=True)
    state.scratch.mkdir(mode=0o700)
    if state.log.exists():
        state.log.replace(state.log.with_suffix(".previous.log"))
    with os.fdopen(open_unless_link(state.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as log:
        return subprocess.Popen(
            request.command,
            cwd=state.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _listening_port(
    state: ServerFolder, request: ServerRequest, child: "subprocess.Popen[bytes]"
) -> int | None:
    """The server's port, None if it does not listen in `START_TIMEOUT_SECONDS`; deletes the file
    with its token."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    try:
        while time.monotonic() < deadline and child.poll() is None:
            if found := _LISTENING.search(state.log.read_text(encoding="utf-8", errors="replace")):
                return int(found[1])
            time.sleep(POLL_SECONDS / 5)
        return None
    finally:
        if request.properties:
            (state.folder / request.properties).unlink(missing_ok=True)


def _watch_server(
    state: ServerFolder, record: Record, child: "subprocess.Popen[bytes]", idle_seconds: float
) -> None:
    """Return once the server ended, another record replaced its own, or nobody has used it for
    `idle_seconds`. The lock on the file of users can be taken only while nobody uses the server."""
    users = state.open_in_use()  # a file that each user of the server locks
    free_since: float | None = None
    while child.poll() is None and state.record() == record:
        if take_lock(users):
            free_since = free_since or time.monotonic()
            if time.monotonic() - free_since >= idle_seconds:
                return
            fcntl.flock(users, fcntl.LOCK_UN)
        else:
            free_since = None
        time.sleep(POLL_SECONDS)


def _stop_server(state: ServerFolder, record: Record, child: "subprocess.Popen[bytes]") -> None:
    """End the server, and remove its record unless that names another one by now."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child.terminate()
    try:
        child.wait(STOP_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    shutil.rmtree(state.scratch, ignore_errors=True)
    current = state.record()
    if current is not None and current.process == record.process:
        state.remove_record()


def _raise_stop_requested(_signal: int, _frame: FrameType | None) -> None:
    raise StopRequested


def main(lake: str) -> None:
    """Supervise the server of `lake` that standard input describes, until it ends."""
    signal.signal(signal.SIGTERM, _raise_stop_requested)
    supervise_server(ServerFolder.of(Path(lake)), ServerRequest(**json.load(sys.stdin)))


if __name__ == "__main__":
    main(sys.argv[1])
