"""What is known about a lake's server between processes: one folder, one record, four kernel locks.

Lives here: the paths below `LAKE/.server`, the record of the running server, and the locks. Does not live here:
starting or stopping a server (`server`, `supervisor`), the identity of processes (`processes`). Imports neither pyspark
nor Dagster.

A JVM may run as long as the record names it: one that it does not name is stopped by its supervisor. The locks are the
kernel's, so none can be forgotten by a process that died: `start.lock` (who may start or stop a server),
`supervisor.lock` (one supervisor per lake), `jvm.lock` (inherited by the JVM: one JVM per lake, whatever happened to
its record), `in_use` (shared by the clients; free means idle).
"""

import fcntl
import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from backfill_assets.core.errors import SettingsError
from backfill_assets.core.ownership import open_unlinked, take_rights, user_name
from backfill_assets.engine.confs import LOOPBACK
from backfill_assets.engine.processes import Process
from backfill_assets.engine.unix_sockets import accepts

FOLDER, RECORD = ".server", "endpoint.json"

_ANSWER_TIMEOUT_SECONDS = 2.0  # a connect on the loopback takes microseconds, more only on a stalled machine


@dataclass(frozen=True)
class Record:
    """The server's record on disk. `port` 0 means starting or stopping: nobody may connect. `socket`: the path of the
    unix socket that leads there, where the port is one of a network of the server's own; else empty."""

    jvm: Process
    supervisor: Process
    port: int
    token: str = field(repr=False)
    identity: dict[str, str] = field(repr=False)
    socket: str = ""

    @property
    def usable(self) -> bool:
        """True if the server runs and accepts connections."""
        return self.port > 0 and self.jvm.is_alive() and _accepts(self.port, self.socket)


def _accepts(port: int, path: str) -> bool:
    try:
        if path:
            return accepts(Path(path), _ANSWER_TIMEOUT_SECONDS)
        with socket.create_connection((LOOPBACK, port), timeout=_ANSWER_TIMEOUT_SECONDS):
            return True
    except OSError:
        return False


@dataclass(frozen=True)
class ServerRequest:
    """What a supervisor is to start: the command, the file with the token that it reads (mode 0600, of this
    request alone), and when to stop (seconds idle). `socket`: see `Record`."""

    command: list[str] = field(repr=False)
    properties: str
    token: str = field(repr=False)
    identity: dict[str, str] = field(repr=False)
    idle_seconds: float
    socket: str = ""


@dataclass(frozen=True)
class ServerFolder:
    """The folder `LAKE/.server` of a lake."""

    folder: Path

    @classmethod
    def of(cls, lake: Path) -> "ServerFolder":
        """The state folder of `lake`; touches nothing."""
        return cls(lake.resolve() / FOLDER)

    @property
    def log(self) -> Path:
        """The JVM's log (its previous one is `server.previous.log`)."""
        return self.folder / "server.log"

    @property
    def scratch(self) -> Path:
        """Temporary files of the server; emptied at each start."""
        return self.folder / "tmp"

    def make(self) -> None:
        """Create the folder, readable by this user only; raises SettingsError where it is a link or another user's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = self.folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            is_link = stat.S_ISLNK(found.st_mode)
            raise SettingsError(
                f"the folder {self.folder}",
                "it is a link" if is_link else f"it belongs to {user_name(found.st_uid)}, whose server it is",
                "No server was started and none was used",
                "Remove the link" if is_link else "Work as that user, or remove the folder once no server runs there",
            )
        take_rights(self.folder, 0o077)

    def write_private(self, path: Path, text: str) -> None:
        """Replace `path` in one step by `text`, mode 0600 from its first byte on."""
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        private = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(private, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)

    def record(self) -> Record | None:
        """The record, None if there is none that this user wrote, or it is damaged (both mean: no server to use)."""
        try:
            with os.fdopen(open_unlinked(self.folder / RECORD, os.O_RDONLY), encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_uid != os.geteuid():
                    return None
                body = json.load(file)
            return Record(**body | {k: Process(**body[k]) for k in ("jvm", "supervisor")})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write_record(self, record: Record) -> None:
        """Publish `record`."""
        self.write_private(self.folder / RECORD, json.dumps(asdict(record)))

    def close_record(self, record: Record) -> None:
        """Mark the server as going down, for all; the JVM stays named until it is gone."""
        self.write_record(replace(record, port=0))

    def remove_record(self) -> None:
        """Forget the server."""
        (self.folder / RECORD).unlink(missing_ok=True)

    def request(self) -> ServerRequest:
        """What the supervisor is to start; raises OSError or ValueError where that cannot be read."""
        return ServerRequest(**json.loads((self.folder / "request.json").read_text(encoding="utf-8")))

    def write_request(self, request: ServerRequest) -> None:
        """Write down what the supervisor is to start."""
        self.write_private(self.folder / "request.json", json.dumps(asdict(request)))

    def open_in_use(self) -> int:
        """A file descriptor for the clients' lock; the caller closes it."""
        return open_unlinked(self.folder / "in_use", os.O_RDWR | os.O_CREAT)

    def open_jvm_lock(self) -> int:
        """A file descriptor for the lock that the JVM inherits and so holds for its life; the caller closes it."""
        return open_unlinked(self.folder / "jvm.lock", os.O_RDWR | os.O_CREAT)

    @contextmanager
    def supervising(self) -> Iterator[None]:
        """Be the lake's only supervisor; waits until an earlier one has ended."""
        file = open_unlinked(self.folder / "supervisor.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def take(file: int) -> bool:
    """Take the lock on `file` alone, without waiting; False if others share it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
