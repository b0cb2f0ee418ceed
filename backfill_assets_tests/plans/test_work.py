"""Processes of chunks: begun at once, waited for, and none left when the one that began them is
interrupted.

Tested here: `plans.work.causes_of` with programs of a line. Not tested here: chunks
(`plans/test_plan_job.py`, `plans/test_run_command.py`).
"""

import signal
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest

from backfill_assets.plans.work import causes_of
from backfill_assets_tests.processes import CHECKOUT, as_in_a_terminal, until

FAILS = "print('noise'); print('no disk'); raise SystemExit(1)"
PARENT = """
import sys
from backfill_assets.plans.work import causes_of
sleeper = (sys.executable, "-c", "import signal; print('x', file=sys.stderr) if 0 else signal.pause()")
causes_of([sleeper, sleeper])
"""


@pytest.mark.usefixtures("processes")
def test_each_prints_its_cause_and_one_that_dies_is_named_by_its_exit_code() -> None:
    well, fails, dies = (
        (sys.executable, "-c", text) for text in ("print('noise')", FAILS, "raise SystemExit(3)")
    )
    assert causes_of([well, fails, dies]) == [
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
    assert causes_of([tells], {"NAMED": "eu/shop"}) == ["eu/shop True"]


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
