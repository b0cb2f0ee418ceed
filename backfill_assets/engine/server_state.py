"""A lake's server between processes: the folder `LAKE/.server`, the record of the running server, and kernel locks.

A JVM may run as long as the record names it: one that it does not name is stopped by its supervisor. The locks are the
kernel's, so no dead process keeps one: `start.lock` (who may start or stop a server), `supervisor.lock` (one supervisor
per lake), `in_use` (shared by the clients; free means idle). Not here: starting or stopping (`server`, `supervisor`).
"""

import fcntl
import json
import os
import socket
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from backfill_assets.core.engines import Engine
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.ownership import open_unlinked, take_rights, user_name
from backfill_assets.engine.confs import LOOPBACK, EngineSettings
from backfill_assets.engine.processes import Process

FOLDER, RECORD = ".server", "endpoint.json"
LONGEST_BYTES = 100  # of a unix socket's address; Linux takes 107, macOS 103

_ANSWER_TIMEOUT_SECONDS = 2.0  # a connect on the loopback takes microseconds, more only on a stalled machine


@dataclass(frozen=True)
class Record:
    """The server's record on disk. `port` 0: starting or stopping, no client may connect. `socket`: the path of
    the unix socket that leads into a network of the server's own; else empty."""

    jvm: Process
    supervisor: Process
    port: int
    token: str = field(repr=False)
    identity: dict[str, str] = field(repr=False)
    socket: str = ""

    @property
    def usable(self) -> bool:
        """True if the server runs and accepts connections."""
        return self.port > 0 and self.jvm.is_alive() and accepts(self.port, self.socket)


class UnixAddress:
    """The address of the socket at `path`; of a long path it goes through an open folder, until it is closed."""

    def __init__(self, path: Path) -> None:
        self._folder = -1
        self.text = str(path)
        if len(os.fsencode(path)) > LONGEST_BYTES:
            self._folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self.text = f"/proc/self/fd/{self._folder}/{path.name}"

    def close(self) -> None:
        """Close the folder. Harmless when repeated."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


def accepts(port: int, path: str = "") -> bool:
    """Whether a server accepts connections at the port of the loopback, or at the unix socket `path`."""
    try:
        if not path:
            socket.create_connection((LOOPBACK, port), timeout=_ANSWER_TIMEOUT_SECONDS).close()
            return True
        with closing(UnixAddress(Path(path))) as address, socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_ANSWER_TIMEOUT_SECONDS)
            probe.connect(address.text)
            return True
    except OSError:
        return False


@dataclass(frozen=True)
class ServerRequest:
    """The server for a supervisor to start: the command, the file with its token (mode 0600, of this request alone),
    and when to stop (seconds idle). `socket`: see `Record`."""

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

    def remove_record(self) -> None:
        """Forget the server."""
        (self.folder / RECORD).unlink(missing_ok=True)

    def request(self) -> ServerRequest:
        """Read the supervisor's request. Raises OSError or ValueError if it cannot be read."""
        return ServerRequest(**json.loads((self.folder / "request.json").read_text(encoding="utf-8")))

    def write_request(self, request: ServerRequest) -> None:
        """Publish the supervisor's request."""
        self.write_private(self.folder / "request.json", json.dumps(asdict(request)))

    def open_in_use(self) -> int:
        """A file descriptor for the clients' lock; the caller closes it."""
        return open_unlinked(self.folder / "in_use", os.O_RDWR | os.O_CREAT)

    @contextmanager
    def supervising(self) -> Iterator[None]:
        """Be the lake's only supervisor; waits until an earlier one has ended."""
        file = open_unlinked(self.folder / "supervisor.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


class ServerEngine(Engine, ABC):
    """An engine of which a lake has a server of its own. `packages`: those that it is made of.

    A new one also needs its name in `launch.SERVERS` and `confs.OWN_SERVERS`, its program in `supervisor.PROGRAMS`, and
    a log line that `supervisor._LISTENING` finds.
    """

    packages: tuple[str, ...] = ()

    @abstractmethod
    def identity(self, settings: EngineSettings) -> dict[str, str]:
        """Return what must be equal for a server to be shared. Raises BackfillError if it cannot be used."""

    @abstractmethod
    def request(self, state: ServerFolder, settings: EngineSettings) -> ServerRequest:
        """Return what a supervisor is to start, and write the files that it reads."""

    @abstractmethod
    def environ(self, state: ServerFolder, settings: EngineSettings) -> dict[str, str]:
        """Return the environment of the server."""

    def refuse(self, settings: EngineSettings) -> None:
        """Raise SettingsError where the server may not be started on this machine."""

    @abstractmethod
    def session_confs(self, settings: EngineSettings) -> dict[str, str]:
        """Return what is set on each new session."""


def take(file: int) -> bool:
    """Take the lock on `file` alone, without waiting; False if others share it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
