"""Interrupts that count: INT and TERM end a process within seconds, whatever it waits for.

Python drops an interrupt that is raised while an object is destroyed, and Dagster one that comes between two steps; so
an interrupt is repeated until the work ends. Not here: what work leaves behind (commits are whole or absent).
"""

import builtins
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

AGAIN_SECONDS = 1.5  # a run that received it ends within 1 s on an idle machine
LONGEST_END_SECONDS = 12
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """The work was interrupted by the signal `number`. `told`: what it had written, where somebody looked."""

    def __init__(self, number: int, told: str = "") -> None:
        super().__init__(number)
        self.number, self.told = number, told


@dataclass
class Ending:
    """Whether an interrupt came; `number` is its signal, None before one."""

    number: int | None = None


@contextlib.contextmanager
def ends_when_interrupted() -> Iterator[Ending]:
    """While the block runs, INT and TERM are repeated until it is left; twelve seconds later the process has ended.

    Only for processes that end with their work: at a Python prompt, in a thread, and in a block inside a block, nothing
    is repeated.
    """
    ending, over = Ending(), threading.Event()
    prompt = hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__")
    if prompt or threading.current_thread() is not threading.main_thread():
        yield ending
        return
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    listened = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    if listened != -1:
        signal.set_wakeup_fd(listened)
        yield ending
        return
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    threading.Thread(target=_insist, args=(ending, ear, over), name="interrupts", daemon=True).start()
    try:
        yield ending
    finally:
        signal.set_wakeup_fd(-1)
        over.set()
        mouth.close()
        for number, handler in before.items():  # Dagster leaves TERM as INT is: ignored, where INT was (`nohup … &`)
            signal.signal(number, handler)


def _insist(ending: Ending, ear: socket.socket, over: threading.Event) -> None:
    """Wait for an interrupt, then repeat it until the work is over. The kernel ends the process if it never is, also
    where the interpreter hangs while it shuts down, long after the block was left."""
    with ear:  # until the end, since the kernel goes on to write
        while ending.number is None:
            heard = ear.recv(64)
            if not heard:
                return
            ending.number = next((n for n in heard if n in INTERRUPTS), None)
        signal.alarm(LONGEST_END_SECONDS)
        while not over.wait(AGAIN_SECONDS):
            signal.pthread_kill(threading.main_thread().ident or 0, ending.number)


@contextlib.contextmanager
def processes_hear_none() -> Iterator[None]:
    """Processes that are begun within never hear INT; this one hears it at `hear` or at the end of the block.

    A terminal sends it to all processes. Dagster begins some with each run that pass on what is printed, and they
    would end with a traceback each, before what this process prints last.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear() -> None:
    """Let this thread hear INT again."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
