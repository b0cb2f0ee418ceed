"""Starts commands as forks of a process that has imported what they import (`starter`), as if
interpreters were begun. Here: a `subprocess.Popen` whose process is such a fork. Not here: what a
fork becomes (`starter`), and what tests call (`processes`)."""

import atexit
import json
import os
import select
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from backfill_assets_tests.starter import ONE_THREAD, ROOM_FOR_WORDS, STATUS

PATIENCE_SECONDS = 30.0  # a starter ends in milliseconds


class Fork(subprocess.Popen[str]):
    """A process that the starter forked: not a child of this process, so that the starter tells how
    it ended."""

    def _execute_child(
        self,
        args: list[str],
        executable: object,
        preexec_fn: object,
        close_fds: object,
        pass_fds: object,
        cwd: Path,
        env: dict[str, str],
        *rest: Any,
    ) -> None:
        """Ask for the fork; `rest` as in Python 3.11 to 3.14."""
        pipes, session = rest[3:9], bool(rest[14])
        sys.audit("subprocess.Popen", args[0], args, cwd, env)
        streams = [
            own if given == -1 else given
            for own, given in enumerate((pipes[0], pipes[3], pipes[5]))
        ]
        heard, report = os.pipe()
        self._report = os.fdopen(heard, "rb", buffering=0)
        os.umask(umask := os.umask(0o077))
        asked = {
            "args": args,
            "cwd": os.fspath(cwd),
            "env": env,
            "session": session,
            "umask": umask,
        }
        socket.send_fds(starter_door(), [json.dumps(asked).encode()], [*streams, report])
        os.close(report)
        self.pid = self._read_number()
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _read_number(self) -> int:
        told = self._report.read(STATUS.size)
        assert told, "the process that forks commands has ended; it said why on its stderr"
        number: int = STATUS.unpack(told)[0]
        return number

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags == os.WNOHANG and not select.select([self._report], [], [], 0)[0]:
            return 0, 0
        return self.pid, self._read_number()

    def _internal_poll(self, _deadstate: object = None) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


@cache
def starter_door() -> socket.socket:
    """The door of the starter of this process, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [
        sys.executable,
        "-m",
        "backfill_assets_tests.starter",
        str(theirs.fileno()),
        " " * ROOM_FOR_WORDS,
    ]
    process = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[1],
        env={**os.environ, **ONE_THREAD},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        """Nobody asks any more, or what a shell left behind holds the door open in vain."""
        ours.close()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    atexit.register(end)
    return ours
