"""What no step of `.ci/run` runs stands in a list with its reason, or `.ci/run` fails.
Not here: `.ci/run` itself, and why a test skips (the test says it)."""

import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets_tests.sources import CHECKOUT

PROGRAM = CHECKOUT / ".ci" / "skipped.py"
TESTS = """
import pytest

def test_runs(): pass

@pytest.mark.parametrize("n", [1, 2])
def test_here_only(n): pytest.skip("no Java here")

class TestAll:
    def test_in_a_class(self): pytest.skip("no browser here")

@pytest.mark.xfail
def test_that_fails(): raise ValueError
"""
SHARED = "from test_x import test_here_only"
NEVER = {"test_here_only[1]", "test_here_only[2]", "TestAll::test_in_a_class"}

pytestmark = pytest.mark.usefixtures("processes")


def report(folder: Path, name: str, text: str) -> Path:
    """The report of a run of these tests, in a folder of its own, so that nothing of this suite's
    settings holds."""
    (folder / "test_x.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    words = ["-q", "-p", "no:randomly", f"--junitxml={name}.xml"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=folder, check=True, capture_output=True
    )
    return folder / f"{name}.xml"


def run(verb: str, *reports: Path) -> tuple[int, list[str]]:
    """How the program ended that was started beside the tests, and its lines."""
    command = [sys.executable, str(PROGRAM), verb, *map(str, reports)]
    done = subprocess.run(
        command, cwd=reports[0].parent, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


def test_skipped_tests_are_named_as_pytest_takes_them(tmp_path: Path) -> None:
    code, lines = run("again", report(tmp_path, "first", TESTS))
    assert (code, set(lines)) == (0, {f"test_x.py::{name}" for name in NEVER})


def test_a_test_that_two_modules_share_is_named_by_each(tmp_path: Path) -> None:
    (tmp_path / "test_y.py").write_text(SHARED)
    _, lines = run("again", report(tmp_path, "first", TESTS))
    assert {"test_x.py::test_here_only[1]", "test_y.py::test_here_only[1]"} <= set(lines)


def test_a_test_that_no_run_ran_needs_a_reason(tmp_path: Path) -> None:
    first = report(tmp_path, "first", TESTS)
    second = report(tmp_path, "second", TESTS.replace('pytest.skip("no Java here")', "pass"))
    code, lines = run("judge", first, second)
    assert (code, lines) == (1, ["test_x.py::TestAll::test_in_a_class: NO REASON in skips.tsv"])


def test_a_test_that_ran_once_needs_none(tmp_path: Path) -> None:
    first = report(tmp_path, "first", TESTS)
    assert run("judge", first, report(tmp_path, "second", TESTS.replace("pytest.skip", "str"))) == (
        0,
        [],
    )


def test_every_reason_is_of_a_file_that_exists() -> None:
    lines = (CHECKOUT / ".ci" / "skips.tsv").read_text(encoding="utf-8").splitlines()
    places = [line.split("\t") for line in lines]
    assert all(len(parts) == 2 and parts[1] for parts in places)
    assert not [name for name, _ in places if not (CHECKOUT / name.split("::")[0]).exists()]
