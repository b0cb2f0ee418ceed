"""What forks run is told as pytest tells its own: found, skipped, broken, captured, warned, stopped, and died in.

Lives here: runs of pytest over small folders with the plugin. Does not live here: which of our runs are forked.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from backfill_assets_tests.processes import CHECKOUT

pytestmark = pytest.mark.usefixtures("processes")

LOOP = """
import os
import pytest
from backfill_assets_tests import forking

FORKS = pytest.StashKey()

@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    early = session.config.rootpath / "early"
    if FORKS not in session.config.stash:
        forks = session.config.stash[FORKS] = forking.Parent(session)
        if early.is_dir():
            forks.begin([str(early)])

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    forks = session.config.stash[FORKS]
    begun = forks.begun()
    items = [index for index in range(len(session.items)) if index not in begun]
    (session.config.rootpath / "pids").write_text(f"{os.getpid()}\\n")
    forks.run([items[first : first + 4] for first in range(0, len(items), 4)], 2)
    return True

@pytest.fixture(scope="session")
def shared(request):
    with open(request.config.rootpath / "made", "a") as made:
        print("made", file=made)
    yield
    with open(request.config.rootpath / "made", "a") as made:
        print("torn down", file=made)
"""

OF_ALL_KINDS = """
import os, warnings
import pytest

@pytest.fixture
def broken():
    raise LookupError("the fixture is broken")

@pytest.fixture
def broken_at_the_end():
    yield
    raise LookupError("the end is broken")

def test_passes(shared, tmp_path): print("nobody sees this")
def test_fails(shared):
    print("captured words")
    assert "left" == "right"
def test_dies(): os._exit(7)
def test_after_the_one_that_died(shared): pass
def test_is_skipped(): pytest.skip("not today")
def test_has_a_broken_fixture(broken): pass
def test_has_a_broken_end(broken_at_the_end): pass
@pytest.mark.xfail(strict=True)
def test_is_expected_to_fail(): assert False
@pytest.mark.parametrize("number", [1, 2])
def test_where_it_runs(number):
    with open("pids", "a") as pids:
        print(os.getpid(), file=pids)
def test_warns(): warnings.warn("mind this", stacklevel=1)
"""


def run(folder: Path, tests: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """What `pytest` says about this module, in a folder with the plugin."""
    (folder / "conftest.py").write_text(LOOP)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_some.py").write_text(tests)
    # A run takes seconds; where one hung (seen once), the stacks of all threads say why.
    patience = ["-o", "faulthandler_timeout=60"]
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:hypothesispytest", *patience, *options]
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTEST_ADDOPTS": "", "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=180, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forked")


@pytest.fixture(scope="module")
def told(folder: Path) -> "subprocess.CompletedProcess[str]":
    return run(folder, OF_ALL_KINDS, "-ra", "-v", "--durations=3", "--junitxml=told.xml")


def test_every_outcome_is_told_and_counted_once(told: "subprocess.CompletedProcess[str]") -> None:
    assert told.returncode == 1
    assert told.stdout.rstrip().splitlines()[-1].strip("= ").startswith(
        "2 failed, 6 passed, 1 skipped, 1 xfailed, 1 warning, 2 errors in"
    ), told.stdout  # fmt: skip
    for line in (
        "FAILED test_some.py::test_fails - AssertionError: assert 'left' == 'right'",
        "SKIPPED [1] test_some.py:20: not today",
        "XFAIL test_some.py::test_is_expected_to_fail",
        "ERROR test_some.py::test_has_a_broken_fixture - LookupError: the fixture is broken",
        "ERROR test_some.py::test_has_a_broken_end - LookupError: the end is broken",
        "UserWarning: mind this",
        "slowest 3 durations",
    ):
        assert line in told.stdout


def test_every_line_of_a_long_report_is_of_one_test(told: "subprocess.CompletedProcess[str]") -> None:
    lines = re.findall(r"^test_some\.py::(\S+) (\w+)", told.stdout, re.MULTILINE)
    assert len(lines) == len(set(lines)) == 12  # the broken end is told twice, as pytest does
    assert ("test_has_a_broken_end", "PASSED") in lines
    assert ("test_has_a_broken_end", "ERROR") in lines


def test_what_a_failing_test_printed_is_shown_and_no_other_ones(told: "subprocess.CompletedProcess[str]") -> None:
    assert "captured words" in told.stdout
    assert "nobody sees this" not in told.stdout


def test_the_death_of_a_child_fails_the_test_it_was_in_and_the_next_one_runs(
    told: "subprocess.CompletedProcess[str]",
) -> None:
    assert "FAILED test_some.py::test_dies - the process that ran test_some.py::test_dies died in it" in told.stdout
    assert "exit code 7" in told.stdout
    assert "test_some.py::test_after_the_one_that_died PASSED" in told.stdout


def test_no_test_ran_in_the_process_that_tells(told: "subprocess.CompletedProcess[str]", folder: Path) -> None:
    suite = ElementTree.parse(folder / "told.xml").getroot()[0]  # noqa: S314  # made here
    assert [suite.get(name) for name in ("errors", "failures", "skipped")] == ["2", "2", "2"]
    parent, *children = (folder / "pids").read_text().split()
    assert len(children) == 2
    assert parent not in children


def test_a_fixture_of_the_session_is_made_once_in_a_child_and_torn_down(
    told: "subprocess.CompletedProcess[str]", folder: Path
) -> None:
    made = (folder / "made").read_text().split("\n")
    assert made.count("made") == 2  # by the child that died, and by the one after it or beside it
    assert made.count("torn down") == 1


def test_what_failed_is_run_again_on_demand(tmp_path: Path) -> None:
    some = "def test_fails(): assert False\ndef test_passes(): pass"
    assert run(tmp_path, some).returncode == 1
    assert " 1 failed in " in run(tmp_path, some, "--lf").stdout


EARLY = """
import os, pytest

