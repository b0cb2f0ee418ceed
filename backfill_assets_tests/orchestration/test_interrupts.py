"""Interrupts that somebody drops on the way: repeated, and in the end obeyed without the one who drops them.

Tested here: the insisting, in processes of their own. Not tested here: a whole backfill that is interrupted
(`end_to_end.test_interrupts`).
"""

import signal
import subprocess
import sys
import time

import pytest

from backfill_assets_tests.processes import CHECKOUT, run_python

# `handler` says what happens to the first interrupts; the process says when it can be interrupted.
DEAF = """
import signal, sys, threading
import backfill_assets.orchestration.interrupts as interrupts
interrupts.AGAIN_SECONDS, interrupts.LONGEST_END_SECONDS = 0.1, 1
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
except KeyboardInterrupt:
    print("heard", ending.number, set(heard), len(heard), signal.set_wakeup_fd(-1))
"""


# Obeys, and then hangs where no handler of Python's runs any more.
STUCK = (
    DEAF
    + """
import atexit
atexit.register(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [2, 15]) or threading.Event().wait(60))
"""
)


def interrupted(times: str, number: signal.Signals, code: str = DEAF) -> tuple[int, str, str]:
    """Exit code, what was printed, and what came on stderr."""
    command = [sys.executable, "-c", code, times]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        printed, said = process.communicate(timeout=20)
        return process.returncode, printed, said


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_is_dropped_comes_again_until_it_is_heard(number: signal.Signals) -> None:
    code, printed, said = interrupted("2", number)
    assert (code, said) == (0, "")
    assert printed == f"heard {number:d} {{{number:d}}} 3 -1\n"


@pytest.mark.usefixtures("processes")
def test_a_process_that_drops_every_interrupt_is_ended() -> None:
    began = time.monotonic()
    code, _, _ = interrupted("1000", signal.SIGTERM)
    assert code == -signal.SIGALRM
    assert time.monotonic() - began < 10


@pytest.mark.usefixtures("processes")
def test_a_process_that_hangs_after_it_obeyed_is_ended_by_the_kernel() -> None:
    began = time.monotonic()
    code, printed, _ = interrupted("0", signal.SIGTERM, STUCK)
    assert printed.startswith("heard")
    assert code == -signal.SIGALRM
    assert time.monotonic() - began < 10


@pytest.mark.usefixtures("processes")
def test_the_signals_mean_afterwards_what_they_meant_before() -> None:
    code = """
    import signal
    from backfill_assets.orchestration.interrupts import ends_when_interrupted
    with ends_when_interrupted():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as Dagster does where INT is ignored
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    """
    assert run_python(code) == "True\n"
