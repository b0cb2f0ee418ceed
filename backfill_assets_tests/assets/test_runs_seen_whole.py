"""Readers see the tables that a run of a project's assets writes together, when it ends: never half
of a run. Tested here: `LakeIOManager` under Dagster's own executors, also where the run fails
between two tables. Not tested here: who lives (`kernel.log.test_run_markers`), and what one step
writes (`test_io_manager.py`)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.kernel.log.run_markers import markers_by_run
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets_tests.assets import two_tables
from backfill_assets_tests.assets.two_tables import DAY, FAILS, JOBS, LAKE, LOOKS, look

pytestmark = [
    pytest.mark.usefixtures("storages", "processes"),
    pytest.mark.filterwarnings("ignore::backfill_assets.reading.opening.ReadersWait"),
]
TAGS = {"dagster/partition": DAY}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """Dagster with a home that other processes open, for the project of `two_tables` in its
    folder."""
    monkeypatch.setenv(LAKE, str(tmp_path / "lake"))
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        yield instance


def run(
    instance: dg.DagsterInstance, job: Callable[[], dg.JobDefinition], cents: int, *tags: str
) -> bool:
    """A run of both tables, whose orders return that number; whether it succeeded."""
    (two_tables.folder() / "cents").write_text(str(cents))
    named = TAGS | dict.fromkeys(tags, "yes")
    with dg.execute_job(
        dg.reconstructable(job), instance=instance, tags=named, raise_on_error=False
    ) as result:
        return result.success


def seen() -> list[list[int]]:
    """What readers saw of both tables so far, and see now."""
    look()
    return [json.loads(line) for line in (two_tables.folder() / "seen").read_text().splitlines()]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_half_a_run_is_never_seen_also_while_another_one_ends(
    home: dg.DagsterInstance, job: Callable[[], dg.JobDefinition]
) -> None:
    assert run(home, two_tables.in_process, 1)
    assert run(home, job, 1000, LOOKS)
    assert seen()[-3:] == [[1, 1], [1, 1], [1000, 1000]]
    assert markers_by_run(read_lake(two_tables.folder() / "lake").place) == {}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_what_a_run_wrote_before_it_failed_is_seen_once_it_ended(
    home: dg.DagsterInstance, job: Callable[[], dg.JobDefinition]
) -> None:
    assert run(home, two_tables.in_process, 1)
    assert not run(home, job, 1000, LOOKS, FAILS)
    assert seen()[-3:] == [[1, 1], [1, 1], [1000, 1]]
