"""The sensors `landing` and `late_data`, and the job by which the first looks into new files.

Lives here: their Dagster face. Does not live here: what a tick decides (`ticks`). The cursor only shows what the last
tick found; nothing reads it.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from backfill_assets.core.clock import utc_now
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.session import LakeSession, telling_losses
from backfill_assets.load.scan import scan_all
from backfill_assets.operations.attention import keep_attention
from backfill_assets.orchestration.alerts import report_alarms
from backfill_assets.orchestration.bootstrap import is_there, no_lake
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.dagster_private import instance_id
from backfill_assets.orchestration.io_manager import as_failure
from backfill_assets.orchestration.run_liveness import markers_of
from backfill_assets.orchestration.runs import LAKE_TAG
from backfill_assets.orchestration.ticks import LANDING, LATE_DATA, SCAN, Tick, landing_tick, late_data_tick

INTERVAL_SECONDS = 10  # a tick with nothing to do costs a few hundred milliseconds, and there are five levels
CURSOR_CHARS = 2000


def scan_job(lake_context: LakeContext) -> dg.JobDefinition:
    """The job that takes stock of the landing folder: afterwards it is known which days the new files touch."""

    @dg.op(name="take_stock", description="Read new landed files once and record their days and rows in `files`.")
    def take_stock(context: dg.OpExecutionContext) -> None:
        """One scan of each source, under its load lock."""
        try:
            lake, _ = lake_context.open()
            markers_of(context.instance, lake).mark(context.run_id)
            with telling_losses():
                report = scan_all(LakeSession(lake))
        except BackfillError as error:
            raise as_failure(error) from None
        context.log.info(
            f"{len(report.new)} new, {len(report.copies)} copies, {len(report.waiting)} still being written"
        )
        context.add_output_metadata({"new": len(report.new), "known": report.known, "refused": len(report.refused)})

    tags = {LAKE_TAG: str(lake_context.root)}

    @dg.job(name=SCAN, executor_def=dg.in_process_executor, description="Take stock of the landing folder.", tags=tags)
    def scan_landing() -> None:
        """The scan as a job of its own."""
        take_stock()

    return scan_landing


def lake_sensors(lake_context: LakeContext, jobs: Sequence[Any]) -> list[dg.SensorDefinition]:
    """`landing` and `late_data`, running unless turned off in the UI. `jobs` are `rebuild` and `scan_landing`
    (Any: Dagster 1.13 names the type of an unresolved asset job only in private)."""

    @dg.sensor(
        name=LANDING, jobs=jobs, minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Loads what lands: scans new complete files, then loads every arrival day that is not in raw.",
    )  # fmt: skip
    def landing(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """One tick."""
        if not is_there(lake_context.root):
            return dg.SensorResult(skip_reason=str(no_lake(lake_context.root)))
        return tick_result(context, lake_context, LANDING, landing_tick(context.instance, lake_context, utc_now()))

    @dg.sensor(
        name=LATE_DATA, jobs=jobs, minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Rebuilds exactly the days whose inputs changed, upstream first; early cut-off ends the cascade.",
    )  # fmt: skip
    def late_data(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """One tick."""
        if not is_there(lake_context.root):
            return dg.SensorResult(skip_reason=str(no_lake(lake_context.root)))
        return tick_result(context, lake_context, LATE_DATA, late_data_tick(context.instance, lake_context, utc_now()))

    return [landing, late_data]


def tick_result(
    context: dg.SensorEvaluationContext, lake_context: LakeContext, sensor: str, tick: Tick
) -> dg.SensorResult:
    """The tick as Dagster takes it; what needs a person is kept for the commands, and told once."""
    for note in tick.notes:
        context.log.info(note)
    keep_attention(lake_context.root, instance_id(context.instance), sensor, tick.alarms)
    report_alarms(lake_context.root, context.instance, sensor, tick.alarms)
    first = [*tick.alarms.values(), *(note for note in tick.notes if note not in tick.alarms.values())]
    said = "; ".join(first)[:CURSOR_CHARS] or "nothing to do: every day that can be is up to date"
    if tick.requests:
        return dg.SensorResult(run_requests=tick.requests, cursor=said, asset_events=tick.verdicts)
    return dg.SensorResult(skip_reason=said, cursor=said, asset_events=tick.verdicts)
