"""What stands beside the tables and the job `rebuild`: there for the browser, not imported by a command that runs it.

Tested here: `orchestration.lake_definitions`, the resource `pyspark` too. Not tested here: what jobs, sensors and
schedules do.
"""

import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster_pyspark import PySparkResource

from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.lake_definitions import PYSPARK
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.lakes import make_lake, toy
from backfill_assets_tests.processes import run_python

pytestmark = pytest.mark.usefixtures("storages")
START = "2024-03-01"


def test_all_of_it_stands_beside_the_tables_of_the_browser(tmp_path: Path) -> None:
    found = assemble(make_lake(tmp_path, [], START).root, toy())
    checked = {k.asset_key.path[-1] for check in found.asset_checks or () for k in check.check_keys}
    assert checked == {"echo", "raw", "sums"}
    assert {"late_data", "landing"} <= {s.name for s in found.sensors or ()}
    schedules = {s.name for s in found.schedules or ()}
    assert schedules == {"daily_load", "rolling_reprocess", "weekly_upkeep", "hourly_export"}
    assert len(list(found.jobs or ())) > 3
    assert PYSPARK in (found.resources or {})


def test_a_candidate_has_jobs_and_no_schedule_that_would_do_the_lakes_work_again(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, [], START)
    folder = lake.root / ".candidates" / "v2"
    folder.mkdir(parents=True)
    shutil.copyfile(lake.root / "lake.toml", folder / "lake.toml")
    (folder / "candidate.json").write_text('{"tables": ["sums"]}')
    found = assemble(folder, toy())
    assert [*(found.schedules or ())] == []
    assert len(list(found.jobs or ())) > 3


def test_who_asks_for_the_job_of_some_tables_gets_nothing_beside_it(tmp_path: Path) -> None:
    found = assemble(make_lake(tmp_path, [], START).root, toy(), ["sums"])
    assert [*(found.sensors or ()), *(found.schedules or ()), *(found.asset_checks or ())] == []
    assert len(list(found.jobs or ())) == 1


@pytest.mark.usefixtures("processes")
def test_a_command_that_runs_tables_does_not_import_it() -> None:
    code = "import sys; import backfill_assets.cli.runner; print(*sys.modules)"
    assert {"dagster_pyspark", "backfill_assets.orchestration.lake_definitions"} & set(
        run_python(code).split()
    ) == set()


@dg.op
def does_not_ask(pyspark: PySparkResource) -> None:
    assert type(pyspark).__name__ == "LakePySparkResource"


@dg.op
def returns() -> int:
    return 1


@dg.job
def not_asking() -> None:
    does_not_ask()


@dg.job
def returning() -> None:
    returns()


@pytest.fixture
def defs(tmp_path: Path) -> dg.Definitions:
    lake = bare_lake(tmp_path / "lake")
    return dg.Definitions.merge(assemble(lake.root, tables), dg.Definitions(jobs=[not_asking, returning]))


def test_an_own_op_that_does_not_ask_for_a_session_starts_none(defs: dg.Definitions, tmp_path: Path) -> None:
    assert defs.resolve_job_def("not_asking").execute_in_process().success
    assert sorted(p.name for p in (tmp_path / "lake").iterdir()) == ["lake.toml"]
