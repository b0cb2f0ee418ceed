"""Interrupts that count: INT and TERM end a process within seconds, whatever it waits for and whoever catches them.

Lives here: insisting on an interrupt while work is done. Does not live here: what work leaves behind (commits are whole
or absent) and the message of a command (`cli`).

Why: an interrupt can get lost. Python drops one that is raised while an object is destroyed, and Dagster one that comes
between two steps; the run then goes on to its end.
"""

import builtins
import contextlib
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator

AGAIN_SECONDS = 1.5  # a run that heard us ends within 1 s on an idle machine
LONGEST_END_SECONDS = 10.0
LAST_SECONDS = 2.0


class Interrupted(KeyboardInterrupt):
    """The work was interrupted by the signal `number`. `told`: what it had written, where somebody looked."""

    def __init__(self, number: int, told: str = "") -> None:
        super().__init__(number)
        self.number, self.told = number, told


class Ending:
    """Whether an interrupt came; `number` is its signal, None before one."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._over = threading.Event()
        self._ear, self.mouth = socket.socketpair()
        self.mouth.setblocking(False)

    def listen(self) -> None:
        """Wait for an interrupt, then repeat it until the work ends, and in the end end the process without it."""
        while (number := _first(heard := self._ear.recv(64, socket.MSG_PEEK))) is None:
            if not heard:
                return
            self._ear.recv(len(heard))
        self.number = number
        # The kernel's own: it comes even if the interpreter hangs while it shuts down, long after the block was left.
        signal.alarm(math.ceil(LONGEST_END_SECONDS + LAST_SECONDS))
        main, left = threading.main_thread(), LONGEST_END_SECONDS
        while not self._over.wait(AGAIN_SECONDS):
            left -= AGAIN_SECONDS
            if left <= 0:
                os.write(2, b"Interrupted, and ended by force: what was committed stands. Run again.\n")
                os.kill(os.getpid(), signal.SIGKILL)
            signal.pthread_kill(main.ident or 0, self.number)

    def close(self) -> None:
        """The work is over: stop listening."""
        self._over.set()
        self.mouth.close()


def _first(heard: bytes) -> int | None:
    return next((n for n in heard if n in (signal.SIGINT, signal.SIGTERM)), None)


@contextlib.contextmanager
def processes_hear_none() -> Iterator[None]:
    """Processes that are begun within never hear INT; this one hears it at `hear` or at the end of the block.

    Of a terminal it goes to all processes. Dagster begins some with each run that pass on what is printed, and they
    would end with a traceback each, before what this process says last.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear() -> None:
    """Let this thread hear INT again."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


@contextlib.contextmanager
def ends_when_interrupted() -> Iterator[Ending]:
    """While the block runs, INT and TERM are repeated until it is left; ten seconds later the process has ended.

    Only for processes that end with their work: at a Python prompt, in a thread, and where the signals are listened to
    already (a block inside a block), nothing is repeated.
    """
    ending = Ending()
    prompt = hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__")
    if prompt or threading.current_thread() is not threading.main_thread():
        yield ending
        return
    listened = signal.set_wakeup_fd(ending.mouth.fileno(), warn_on_full_buffer=False)
    if listened != -1:
        signal.set_wakeup_fd(listened)
        yield ending
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    threading.Thread(target=ending.listen, name="interrupts", daemon=True).start()
    try:
        yield ending
    finally:
        signal.set_wakeup_fd(-1)
        ending.close()
        for number, handler in before.items():  # Dagster leaves TERM as INT is: ignored, where INT was (`nohup … &`)
            signal.signal(number, handler)
