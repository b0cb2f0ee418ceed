"""Processes of chunks: begun at once, waited for, and none left when the one that began them is
interrupted.

Tested here: `plans.work.failure_causes` with programs of a line. Not tested here: chunks
(`plans/test_plan_job.py`, `plans/test_run_command.py`).
"""

import signal
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest

from backfill_assets.plans.work import failure_causes
from backfill_assets_tests.processes import CHECKOUT, as_in_a_terminal, until

FAILS = "print('noise'); print('no disk'); raise SystemExit(1)"
PARENT = """
import sys
from backfill_assets.plans.work import failure_causes
sleeper = (sys.executable, "-c", "import signal; print('x', file=sys.stderr) if 0 else signal.pause()")
failure_causes([sleeper, sleeper])
"""
# An interrupt comes as soon as the first child exists, before `Popen` has given it to its caller.
INTERRUPTED = """
import os, sys
def interrupt(frame, event, function):
    if event == "c_return" and function.__name__ == "fork_exec":
        sys.setprofile(None)
        os.kill(os.getpid(), {number})
sys.setprofile(interrupt)
"""


@pytest.mark.usefixtures("processes")
def test_each_prints_its_cause_and_one_that_dies_is_named_by_its_exit_code() -> None:
    well, fails, dies = (
        (sys.executable, "-c", text) for text in ("print('noise')", FAILS, "raise SystemExit(3)")
    )
    assert failure_causes([well, fails, dies]) == [
        "",
        "no disk",
        "its process ended with exit code 3; see its lines above",
    ]


@pytest.mark.usefixtures("processes")
def test_they_get_the_environment_that_is_asked_for_beside_this_processs() -> None:
    tells = (
        sys.executable,
        "-c",
        "import os; print(os.environ['NAMED'], 'PATH' in os.environ); raise SystemExit(1)",
    )
    assert failure_causes([tells], {"NAMED": "eu/shop"}) == ["eu/shop True"]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_ends_the_children_before_the_parent(tmp_path: Path, number: int) -> None:
    log = tmp_path / "log"
    log.touch()
    with as_in_a_terminal():
        started = Popen([sys.executable, "-c", PARENT], cwd=CHECKOUT, stderr=PIPE)
    with started as parent:
        seen = psutil.Process(parent.pid)
        until(lambda: len(seen.children()) == 2, log, 60)
        children = seen.children()
        parent.send_signal(number)
        parent.wait(60)
    assert parent.returncode != 0
    assert not any(child.is_running() for child in children)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_child_that_begins_as_an_interrupt_comes_ends_as_well(
    tmp_path: Path, number: int
) -> None:
    program = INTERRUPTED.format(number=int(number)) + PARENT.replace(
        'signal.pause()"', f'signal.pause()", {str(tmp_path)!r}'
    )
    with as_in_a_terminal():
        parent = Popen([sys.executable, "-c", program], cwd=CHECKOUT)
    assert parent.wait(60) != 0
    running = psutil.process_iter(["cmdline"])
    left = [process for process in running if str(tmp_path) in (process.info["cmdline"] or ())]
    for process in left:
        process.kill()
    assert left == []
