"""Interrupts that somebody drops on the way: repeated, and in the end obeyed without the one who
drops them.

Tested here: the insisting, in processes of their own. Not tested here: a whole backfill that is
interrupted (`end_to_end.test_interrupts`).
"""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from backfill_assets.kernel.core.interrupts import hold_interrupts, is_interrupt_held
from backfill_assets_tests.processes import CHECKOUT, run_python

# `handler` says what happens to the first interrupts; the process says when it can be interrupted.
DEAF = """
import signal, sys, threading
import backfill_assets.kernel.core.interrupts as interrupts
interrupts.AGAIN_SECONDS, interrupts.LONGEST_END_SECONDS = 0.5, int(sys.argv[2])
heard = []

def handler(number, frame):
    heard.append(number)
    if len(heard) > int(sys.argv[1]):
        raise KeyboardInterrupt

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, handler)
try:
    with interrupts.ends_when_interrupted() as ending:
        with interrupts.ends_when_interrupted():
            print("ready", flush=True)
            while True:
                threading.Event().wait(60)
except interrupts.Interrupted as interrupt:
    print("heard", interrupt.number, set(heard), len(heard), signal.set_wakeup_fd(-1))
"""


# Obeys, and then hangs where no handler of Python's runs any more. The alarm that another thread
# sets is awaited, and brought forward: a busy machine may take long to come here.
STUCK = (
    DEAF
    + """
import atexit

def hang():
    while not signal.getitimer(signal.ITIMER_REAL)[0]:
        threading.Event().wait(0.01)
    print("alarm in", signal.alarm(1), flush=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, [2, 15])
    threading.Event().wait(60)

atexit.register(hang)
"""
)


def interrupted(
    times: str, number: signal.Signals, code: str = DEAF, longest: int = 600
) -> tuple[int, str, str]:
    """Exit code, what was printed, and what came on stderr."""
    command = [sys.executable, "-c", code, times, str(longest)]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        printed, said = process.communicate(timeout=50)
        return process.returncode, printed, said


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_is_dropped_comes_again_until_it_is_heard(number: signal.Signals) -> None:
    code, printed, said = interrupted("2", number)
    assert (code, said) == (0, "")
    assert printed == f"heard {number:d} {{{number:d}}} 3 -1\n"


@pytest.mark.usefixtures("processes")
def test_a_process_that_drops_every_interrupt_is_ended() -> None:
    code, _, _ = interrupted("1000", signal.SIGTERM, longest=1)
    assert code == -signal.SIGALRM


@pytest.mark.usefixtures("processes")
def test_a_process_that_hangs_after_it_obeyed_is_ended_by_the_kernel() -> None:
    code, printed, _ = interrupted("0", signal.SIGTERM, STUCK)
    found = re.fullmatch(r"heard 15 .*\nalarm in (\d+)\n", printed)
    assert found is not None, printed
    assert 0 < int(found[1]) <= 600, "the kernel's alarm outlives the block"
    assert code == -signal.SIGALRM


@pytest.mark.usefixtures("processes")
def test_the_signals_mean_afterwards_what_they_meant_before() -> None:
    code = """
    import signal
    from backfill_assets.kernel.core.interrupts import ends_when_interrupted
    with ends_when_interrupted():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as Dagster does where INT is ignored
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    """
    assert run_python(code) == "True\n"


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The interrupts that this process hears, in order: the first of them is raised, as Python
    does."""
    found: list[int] = []

    def handler(number: int, _: object) -> None:
        found.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    yield found
    for number, earlier in before.items():
        signal.signal(number, earlier)


def other_thread_gets(number: signal.Signals) -> None:
    """Send the signal to a thread that does not block it: Python hears it in the main thread."""
    thread = threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), number))
    thread.start()
    thread.join()


def test_a_held_interrupt_is_raised_when_the_outer_block_is_left(heard: list[int]) -> None:
    done = []

    @hold_interrupts()
    def work() -> None:
        with hold_interrupts():
            other_thread_gets(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
        done.append(is_interrupt_held())

    with pytest.raises(KeyboardInterrupt):
        work()
    assert (done, heard) == ([True], [signal.SIGTERM])
    assert not is_interrupt_held()


def test_a_handler_that_was_not_put_back_passes_the_next_interrupt_on(heard: list[int]) -> None:
    with hold_interrupts():
        left_over = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, left_over)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]
