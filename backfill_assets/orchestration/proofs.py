"""The standing proof in Dagster: a job and its schedule at a quiet hour, and the check `proven` of every table.

Not here: which days, and when they are paid for (`operations.prove`). None of it is there while `[proof]
days_per_day` is 0.
"""

from typing import Any

import dagster as dg

from backfill_assets.core.clock import utc_today
from backfill_assets.lake.session import telling_losses
from backfill_assets.operations.prove import Proof, Prover, prove, prove_days, unproven, waits
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.alerts import report_alarms
from backfill_assets.orchestration.context import LakeContext, Opened
from backfill_assets.orchestration.io_manager import as_failures
from backfill_assets.orchestration.rollbacks import one_op_job, tell

STANDING_PROOF, PROVEN = "standing_proof", "proven"
WORDS = "Written days that the standing proof computed again from the same inputs have the same rows."


def proof_checks(opened: Opened) -> list[dg.AssetChecksDefinition]:
    """The check `proven` of each table; its button repeats what the proofs found."""
    wanted = opened.lake.settings.proof.days_per_day
    return [_check(opened, table.name) for table in opened.pipeline.tables] if wanted else []


def _check(opened: Opened, table: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=table, name=PROVEN, description=WORDS)
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        """Judge by the proofs that are kept."""
        with as_failures():
            lake, pipeline = opened.require()
            context.instance.add_run_tags(context.run.run_id, {runs.LAKE_TAG: str(lake.root)})
            failed = unproven(lake, pipeline).get(table, [])
        return dg.AssetCheckResult(passed=not failed, metadata=_facts(failed))

    return check


def _facts(failed: list[Proof]) -> dict[str, Any]:
    return {"what": "; ".join(map(str, failed)) or "every proven day has the same rows"}


def proof_job(lake_context: LakeContext, by: Prover = prove) -> dg.JobDefinition:
    """The job `standing_proof`: proves the days of today, tells the checks, and raises an alarm per day that fails."""

    @dg.op(name="prove_days", description="Compute a few written days again and compare. Commits nothing.")
    def prove_drawn_days(context: dg.OpExecutionContext) -> None:
        """One proof."""
        with as_failures(), telling_losses():
            lake, pipeline = lake_context.open()
            runs.markers_of(context.instance, lake).mark(context.run_id)
            found = prove_days(lake, pipeline, utc_today(), by)
            failed = unproven(lake, pipeline)
        for table in pipeline.tables:
            context.instance.report_runless_asset_event(
                dg.AssetCheckEvaluation(
                    asset_key=dg.AssetKey(table.name), check_name=PROVEN, passed=table.name not in failed,
                    metadata=_facts(failed.get(table.name, [])),
                )
            )  # fmt: skip
        alarms = {f"proof {p.table} {p.day}": p.alarm for of in failed.values() for p in of}
        report_alarms(lake.root, context.instance, STANDING_PROOF, alarms)
        tell(context, map(str, found))

    what = "Compute a few written days again, from the inputs their receipts pin, and compare."
    return one_op_job(lake_context, STANDING_PROOF, prove_drawn_days, None, what)


def proof_schedule(lake_context: LakeContext, job: dg.JobDefinition, hour: int) -> dg.ScheduleDefinition:
    """Once a day at `hour` (UTC); a tick whose proof the load has not paid for yet starts no run."""

    @dg.schedule(
        name="daily_proof", job=job, cron_schedule=f"0 {hour} * * *", execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING, description="The job `standing_proof`, where it is due.",
    )  # fmt: skip
    def daily_proof(context: dg.ScheduleEvaluationContext) -> dg.SkipReason | dg.RunRequest:
        """Request the proof."""
        if lake_context.missing is not None:
            return dg.SkipReason(str(lake_context.missing))
        why = waits(*lake_context.open())
        return dg.SkipReason(why) if why else dg.RunRequest(run_key=f"proof {context.scheduled_execution_time:%F}")

    return daily_proof