@pytest.mark.parametrize("number", range(400))
def test_more_than_a_pipe_holds(number):
    if number == 399:
        open("ran", "w").close()  # only now the other module can be imported
"""
WAITS_FOR_IT = "open('ran').close()\ndef test_later(): pass"
EARLY_DEATH = """
import os
def test_before(): pass
def test_dies(): os._exit(7)
def test_after(): pass
"""


def run_early(folder: Path, early: str, late: str, *options: str) -> "subprocess.CompletedProcess[str]":
    (folder / "early").mkdir()
    (folder / "early" / "test_early.py").write_text(early)
    os.mkfifo(folder / "ran")
    return run(folder, late, *options)


def test_an_early_child_runs_its_tests_while_others_are_collected(tmp_path: Path) -> None:
    told = run_early(tmp_path, EARLY, WAITS_FOR_IT, "-v", "--junitxml=told.xml")
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("PASSED") == 401
    assert ElementTree.parse(tmp_path / "told.xml").getroot()[0].get("tests") == "401"  # noqa: S314  # made here


def test_the_death_of_an_early_child_fails_the_test_that_killed_it_and_no_other(tmp_path: Path) -> None:
    told = run_early(tmp_path, EARLY_DEATH, "def test_later(): pass", "-v")
    assert told.returncode == 1, told.stdout + told.stderr
    assert "1 failed, 3 passed" in told.stdout
    assert "test_dies died in it: exit code 7" in told.stdout


ENDLESS = """
import pytest, time

@pytest.mark.parametrize("n", range(20))
def test_ends(n):
    if n < 4: assert n == 5
    time.sleep(50)
"""

BROKEN = """
class Plugin:
    def pytest_runtest_logfinish(self): 1 / 0

def test(request): request.config.pluginmanager.register(Plugin())
"""


@pytest.mark.parametrize(
    ("tests", "options", "code", "words"),
    [
        (ENDLESS, ["-x"], 1, "stopping after 1 failures"),
        ("import pytest\ndef test(): pytest.exit('enough', returncode=9)", [], 9, "Exit: enough"),
        ("def test(request): request.session.shouldstop = 'asked to'", [], 2, "Interrupted: asked to"),
        (BROKEN, [], 3, "ZeroDivisionError"),
    ],
    ids=["-x", "pytest.exit", "shouldstop", "a broken plugin"],
)
def test_a_run_that_is_stopped_says_why(tmp_path: Path, tests: str, options: list[str], code: int, words: str) -> None:
    stopped = run(tmp_path, tests, *options)
    assert stopped.returncode == code, stopped.stdout + stopped.stderr
    assert words in stopped.stdout + stopped.stderr
