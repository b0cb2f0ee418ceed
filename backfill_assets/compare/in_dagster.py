"""What proofs add to Dagster: the job `standing_proof`, its schedule, and the check `proven` of
each table; none of them while `[proof] days_per_day` is 0.

Not here: which days are proven, and how (`compare.prove`), and the proofs that are kept
(`reading.proofs`).
"""

from datetime import date
from typing import Any

import dagster as dg

from backfill_assets.compare.prove import Prover, prove_days, prove_written_days, why_not_due
from backfill_assets.compare.settings import proof_of
from backfill_assets.dagster.adding import (
    LakeContext,
    Opened,
    ShownLake,
    as_failures,
    lake_schedule,
    markers_of,
    one_op_job,
    report_alarms,
    show_lines,
    standing_check,
)
from backfill_assets.engines.lake_session import explaining_losses
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.reading.proofs import Proof, failed_proofs, proof_alarms

STANDING_PROOF, PROVEN = "standing_proof", "proven"
CHECK_DESCRIPTION = (
    "Written days that the standing proof computed again from the same inputs have the same rows."
)


def definitions(shown: ShownLake) -> dg.Definitions:
    """Job, schedule and checks of the standing proof, where the lake asks for one."""
    proof = proof_of(shown.opened.lake.settings)
    if not proof.days_per_day:
        return dg.Definitions()
    job, tables = proof_job(shown.lake_context), shown.opened.pipeline.own
    schedule = proof_schedule(shown.lake_context, job, proof.hour)
    return dg.Definitions(
        asset_checks=[_proof_check(shown.opened, table.name) for table in tables],
        jobs=[job],
        schedules=[schedule] if shown.has_schedules else [],
    )


def _proof_check(opened: Opened, table: str) -> dg.AssetChecksDefinition:
    def judge(_: dg.DagsterInstance) -> dg.AssetCheckResult:
        """Judge by the proofs that are kept."""
        failed = failed_proofs(opened.lake, opened.pipeline).get(table, [])
        return dg.AssetCheckResult(passed=not failed, metadata=_proof_facts(failed))

    return standing_check(opened, table, PROVEN, CHECK_DESCRIPTION, judge)


def _proof_facts(failed: list[Proof]) -> dict[str, Any]:
    return {"verdict": "; ".join(map(str, failed)) or "every proven day has the same rows"}


def proof_job(lake_context: LakeContext, prover: Prover = prove_written_days) -> dg.JobDefinition:
    """The job `standing_proof`: proves today's days, reports the checks, and raises an alarm per
    day that fails."""

    @dg.op(
        name=lake_context.naming.name("prove_days"),
        description="Compute a few written days again and compare. Commits nothing.",
    )
    def prove_drawn_days(context: dg.OpExecutionContext) -> None:
        """One proof."""
        with as_failures(), explaining_losses():
            lake, pipeline = lake_context.open()
            markers_of(context.instance, lake).mark(context.run_id)
            outcomes = prove_days(lake, pipeline, utc_today(), prover)
            failed = failed_proofs(lake, pipeline)
        for table in pipeline.own:
            context.instance.report_runless_asset_event(
                dg.AssetCheckEvaluation(
                    asset_key=lake_context.naming.key(table.name),
                    check_name=PROVEN,
                    passed=table.name not in failed,
                    metadata=_proof_facts(failed.get(table.name, [])),
                )
            )
        report_alarms(
            lake.root, context.instance, STANDING_PROOF, proof_alarms(lake, pipeline), context.log
        )
        show_lines(context, map(str, outcomes))

    what = "Compute a few written days again, from the inputs their receipts pin, and compare."
    return one_op_job(lake_context, STANDING_PROOF, prove_drawn_days, None, what)


def proof_schedule(
    lake_context: LakeContext, job: dg.JobDefinition, hour: int
) -> dg.ScheduleDefinition:
    """Request the proof once a day at `hour` (UTC), if it is due (`compare.prove.why_not_due`)."""

    def requested(today: date) -> dg.SkipReason | dg.RunRequest:
        """Request the proof."""
        why = why_not_due(*lake_context.look())
        return dg.SkipReason(why) if why else dg.RunRequest(run_key=f"proof {today}")

    what = "The job `standing_proof`, where it is due."
    return lake_schedule(lake_context, "daily_proof", job, f"0 {hour} * * *", what, requested)
