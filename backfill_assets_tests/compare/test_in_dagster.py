"""The standing proof in Dagster: its job, schedule and check.

Not tested here: the days of a proof (`compare.test_prove`) and computing them again
(`compare.test_recompute`).
"""

from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.compare.in_dagster import PROVEN, STANDING_PROOF, proof_job, proof_schedule
from backfill_assets.compare.prove import ProofRequest
from backfill_assets.compare.recompute import Recomputation, Recomputed, RecomputeVerdict
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.reading.proofs import proof_alarms
from backfill_assets_tests.readable_lake import TABLE, readable_lake

pytestmark = pytest.mark.usefixtures("storages")
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
