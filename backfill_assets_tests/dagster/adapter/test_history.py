"""What Dagster remembers of a lake: runs with their causes, and nothing of other lakes. No JVM.

Tested here: `dagster.adapter.history`.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.history import evaluation_text, newest_runs
from backfill_assets.dagster.adapter.io_manager import as_failure
from backfill_assets.dagster.adapter.runs import LAKE_TAG, REASON_TAG
from backfill_assets.kernel.core.errors import BackfillError

pytestmark = pytest.mark.usefixtures("storages")
LAKE, OTHER = "/lakes/ours", "/lakes/theirs"
BROKEN = BackfillError("the table staging", "it broke", "Nothing was written", "Look at it")
OF_TWO_LINES = BackfillError("lake.toml", "`a\n  b`: no", "Nothing was read", "Correct it")
DAYS = dg.DailyPartitionsDefinition("2024-03-01", timezone="UTC")
FIRST, SECOND = "2024-03-01", "2024-03-02"


@dg.asset(
    partitions_def=DAYS,
    check_specs=[dg.AssetCheckSpec("profile", asset="staging", partitions_def=DAYS)],
)
def staging(context: dg.AssetExecutionContext, config: dict[str, Any]) -> Iterator[Any]:
    """Breaks, or gives the verdict it is told to."""
    if config["verdict"] == "broken":
        raise as_failure(BROKEN)
    yield dg.MaterializeResult()
    yield dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey("staging"),
        check_name="profile",
        passed=config["verdict"] == "good",
        partition=context.partition_key,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"verdict": config["verdict"]},
    )
    yield dg.Output(
        None, output_name=dg.AssetCheckSpec("profile", asset="staging").get_python_identifier()
    )


def ran(
    instance: dg.DagsterInstance, verdict: str, partition: str = FIRST, lake: str = LAKE
) -> str:
    job = dg.Definitions(
        [staging], jobs=[dg.define_asset_job("rebuild")], executor=dg.in_process_executor
    )
    result = job.resolve_job_def("rebuild").execute_in_process(
        instance=instance,
        partition_key=partition,
        tags={LAKE_TAG: lake, REASON_TAG: "late_data"},
        run_config={"ops": {"staging": {"config": {"verdict": verdict}}}},
        raise_on_error=False,
    )
    return result.run_id


def test_runs_are_told_newest_first_with_their_days_reason_and_cause(
    instance: dg.DagsterInstance,
) -> None:
    good, bad = ran(instance, "good"), ran(instance, "broken", SECOND)
    newest, before = newest_runs(instance, LAKE)
    assert (newest.run_id, newest.status, str(newest.days)) == (bad, "failure", SECOND)
    assert (newest.reason, newest.cause) == ("late_data", str(BROKEN))
    assert (before.run_id, before.status, before.cause) == (good, "success", "")
    assert before.began
    assert before.seconds is not None
    assert before.queued_seconds is not None


def test_each_table_that_failed_is_among_the_causes_of_its_run(
    instance: dg.DagsterInstance,
) -> None:
    @dg.op(name="features")
    def broken() -> None:
        raise as_failure(BROKEN)

    @dg.op(name="labels")
    def broken_otherwise() -> None:
        raise as_failure(OF_TWO_LINES)

    @dg.job
    def both() -> None:
        broken()
        broken_otherwise()

    both.execute_in_process(instance=instance, tags={LAKE_TAG: LAKE}, raise_on_error=False)
    (told,) = newest_runs(instance, LAKE)
    assert sorted(told.cause.split(" Also: ")) == sorted([str(BROKEN), str(OF_TWO_LINES)])
    assert "`a b`: no" in told.cause


def test_other_lakes_of_the_same_instance_are_left_out(instance: dg.DagsterInstance) -> None:
    ran(instance, "odd", lake=OTHER)
    assert newest_runs(instance, LAKE) == ()


def test_an_evaluation_without_words_of_ours_says_its_description() -> None:
    key = dg.AssetKey("staging")
    assert evaluation_text(_evaluation(key, description="3 days are stale")) == "3 days are stale"
    assert evaluation_text(_evaluation(key)) == ""
    assert (
        evaluation_text(_evaluation(key, description="x", metadata={"which": "day one"}))
        == "day one"
    )


def _evaluation(key: dg.AssetKey, **said: Any) -> dg.AssetCheckEvaluation:
    metadata = {
        name: dg.MetadataValue.text(text) for name, text in said.pop("metadata", {}).items()
    }
    return dg.AssetCheckEvaluation(key, "profile", False, metadata, **said)
