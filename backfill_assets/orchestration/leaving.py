"""How a process of ours ends: when its work is done it is gone, and nothing is taken apart.

Lives here: the end of commands, of forks and of a chunk's process. Does not live here: interrupts (`interrupts`), and
processes that somebody else begins and ends (Dagster's).
"""

import atexit
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from backfill_assets.engine.waiting_place import NUMBER

UNTOLD = 120  # the interpreter's own exit code where it cannot write what is left to tell


def leave(code: int, line: socket.socket | None = None) -> NoReturn:
    """End the process with this exit code, and with `UNTOLD` instead of 0 where what it said cannot be written. On the
    `line`, if any, it is told as `waitpid` would."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or UNTOLD
        except ValueError:
            pass  # it is closed: whoever did that has flushed it
    if line is not None:
        with suppress(OSError):
            line.send(NUMBER.pack((code & 0xFF) << 8))
    os._exit(code)


@contextmanager
def ends_at_once(end: Callable[[int], object] = leave) -> Iterator[None]:
    """The process ends as the block does, by `end`, when its threads have ended and all that was registered in the
    block was called: so begin it before anything is imported. An interrupt that comes meanwhile ends it at once.

    The interpreter would take a million objects of modules apart: 0.9 s of CPU time after a command has said its last.
    """
    ended = [1]  # of an exception that nobody catches: the interpreter prints it, then calls what is registered
    atexit.register(_end, end, ended)
    if logging := sys.modules.get("logging"):
        atexit.register(logging.shutdown)  # its own registration is older than this block, and so comes too late
    try:
        yield
        ended[0] = 0
    except SystemExit as told:
        ended[0] = told.code if isinstance(told.code, int) else bool(told.code)
        raise
    except KeyboardInterrupt:
        ended[0] = 128 + signal.SIGINT
        raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # too late for one: no traceback of what tidies up
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda _number, _frame: _end(end, ended))


def _end(end: Callable[[int], object], ended: Sequence[int]) -> None:
    end(ended[0])
