"""Exceptions raised inside the product at a moment of choice, without a name of it being swapped.
Here: the kinds of exceptions, and raising one at a function's beginning or end, or at the n-th line
that a part of the product runs; doing something at a function's beginning; what ends with a
process. Not here: kills of processes (`processes`), and what has to hold afterwards. Python's own
tracing raises them where they arise by themselves: between two lines of the product."""

import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from backfill_assets_tests.processes import CHECKOUT

PACKAGE = str(CHECKOUT / "backfill_assets")


class Terminated(KeyboardInterrupt):
    """What the handler of SIGTERM raises, as the commands' does."""


def _terminated() -> BaseException:
    def heard(number: int, frame: FrameType | None) -> None:
        raise Terminated(number)

    before = signal.signal(signal.SIGTERM, heard)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pthread_sigmask(
            signal.SIG_BLOCK, []
        )  # a call of the kernel, by which the signal is heard
    except Terminated as error:
        return error
    finally:
        signal.signal(signal.SIGTERM, before)
    raise AssertionError("the signal was not heard")


def _of_disk(number: int) -> Callable[[], BaseException]:
    return lambda: OSError(number, os.strerror(number))


ERRORS: dict[str, Callable[[], BaseException]] = {
    "an interrupt": KeyboardInterrupt,
    "SIGTERM": _terminated,
    "no memory": MemoryError,
    "EIO": _of_disk(errno.EIO),
    "ENOSPC": _of_disk(errno.ENOSPC),
    "EDQUOT": _of_disk(errno.EDQUOT),
    "EMFILE": _of_disk(errno.EMFILE),
}
RAISED = (KeyboardInterrupt, MemoryError, OSError)


@dataclass
class Met:
    """Whether the moment came: what was raised (None: nothing so far), and where."""

    error: BaseException | None = None
    place: str = ""

    def meet(self, make: Callable[[], BaseException], frame: FrameType) -> None:
        """Raise, once."""
        self.error, self.place = make(), f"{frame.f_code.co_qualname}:{frame.f_lineno}"
        sys.settrace(None)
        raise self.error


@contextmanager
def _tracing(trace: Callable[[FrameType, str, Any], Any]) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def raising_around(
    function: Callable[..., Any], behind: bool, make: Callable[[], BaseException]
) -> Iterator[Met]:
    """Within, the first call of a function of the product raises: in front of its first line, or
    `behind` its last."""
    assert isinstance(function, FunctionType)
    code, met = function.__code__, Met()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not code or met.error:
            return None
        if not behind:
            met.meet(make, frame)
        return ends

    def ends(frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            met.meet(make, frame)
        return ends

    with _tracing(trace):
        yield met


@contextmanager
def doing_before(
    function: Callable[..., Any], act: Callable[[], object], **given: object
) -> Iterator[None]:
    """Within, `act` is done before the first line of the first call of a function of the product
    (that is `given` these): another command that comes in between."""
    assert isinstance(function, FunctionType)
    code = function.__code__

    def trace(frame: FrameType, event: str, _: Any) -> None:
        # A dict of them: Python 3.13's `f_locals.items()` is a list, which knows no subsets (PEP
        # 667).
        if frame.f_code is code and dict(frame.f_locals).items() >= given.items():
            sys.settrace(None)
            act()

    with _tracing(trace):
        yield


@contextmanager
def raising_at(
    line: int, rooms: Collection[str], make: Callable[[], BaseException]
) -> Iterator[Met]:
    """Within, the n-th line that these parts of the product run (e.g. "kernel/tables/staging.py")
    raises; 0: none does."""
    met, left = Met(), line
    wanted, known = tuple(f"{PACKAGE}/{room}" for room in rooms), dict[CodeType, bool]()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code not in known:
            known[code] = code.co_filename.startswith(wanted)
        return lines if known[code] and not met.error else None

    def lines(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "line" and not met.error:
            left -= 1
            if left == 0:
                met.meet(make, frame)
        return lines

    if not line:
        yield met
        return
    with _tracing(trace):
        yield met


def end_process(root: Path) -> None:
    """End what ends with a process: its locks and holds below a folder."""
    gc.collect()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if link.readlink().is_relative_to(root):
                os.close(int(link.name))
