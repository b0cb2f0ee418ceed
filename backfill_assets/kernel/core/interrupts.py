"""Interrupts that count: INT and TERM end a process within seconds, whatever it waits for.

Python drops an interrupt that is raised while an object is destroyed, and Dagster one that comes
between two steps; so an interrupt is repeated until the work ends, and kept back while a
transaction of milliseconds is written. Not here: what work leaves behind (commits are whole or
absent).
"""

import builtins
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

AGAIN_SECONDS = 1.5  # a run that received it ends within 1 s on an idle machine
LONGEST_END_SECONDS = 12
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """The work was interrupted by the signal `number`. `written`: a text about what it had written,
    if known."""

    def __init__(self, number: int, written: str = "") -> None:
        super().__init__(number)
        self.number, self.written = number, written


@dataclass
class Ending:
    """Whether an interrupt came; `number` is its signal, None before one."""

    number: int | None = None
    came: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def ends_when_interrupted() -> Iterator[Ending]:
    """While the block runs, INT and TERM are repeated until it is left; twelve seconds later the
    process has ended. Raises `Interrupted` with the signal's number: Dagster, and after it Python,
    has one exception for both.

    Only for processes that end with their work: at a Python prompt, in a thread, and in a block
    inside a block, nothing is repeated.
    """
    ending = Ending()
    if not _may_repeat():
        yield ending
        return
    with _repeating_interrupts(ending):
        try:
            yield ending
        except (KeyboardInterrupt, RuntimeError) as error:
            if isinstance(error, KeyboardInterrupt):  # DuckDB makes a RuntimeError of an interrupt
                ending.came.wait(AGAIN_SECONDS)
            if ending.number is None or isinstance(error, Interrupted):
                raise
            raise Interrupted(ending.number) from error


def _may_repeat() -> bool:
    """Whether interrupts can be repeated: in the main thread, at no prompt, in no such block."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__"):
        return False
    earlier = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(earlier)
    return earlier == -1  # else such a block, or another program, waits for signals there


@contextlib.contextmanager
def _repeating_interrupts(ending: Ending) -> Iterator[None]:
    """Repeat interrupts in a thread until the block is left."""
    over = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    threading.Thread(
        target=_repeat_interrupt, args=(ending, reader, over), name="interrupts", daemon=True
    ).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        over.set()
        writer.close()
        # Dagster leaves TERM as INT is: ignored, where INT was (`nohup … &`).
        for number, handler in before.items():
            signal.signal(number, handler)


def _repeat_interrupt(ending: Ending, reader: socket.socket, over: threading.Event) -> None:
    """Wait for an interrupt, then repeat it until the work is over. The kernel ends the process if
    the work never ends, also if the interpreter hangs in its shutdown, long after the block."""
    with reader:  # until the end, since the kernel goes on to write
        while ending.number is None:
            signals = reader.recv(64)
            if not signals:
                return
            ending.number = next((n for n in signals if n in INTERRUPTS), None)
        ending.came.set()
        signal.alarm(LONGEST_END_SECONDS)
        while not over.wait(AGAIN_SECONDS):
            signal.pthread_kill(threading.main_thread().ident or 0, ending.number)


@dataclass
class _Held:
    """A handler that keeps interrupts back."""

    before: dict[int, Any]  # the handlers in whose place it stands
    came: list[int] = field(default_factory=list)  # signals that were kept back
    over: bool = False  # it passes on what still comes: handlers cannot be put back at one moment

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.over:
            self.came.append(number)
            return
        signal.signal(number, self.before[number])
        signal.raise_signal(number)


@contextlib.contextmanager
def hold_interrupts() -> Iterator[None]:
    """Keep INT and TERM back until the block is left; then the first that came is raised.

    For milliseconds of work that an exception must not cut in two. A signal mask of this thread
    would not do: Python raises in the main thread what the kernel delivers to any other. Within
    another such block, and in other threads, which are never interrupted, this does nothing.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in INTERRUPTS}
    # None: a handler that Python did not set, and could not put back.
    before: dict[int, Any] = {n: handler for n, handler in handlers.items() if handler is not None}
    is_held = any(isinstance(handler, _Held) and not handler.over for handler in before.values())
    if not is_main or is_held:
        yield
        return
    held = _Held(before)
    try:
        for number in before:
            signal.signal(number, held)
        yield
    finally:
        held.over = True
        for number, handler in before.items():
            signal.signal(number, handler)
        if held.came:
            signal.raise_signal(held.came[0])


def is_interrupt_held() -> bool:
    """Whether an interrupt waits until the block of `hold_interrupts` is left."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, _Held) and bool(handler.came)


@contextlib.contextmanager
def children_ignore_interrupts() -> Iterator[None]:
    """Processes that are begun within never receive INT; this one receives it after
    `receive_interrupts` or the block.

    A terminal sends it to all processes. Dagster begins some with each run that pass on what is
    printed, and they would end with a traceback each, before what this process prints last.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def receive_interrupts() -> None:
    """Let this thread receive INT again."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
