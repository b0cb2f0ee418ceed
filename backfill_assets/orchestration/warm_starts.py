"""Asks the process that has imported everything (`warm_process`) for processes of runs, and begins and ends it.

Lives here: when it is begun anew, and the line to each run's process. Does not live here: which runs are begun so, and
what is told of them (`run_launcher`). Linux only; nothing of Dagster is known here.
"""

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.core.interpreter import INSTALLED, python_command, with_package
from backfill_assets.engine.processes import PlacedProcess, Process
from backfill_assets.engine.waiting_place import ASK, GO, number_on
from backfill_assets.orchestration.warm_process import ONE_THREAD

CAN_FORK = hasattr(os, "pidfd_open") and hasattr(socket, "send_fds")  # Linux
PACKAGE = Path(__file__).parents[1]
START_SECONDS = 120.0  # three on an idle machine; below the time that run monitoring gives a run
COMMAND = python_command("backfill_assets.orchestration.warm_process")

Stamp = frozenset[tuple[str, int]]


def stamp(package: Path = PACKAGE) -> Stamp:
    """What the imports rest on, as it is now: the files of our package, which may be edited, and what is installed."""
    files = [Path(folder, name) for folder, _, names in os.walk(package) for name in names if name.endswith(".py")]
    folders = [Path(path) for path in sys.path if path.endswith(INSTALLED)]
    return frozenset((str(path), path.stat().st_mtime_ns) for path in [*files, *folders] if path.exists())


@dataclass(frozen=True)
class Begun:
    """A process that waits for leave to go on as a run, and ends without it. `line` leads to it."""

    process: PlacedProcess
    line: socket.socket

    def go(self) -> None:
        """Let it run."""
        self.line.send(GO)

    def wait(self) -> int | None:
        """How it ended, as `subprocess` tells it; None where the process that would know has ended before it."""
        with self.line:
            told = number_on(self.line)
        return None if told is None else os.waitstatus_to_exitcode(told)


class WarmStarts:
    """One process that has imported everything, begun when it is needed first, anew when what it has imported has
    changed or it died. May be asked by several threads. A `command` that fails is not tried again for the same files.
    """

    def __init__(self, command: Sequence[str] = COMMAND, package: Path = PACKAGE) -> None:
        self._command, self._package = command, package
        self._lock = threading.Lock()
        self._door: socket.socket | None = None
        self._of: Stamp = frozenset()
        self._in_vain: Stamp | None = None
        self.pid: int | None = None  # of the process that serves

    def warm_up(self) -> None:
        """Begin the process that imports, if there is none; does not wait until it has."""
        with self._lock:
            self._open()

    def begin(self, words: Sequence[str], env: Mapping[str, str] | None = None) -> Begun | None:
        """A process that goes on as `python -m dagster` with these words; None where that cannot be had."""
        asked = {"words": list(words), "cwd": str(Path.cwd()), "env": dict(os.environ if env is None else env)}
        message = json.dumps(asked).encode()
        with self._lock:
            for _ in range(2):
                fresh = self._open()
                if self._door is None:
                    return None
                if (begun := _asked(self._door, message)) is not None:
                    return begun
                self._shut()
                if fresh:
                    self._in_vain = self._of
                    log = logging.getLogger("dagster")
                    log.warning("No process could be kept that has the imports of runs done. Runs start as ever.")
        return None

    def close(self) -> None:
        """Nobody asks any more: the process ends, after the runs that it began."""
        with self._lock:
            self._shut()

    def _open(self) -> bool:
        """See that there is a process for the files as they are, unless one failed for them; whether it is new."""
        now = stamp(self._package)
        if self._door is not None and now == self._of:
            return False
        self._shut()
        if now == self._in_vain:
            return False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [*self._command, str(theirs.fileno())], env=with_package({**os.environ, **ONE_THREAD}),
                stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        threading.Thread(target=process.wait, name="warm-process", daemon=True).start()
        self._door, self._of, self.pid = ours, now, process.pid
        return True

    def _shut(self) -> None:
        if self._door is not None:
            self._door.close()
        self._door = self.pid = None


def _asked(door: socket.socket, message: bytes) -> Begun | None:
    """A process of the one behind the door; None where that has ended, or does not answer."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, os.fdopen(os.memfd_create("asked"), "wb") as asked:
        asked.write(message)
        asked.seek(0)
        try:
            socket.send_fds(door, [ASK], [theirs.fileno(), asked.fileno()])
        except OSError:
            ours.close()
            return None
    ours.settimeout(START_SECONDS)
    pid = number_on(ours)
    if pid is None:
        ours.close()
        return None
    ours.settimeout(None)
    return Begun(PlacedProcess.of(Process.of(pid) or Process(pid, 0.0)), ours)
