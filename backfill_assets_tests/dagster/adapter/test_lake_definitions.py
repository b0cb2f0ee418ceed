"""What stands beside the tables and the job `rebuild`; no command imports it.

Not tested here: what jobs, sensors and schedules do, those of rooms among them (`test_in_dagster`
of each).
"""

import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster_pyspark import PySparkResource

from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.lakes import make_lake, toy
from backfill_assets_tests.processes import run_python

pytestmark = pytest.mark.usefixtures("storages")
START = "2024-03-01"


def test_a_candidate_has_jobs_and_no_schedule_that_would_do_the_lakes_work_again(
    tmp_path: Path,
) -> None:
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
    assert {"dagster_pyspark", "backfill_assets.dagster.adapter.lake_definitions"} & set(
        run_python(code).split()
    ) == set()


@dg.op
def does_not_ask(pyspark: PySparkResource) -> None:
    assert type(pyspark).__name__ == "LakePySparkResource"


@dg.job
def not_asking() -> None:
    does_not_ask()


@pytest.fixture
def defs(tmp_path: Path) -> dg.Definitions:
    lake = bare_lake(tmp_path / "lake")
    return dg.Definitions.merge(assemble(lake.root, tables), dg.Definitions(jobs=[not_asking]))


def test_an_own_op_that_does_not_ask_for_a_session_starts_none(
    defs: dg.Definitions, tmp_path: Path
) -> None:
    assert defs.resolve_job_def("not_asking").execute_in_process().success
    assert sorted(p.name for p in (tmp_path / "lake").iterdir()) == ["lake.toml"]
