"""What upkeep adds to Dagster: the job `maintain`, which also ends Dagster's own old runs, and its
schedule.

Not here: what can go (`upkeep.maintain`). Dagster itself prunes the ticks of sensors and schedules:
`retention` in dagster.yaml.
"""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from backfill_assets.dagster.adding import (
    LakeContext,
    ShownLake,
    as_failures,
    lake_schedule,
    one_op_job,
    show_lines,
    superseded_runs,
)
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.upkeep.maintain import maintain_tables
from backfill_assets.upkeep.settings import retention_of

MAINTAIN = "maintain"
UNNEEDED = "delete_unneeded"


def definitions(shown: ShownLake) -> dg.Definitions:
    """The job `maintain`, and its schedule where the lake has schedules."""
    job = maintain_job(shown.lake_context)
    schedules = [maintain_schedule(shown.lake_context, job)] if shown.has_schedules else []
    return dg.Definitions(jobs=[job], schedules=schedules)


class MaintainConfig(dg.Config):
    """Whether to do it; the launchpad shows the description."""

    act: bool = Field(default=False, description="false: only say what can go. true: delete it.")


def maintain_job(lake_context: LakeContext) -> dg.JobDefinition:
    """The job of the command `maintain`; it also deletes Dagster's runs older than `[retention]
    run_days`."""

    @dg.op(
        name=lake_context.naming.name(UNNEEDED),
        description="Delete what nothing needs any more. Looks only, unless `act`.",
    )
    def delete_unneeded(context: dg.OpExecutionContext, config: MaintainConfig) -> None:
        """One upkeep of the lake and of its runs."""
        with as_failures():
            lake, pipeline = lake_context.open()
            upkeep = maintain_tables(lake, pipeline, act=config.act)
            lines, days = upkeep.lines(), retention_of(lake.settings).run_days
            if days is not None:
                before = utc_now() - timedelta(days=days)
                old = superseded_runs(context.instance, lake.address, before)
                for run_id in old if config.act else ():
                    context.instance.delete_run(run_id)
                lines.append(f"{len(old)} run(s) of Dagster that ended before {before:%Y-%m-%d}")
            if not config.act:
                lines.append("Nothing was done: `act: true` does it")
            show_lines(context, lines)

    what = (
        "Delete data files that no rollback needs any more, and write days and ledgers of small "
        "files again."
    )
    return one_op_job(lake_context, MAINTAIN, delete_unneeded, MaintainConfig(), what)


def maintain_schedule(lake_context: LakeContext, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """`maintain` on Sundays at 04:00 UTC, off until somebody turns it on."""
    act = dg.RunRequest(
        run_config=dg.RunConfig(ops={lake_context.naming.name(UNNEEDED): MaintainConfig(act=True)})
    )
    what = (
        "Off unless you turn it on: deletes weekly what no rollback needs any more (job "
        "`maintain`)."
    )
    return lake_schedule(
        lake_context, "weekly_upkeep", job, "0 4 * * 0", what, lambda _: act, is_on=False
    )
