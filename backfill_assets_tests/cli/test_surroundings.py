"""What a fork could not take over shows, and what it can does not.

Tested here: `cli.surroundings`. Not tested here: that nothing reads at import what may differ (`test_waiting`).
"""

import json
import os
import sys

import pytest

from backfill_assets.cli.surroundings import surroundings
from backfill_assets.core.garbage import ALLOCATORS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asked on Linux only")


def test_they_are_equal_to_themselves_through_json() -> None:
    assert json.loads(json.dumps(surroundings())) == surroundings()


@pytest.mark.parametrize("name", ["PYTHONPATH", "LANG", "LC_ALL", "LD_PRELOAD", "TZ", "HOME", "OMP_NUM_THREADS", "X"])
def test_a_variable_that_might_be_read_at_import_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = surroundings()
    monkeypatch.setenv(name, "another")
    assert surroundings() != before
    assert surroundings(frozenset([name]))["env"] == {n: v for n, v in before["env"].items() if n != name}


@pytest.mark.parametrize(
    "name", ["BACKFILL_ASSETS__SPARK__MEMORY", "DAGSTER_HOME", "PWD", "TERM", "SPARK_CONNECT_MODE_ENABLED", *ALLOCATORS]
)
def test_one_that_is_read_late_or_set_by_processes_of_ours_does_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = surroundings()
    monkeypatch.setenv(name, "another")
    assert surroundings() == before


def test_where_modules_are_looked_for_shows_but_not_the_folder_of_the_script() -> None:
    before, own = surroundings(), sys.path[0]
    sys.path[0] = "another"
    try:
        assert surroundings() == before
    finally:
        sys.path[0] = own
    sys.path.append("another")
    try:
        assert surroundings() != before
    finally:
        sys.path.pop()


def test_processors_and_priority_show() -> None:
    told = surroundings()
    assert any(line.startswith("Cpus_allowed") for line in told["status"])
    assert told["turn"][0] == os.getpriority(os.PRIO_PROCESS, 0)
