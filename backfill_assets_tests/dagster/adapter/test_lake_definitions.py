"""What stands beside the tables and the job `rebuild`, the standing proof and controls too; no
command imports it.

Not tested here: what jobs, sensors and schedules do, and the days of a proof
(`reconcile.test_standing`).
"""

import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster_pyspark import PySparkResource
from deltalake import DeltaTable, write_deltalake

from backfill_assets.compare.proofs import proof_alarms
from backfill_assets.compare.prove import ProofRequest
from backfill_assets.compare.recompute import Recomputation, Recomputed, RecomputeVerdict
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.lake_definitions import (
    PROVEN,
    STANDING_PROOF,
    controls_sensor,
    controls_tick,
    proof_job,
    proof_schedule,
)
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.reading.attention import attention
from backfill_assets.reconcile.outcomes import broken_controls
from backfill_assets.reconcile.reconcile import judge_controls
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.lakes import make_lake, toy
from backfill_assets_tests.processes import run_python
from backfill_assets_tests.readable_lake import TABLE, readable_lake

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


KEY = dg.AssetCheckKey(dg.AssetKey(TABLE), PROVEN)


def prove(_: Lake, __: Pipeline, asked: ProofRequest) -> Recomputation:
    """Each day differs when it is computed again."""
    days = tuple(Recomputed(d, 1, 1, equal=False) for d in asked.days or ())
    return Recomputation(tuple(RecomputeVerdict(t, days) for t in asked.tables))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lake with a standing proof."""
    readable_lake(tmp_path)
    with (tmp_path / FILE_NAME).open("a") as toml:
        toml.write("[proof]\ndays_per_day = 1\nhour = 5\n")
    return tmp_path


def test_a_day_that_differs_is_an_alarm_and_a_red_check(
    root: Path, instance: dg.DagsterInstance
) -> None:
    job = proof_job(LakeContext(root, tables), prove)
    schedule = proof_schedule(LakeContext(root, tables), job, 5)
    asked = dg.build_schedule_context(instance=instance, scheduled_execution_time=utc_now())
    assert isinstance(schedule(asked), dg.RunRequest)
    assert job.execute_in_process(instance=instance).success
    lake = open_lake(root)
    [line] = proof_alarms(lake, chosen_pipeline(lake)).values()
    record = instance.get_latest_asset_check_evaluation_record(
        dg.AssetCheckKey(dg.AssetKey(line.split()[0]), PROVEN)
    )
    assert record is not None
    evaluation = record.evaluation
    assert isinstance(evaluation, dg.AssetCheckEvaluation)
    assert not evaluation.passed
    assert "differs when computed again" in str(evaluation.metadata["verdict"].value)
    assert "the next is due after" in str(getattr(schedule(asked), "skip_message", ""))


def test_job_schedule_and_check_are_there_only_where_the_lake_asks_for_them(root: Path) -> None:
    def there() -> tuple[bool, bool, bool]:
        found = assemble(root, tables)
        keys = {
            k
            for c in found.asset_checks or ()
            if isinstance(c, dg.AssetChecksDefinition)
            for k in c.check_keys
        }
        jobs = {getattr(j, "name", "") for j in found.jobs or ()}
        crons = {getattr(s, "cron_schedule", "") for s in found.schedules or ()}
        return KEY in keys, STANDING_PROOF in jobs, "0 5 * * *" in crons

    assert there() == (True, True, True)
    toml = root / FILE_NAME
    toml.write_text(toml.read_text().replace("days_per_day = 1", "days_per_day = 0"))
    assert there() == (False, False, False)


CONTROL = """
[controls.versions]
query = "SELECT event_date AS day, count(*) AS value FROM staging GROUP BY 1"
expected = "totals.csv"
"""


@pytest.fixture
def controlled(tmp_path: Path) -> Path:
    """A lake with a control."""
    readable_lake(tmp_path)
    (tmp_path / "totals.csv").write_text("day,value\n2024-03-01,2\n2024-03-02,2\n")
    with (tmp_path / FILE_NAME).open("a") as toml:
        toml.write(CONTROL)
    return tmp_path


def double(root: Path) -> None:
    """Append all rows of the table to it, as the job of the incident did."""
    path = str(root / "tables" / TABLE)
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")


def test_a_doubled_table_is_an_alarm_and_a_red_check_at_the_next_tick(controlled: Path) -> None:
    lake_context = LakeContext(controlled, tables)
    fine = controls_tick(lake_context)
    assert (fine.alarms, [v.passed for v in fine.verdicts]) == ({}, [True])
    double(controlled)
    found = controls_tick(lake_context)
    assert list(found.alarms) == ["control versions"]
    assert "2024-03-01: 4, expected 2" in found.alarms["control versions"]
    [verdict] = found.verdicts
    assert (verdict.check_name, verdict.asset_key, verdict.passed) == (
        "control_versions",
        dg.AssetKey(TABLE),
        False,
    )


def test_an_alarm_of_the_sensor_is_kept_once_for_status(
    controlled: Path, instance: dg.DagsterInstance
) -> None:
    double(controlled)
    result = controls_sensor(LakeContext(controlled, tables))(
        dg.build_sensor_context(instance=instance)
    )
    assert "control versions" in str(getattr(result, "cursor", ""))
    opened = LakeContext(controlled, tables).open()
    kept = (*attention(controlled), *broken_controls(*opened))
    assert len([line for line in kept if "expected 2" in line]) == 1
    (controlled / "totals.csv").write_text("day,value\n2024-03-01,4\n2024-03-02,4\n")
    lake = open_lake(controlled)
    judge_controls(lake, chosen_pipeline(lake))
    assert [*attention(controlled), *broken_controls(*opened)] == [], (
        "the command alone ends what the sensor found"
    )
