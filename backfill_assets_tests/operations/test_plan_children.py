"""Processes of chunks: begun at once, heard to their end, and none left when the one that began them is interrupted.

Tested here: `operations.plan_children` with programs of a line. Not tested here: what the processes are for.
"""

import signal
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest

from backfill_assets.operations.plan_children import Child, causes_of, said
from backfill_assets_tests.processes import CHECKOUT, as_in_a_terminal, until

SAYS = "import sys; asked = sys.stdin.read(); print('noise'); print(asked)"
PARENT = """
import sys
from backfill_assets.operations.plan_children import Child, causes_of
sleeper = (sys.executable, "-c", "import signal; print('x', file=sys.stderr) if 0 else signal.pause()")
causes_of([Child(sleeper), Child(sleeper)])
"""


@pytest.mark.usefixtures("processes")
def test_each_says_its_cause_and_one_that_dies_is_told_by_its_exit_code() -> None:
    program = (sys.executable, "-c", SAYS)
    dies = Child((sys.executable, "-c", "raise SystemExit(3)"))
    assert causes_of([Child(program, said("")), Child(program, said("no disk")), dies]) == [
        "", "no disk", "its process ended with exit code 3; what it said stands above",
    ]  # fmt: skip


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
