"""The process that waits beside a lake's server with all imports done: commands on that lake are forks of it.

Lives here: when it is begun and when it ends, whom it serves, and how a fork becomes the command. Does not live here:
who asks (`front`), importing and forking (`orchestration.warm_process`). It reads neither settings nor tables of the
lake: each fork does, anew. It ends within a second of the server, and when who asks it has other surroundings or the
files that its imports rest on have changed; the next command that goes the ordinary way begins another.
"""

import fcntl
import io
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from backfill_assets.cli.surroundings import surroundings
from backfill_assets.engine.server_state import Record, ServerFolder, take
from backfill_assets.engine.unix_sockets import UnixAddress
from backfill_assets.engine.waiting_place import ASK, NUMBER, WaitingPlace, is_own, is_possible
from backfill_assets.orchestration.leaving import ends_at_once, leave
from backfill_assets.orchestration.warm_process import (
    INTERRUPTS,
    ONE_THREAD,
    ROOMS,
    Forks,
    become,
    go_on,
    import_all,
    read_asked,
)
from backfill_assets.orchestration.warm_starts import PACKAGE, Stamp, stamp

LOOK_SECONDS = 0.5  # at the server's record
HEARING_SECONDS = 2.0  # for who connects and says nothing
CODE = "from backfill_assets.cli.waiting import main; main()"
IN_THE_BACKGROUND = ("/bin/sh", "-c", '"$@" &', "sh")  # so that it is no child of the command
MOST_DESCRIPTORS = 200  # the system passes on 253 at once


