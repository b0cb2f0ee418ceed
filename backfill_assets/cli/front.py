"""The console script: where a process waits beside the lake's server, the command is a fork of it, else it begins here.

Lives here: asking for the fork, passing on what the terminal and others tell this process, and ending as the fork ends.
Does not live here: the process that waits (`waiting`) and the commands (`app`). Until it is known that the command
begins here, nothing is imported but the standard library. Whatever is odd, the command begins here, without a word.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from backfill_assets.cli.surroundings import surroundings
from backfill_assets.core.lake_meant import lake_folder, named_in
from backfill_assets.engine.unix_sockets import UnixAddress
from backfill_assets.engine.waiting_place import ASK, GO, NUMBER, WaitingPlace, is_own, is_possible, number_on

ANSWER_SECONDS = 5.0  # a fork is there within some ten milliseconds, unless the machine stalls
STATUS_SECONDS = 5.0
# What a terminal tells all of a job's processes; TERM is told to one.
OF_A_JOB = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGWINCH)
PASSED_ON = (*OF_A_JOB, signal.SIGTERM)


def main() -> None:
    """The console script: this very command, in a fork or here."""
    _open_streams()
    if (fork := _fork()) is not None:
        fork.accompany()
    from backfill_assets.orchestration.leaving import ends_at_once

    with ends_at_once():
        from backfill_assets.cli.app import main as command

        _begin_for_others()
        command()


def _open_streams() -> None:
    """A stream that is closed leads nowhere: else the next file that is opened had its number, and got what is said."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, mode))


def _begin_for_others() -> None:
    """Beside a server that runs, this command is the last that begins without a fork."""
    with contextlib.suppress(OSError, RuntimeError):
        lake = lake_folder(named_in(sys.argv[1:]))
        if is_possible() and WaitingPlace.of(lake).is_beside_server:
            from backfill_assets.cli.waiting import begin

            begin(lake)


@dataclass(frozen=True)
class Accompanied:
    """A fork that waits for leave to go on as the command. `told` is a descriptor that tells of its end; it is killed
    as soon as `life` is closed, also by the end of this process."""

    line: socket.socket
    pid: int
    told: int
    life: int

    def accompany(self) -> NoReturn:
        """Let it run, pass on what this process is told, and end as it ended."""
        for number in PASSED_ON:
            self._answer(number, self._pass_on)
        self._answer(signal.SIGTSTP, self._stop)
        self._answer(signal.SIGCONT, self._pass_on)
        self.line.send(GO)
        self._await_end()
        self.line.settimeout(STATUS_SECONDS)
        ended = number_on(self.line)
        if ended is None:
            os.write(2, b"Error: how this command ended is not known. See `backfill-assets status`.\n")
            os._exit(1)
        if os.WIFSIGNALED(ended):
            _die_of(os.WTERMSIG(ended))
        os._exit(os.waitstatus_to_exitcode(ended))

    def _await_end(self) -> None:
        """Signals wake this up through a pipe: one that comes just before `select` would not end it, and not be passed
        on."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        while self.told not in select.select([self.told, woken], [], [])[0]:
            os.read(woken, 64)

    def _answer(self, number: int, how: Callable[[int, FrameType | None], None]) -> None:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, how)

    def _pass_on(self, number: int, _frame: FrameType | None = None) -> None:
        if select.select([self.told], [], [], 0)[0]:
            return  # it has ended
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number) if number == signal.SIGTERM else os.killpg(self.pid, number)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._pass_on(signal.SIGSTOP)  # TSTP would not stop a group that belongs to no terminal
        os.kill(os.getpid(), signal.SIGSTOP)


def _die_of(number: int) -> NoReturn:
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _fork() -> Accompanied | None:
    """A fork for this very command, where there is a process to have it from; else None."""
    try:
        place = WaitingPlace.of(lake_folder(named_in(sys.argv[1:]))) if is_possible() else None
        if place is None or not place.socket.exists() or _is_behind():
            return None
        address = UnixAddress(place.socket)
        try:
            line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            line.settimeout(ANSWER_SECONDS)
            line.connect(address.text)
        finally:
            address.close()
        return _asked(line) if is_own(line) else None
    except (OSError, ValueError, RuntimeError):
        return None


def _is_behind() -> bool:
    """Whether the terminal would stop this process when it reads; a fork, which has no terminal, would not be."""
    return os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp()


def _inherited() -> list[int]:
    """The descriptors that this process was given, and gives to those that it starts: the streams, and perhaps more."""
    found = []
    for number in sorted(int(entry.name) for entry in os.scandir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # that of the listing itself
            found += [number] if os.get_inheritable(number) else []
    return found


def _asked(line: socket.socket) -> Accompanied | None:
    given = _inherited()
    if not {0, 1, 2} <= set(given):
        return None
    watched, life = os.pipe()
    with os.fdopen(os.memfd_create("asked"), "w", encoding="utf-8") as asked:
        json.dump({"descriptors": given, **_request()}, asked)
        asked.flush()
        asked.seek(0)
        socket.send_fds(line, [ASK], [asked.fileno(), watched, *given])
    os.close(watched)
    answer, descriptors, _, _ = socket.recv_fds(line, NUMBER.size, 1)
    if not descriptors:
        os.close(life)
        line.close()
        return None
    line.settimeout(None)
    return Accompanied(line, NUMBER.unpack(answer)[0], descriptors[0], life)


def _request() -> dict[str, Any]:
    """What a fork is told; what it cannot take over stands apart."""
    return {
        "argv": sys.argv, "path0": sys.path[0], "cwd": str(Path.cwd()), "env": dict(os.environ),
        "ignored": [n for n in (*PASSED_ON, signal.SIGTSTP) if signal.getsignal(n) is signal.SIG_IGN],
        "surroundings": surroundings(),
    }  # fmt: skip
