"""Where the process waits that commands on a lake are forks of, beside the lake's server, and what is said there.

Lives here: its socket, its lock, and the few words of its talk. Does not live here: the process (`cli.waiting`) and who
asks it (`cli.front`). A command looks here before it has imported anything, so this imports the standard library only.
"""

import fcntl
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

OFF = "BACKFILL_ASSETS_FORKS"  # `off`: no process waits for commands, and none is asked
NUMBER = struct.Struct("i")  # a process's (0: refused), then how it ended as `waitpid` tells it
ASK, GO = b"ask", b"go"
FOLDER, RECORD = ".server", "endpoint.json"  # of the server
PAUSES = (0.01, 0.05, 0.2)  # seconds: who asks for the pid holds the lock for microseconds, who waits keeps it
CREDENTIALS = struct.Struct("3i")  # of who is at the other end: process, user, group


def is_possible() -> bool:
    """Whether commands may be forks here: on Linux, unless it was switched off."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open") and os.environ.get(OFF) != "off"


def is_own(line: socket.socket) -> bool:
    """Whether the one at the other end of a line is this user's."""
    found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return bool(CREDENTIALS.unpack(found)[1] == os.geteuid())


def number_on(line: socket.socket) -> int | None:
    """The next number that is told on a line; None where nobody tells one any more, or in time."""
    try:
        told = line.recv(NUMBER.size)
    except OSError:
        return None
    return int(NUMBER.unpack(told)[0]) if told else None


@dataclass(frozen=True)
class WaitingPlace:
    """The files of the process that waits, in the private folder of the lake's server."""

    folder: Path

    @classmethod
    def of(cls, lake: Path) -> "WaitingPlace":
        """That of `lake`; touches nothing."""
        return cls(lake.resolve() / FOLDER)

    @property
    def socket(self) -> Path:
        """Where it is asked."""
        return self.folder / "commands.sock"

    @property
    def in_vain(self) -> Path:
        """Names the server beside which one waited that could be of use to nobody: no other is begun."""
        return self.folder / "commands.vain"

    @property
    def is_beside_server(self) -> bool:
        """Whether there seems to be a server."""
        return (self.folder / RECORD).exists()

    def take(self) -> int | None:
        """Be the only one that waits, until the descriptor is closed; None where one is there."""
        file = os.open(self.folder / "commands.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        for pause in (*PAUSES, None):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if pause is None:
                    os.close(file)
                    return None
                time.sleep(pause)
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        return file

    def pid(self) -> int | None:
        """The process that waits, or is about to; None where there is none."""
        with suppress(OSError, ValueError), (self.folder / "commands.lock").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read())
        return None