def begin(lake: Path, coming: bool = False) -> None:
    """Begin the process for the commands that follow, where the lake's own server runs, or is `coming`, and none waits
    or waited in vain beside it. Returns at once."""
    place = WaitingPlace.of(lake)
    record = ServerFolder(place.folder).record()
    if not is_possible() or (record is None and not coming) or place.pid() or _was_in_vain(place, record):
        return
    ServerFolder(place.folder).make()
    with suppress(OSError):
        subprocess.run(
            [*IN_THE_BACKGROUND, sys.executable, "-c", CODE, str(lake)], cwd=PACKAGE.parent, check=False,
            env={**os.environ, **ONE_THREAD}, start_new_session=True, umask=0o077, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def _was_in_vain(place: WaitingPlace, record: Record | None) -> bool:
    try:
        return record is not None and place.in_vain.read_text() == str(record.jvm)
    except OSError:
        return False


@dataclass
class Waiting:
    """What the process knows while it waits. `own` are its surroundings, `of` the files that its imports rest on."""

    place: WaitingPlace
    door: socket.socket
    lock: int
    own: Mapping[str, Any]
    of: Stamp
    forks: Forks = field(default_factory=lambda: Forks(apart=True))
    served: int = 0
    asking: bool = True

    def serve(self) -> "ForkRequest":
        """Fork for who asks, until this is over and the forks have ended. Returns in forks alone."""
        while self.asking or self.forks.lines:
            wanted = [*([self.door.fileno()] if self.asking else []), *self.forks.lines]
            for found in select.select(wanted, [], [], LOOK_SECONDS if self.asking else None)[0]:
                if found in self.forks.lines:
                    self.forks.end(found)
                elif self.asking and (asked := self._heard()) is not None:
                    if self.forks.begin(asked.line):
                        self._let_go()
                        return asked
                    self.served += 1
                    asked.close()
            if self.asking and not has_server(self.place):
                self._end()
        os._exit(0)

    def _heard(self) -> "ForkRequest | None":
        """What somebody asks who may; None where nothing is to be forked."""
        line, _ = self.door.accept()
        line.settimeout(HEARING_SECONDS)
        asked = None
        with suppress(OSError, ValueError, IndexError):  # whatever somebody else says there
            if is_own(line):
                _, descriptors, _, _ = socket.recv_fds(line, len(ASK), MOST_DESCRIPTORS)
                asked = ForkRequest(line, read_asked(descriptors[0]), descriptors[1:])
        if asked is None:
            line.close()
            return None
        changed = stamp() != self.of
        if changed or asked.what["surroundings"] != self.own:
            self._refuse(asked, in_vain=not changed)
            return None
        line.settimeout(None)
        return asked

    def _refuse(self, asked: "ForkRequest", in_vain: bool) -> None:
        """Of no use to who asks, and where that is `in_vain`, perhaps to nobody: another may take the place."""
        if in_vain and not self.served and (record := ServerFolder(self.place.folder).record()):
            with suppress(OSError):
                self.place.in_vain.write_text(str(record.jvm))
        self._end()
        with suppress(OSError):
            asked.line.send(NUMBER.pack(0))
        asked.line.close()
        asked.close()

    def _end(self) -> None:
        """Nobody is served any more."""
        self.asking = False
        self.place.socket.unlink(missing_ok=True)
        self._let_go()

    def _let_go(self) -> None:
        self.door.close()
        os.close(self.lock)


@dataclass
class ForkRequest:
    """What one command asks: the line to it, what it says, the descriptor of its life, and those it would inherit."""

    line: socket.socket
    what: dict[str, Any]
    descriptors: list[int]

    def close(self) -> None:
        """Let go of what only the fork needs; the line goes on."""
        for descriptor in self.descriptors:
            os.close(descriptor)

    def become(self) -> None:
        """Be the process of the command, as if an interpreter had been started for it, and wait for leave to go on."""
        life, *given = self._above(wanted := self.what["descriptors"])
        for number, descriptor in zip(wanted, given, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        # The kernel's doing: a command that is killed is killed, whatever this process or the one that forked it do.
        fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        become(self.what, self.what["argv"])
        sys.path[:0] = [self.what["path0"]]
        for number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)
        for number in self.what["ignored"]:
            signal.signal(number, signal.SIG_IGN)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        if not go_on(self.line):
            os._exit(0)

    def _above(self, wanted: Sequence[int]) -> list[int]:
        """The descriptors, and the line, moved above the numbers that they are wanted at."""
        least = max(wanted) + 1
        moved = [fcntl.fcntl(d, fcntl.F_DUPFD_CLOEXEC, least) for d in (self.line.fileno(), *self.descriptors)]
        self.line.close()
        self.close()
        self.line, self.descriptors = socket.socket(fileno=moved[0]), moved[1:]
        return self.descriptors


def has_server(place: WaitingPlace) -> bool:
    """Whether the lake's server runs, or is about to."""
    record = ServerFolder(place.folder).record()
    return record is not None and record.supervisor.is_alive()


def _await_server(place: WaitingPlace) -> None:
    """Return once there is a server; where none is and nobody is there who would start one, this process ends."""
    while not has_server(place):
        if not place.folder.exists() or _is_idle(place):
            os._exit(0)
        time.sleep(LOOK_SECONDS)


def _is_idle(place: WaitingPlace) -> bool:
    file = ServerFolder(place.folder).open_in_use()
    try:
        return take(file)
    finally:
        os.close(file)


def _door(place: WaitingPlace) -> socket.socket:
    fresh = place.socket.with_suffix(".new")  # nobody finds it before it answers
    fresh.unlink(missing_ok=True)
    door, address = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), UnixAddress(fresh)
    door.bind(address.text)
    address.close()
    door.listen()
    fresh.replace(place.socket)
    return door


def main() -> None:
    """Import, wait, serve; a fork goes on here as the command, and tells how it ended: who forked it may be gone."""
    told: list[ForkRequest] = []

    def end(code: int) -> NoReturn:
        """Of this process, or of a fork."""
        leave(code, told[0].line if told else None)

    with ends_at_once(end):
        told.append(_waited(WaitingPlace.of(Path(sys.argv[1]))))
        told[0].become()
        from backfill_assets.cli.app import main as command

        command(end)


def _waited(place: WaitingPlace) -> ForkRequest:
    """Import, wait, serve. Returns in forks alone."""
    of, lock = stamp(), place.take()
    if lock is None:
        os._exit(0)
    place.socket.unlink(missing_ok=True)  # of one that was killed
    own = surroundings(frozenset(ONE_THREAD))
    import_all((*ROOMS, "cli"))
    _await_server(place)
    del sys.path[0]
    return Waiting(place, _door(place), lock, own, of).serve()
