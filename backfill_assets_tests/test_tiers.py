"""The police of the cost tiers: what a test's fixtures say decides its marker, and a quick test starts no program.

Lives here: `conftest.py` at work on tests of a file of its own, in a process of its own. Does not live here: the tiers
of our tests, which every run of them holds.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets_tests import thorough
from backfill_assets_tests.engines import TESTS_ENGINE
from backfill_assets_tests.processes import CHECKOUT

SIZE = r'environ.get\("(BACKFILL_ASSETS_[A-Z_]+)"'
AIDS = {"BACKFILL_ASSETS_PLAN_DAYS", "BACKFILL_ASSETS_PLAN_CHUNK", "BACKFILL_ASSETS_SEED"}  # how, not how much
TESTS = """
import subprocess, sys

def test_quick(): pass
def test_starts_a_program(): subprocess.run([sys.executable, "-c", ""], check=True)
def test_may_start_a_program(processes): subprocess.run([sys.executable, "-c", ""], check=True)
def test_keeps_storages(storages): pass
def test_has_spark(spark): pass
"""


def ran(folder: Path, *args: str) -> str:
    (folder / "test_them.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "backfill_assets_tests.conftest", "-p", "no:cacheprovider", "-q"]
    where = ["--rootdir", str(folder), "-c", str(CHECKOUT / "pyproject.toml"), str(folder / "test_them.py")]
    return subprocess.run([*command, *where, *args], cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout


@pytest.mark.usefixtures("processes")
def test_a_quick_test_that_starts_a_program_fails_and_says_what_to_take(tmp_path: Path) -> None:
    told = ran(tmp_path, "-m", "not spark")
    assert "3 passed" in told
    assert "1 failed" in told
    assert f"it started subprocess.Popen {sys.executable}: take the fixture `processes`" in told


@pytest.mark.usefixtures("processes")
def test_the_quick_ones_are_those_whose_fixtures_say_nothing_else(tmp_path: Path) -> None:
    told = ran(tmp_path, "-m", "quick", "--collect-only")
    assert "test_quick" in told
    assert "test_starts_a_program" in told
    assert "test_keeps_storages" not in told
    assert "2/5 tests collected (3 deselected)" in told


def test_each_big_variant_is_of_a_file_that_reads_its_variable_and_none_is_forgotten() -> None:
    files = (CHECKOUT / thorough.TESTS / "end_to_end").glob("test_*.py")
    read = {(f.name, v) for f in files for v in re.findall(SIZE, f.read_text())}
    made_big = {
        (Path(v.command[-1]).name, name) for v in thorough.VARIANTS for name in v.environment if name != TESTS_ENGINE
    }
    assert made_big == {(name, variable) for name, variable in read if variable not in AIDS}
