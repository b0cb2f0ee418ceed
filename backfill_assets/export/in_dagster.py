"""What exports add to Dagster: the job `export` and its schedule.

Not here: which days changed and where they go (`export.export_days`).
"""

import dagster as dg

from backfill_assets.dagster.adding import (
    LakeContext,
    ShownLake,
    as_failures,
    lake_schedule,
    one_op_job,
    show_lines,
)
from backfill_assets.export.export import export_all

EXPORT = "export"


def definitions(shown: ShownLake) -> dg.Definitions:
    """The job `export`, and its schedule where the lake has schedules."""
    job = export_job(shown.lake_context)
    schedules = [export_schedule(shown.lake_context, job)] if shown.has_schedules else []
    return dg.Definitions(jobs=[job], schedules=schedules)


def export_job(lake_context: LakeContext) -> dg.JobDefinition:
    """The job of the command `export`: every export of lake.toml, changed days only."""

    @dg.op(
        name=lake_context.naming.name("replace_changed_days"),
        description="Bring the days that changed to the places of [exports].",
    )
    def replace_changed_days(context: dg.OpExecutionContext) -> None:
        """All exports, in their order."""
        with as_failures():
            lines = [str(done) for done in export_all(*lake_context.open())]
            show_lines(context, lines or ["lake.toml has no [exports]"])

    what = "Bring days that changed to the places that [exports] in lake.toml names."
    return one_op_job(lake_context, EXPORT, replace_changed_days, None, what)


def export_schedule(lake_context: LakeContext, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """`export` each hour, off until somebody turns it on."""
    request = dg.RunRequest()
    what = (
        "Off unless you turn it on: brings changed days to the places of [exports] (the job "
        "`export`)."
    )
    return lake_schedule(
        lake_context, "hourly_export", job, "30 * * * *", what, lambda _: request, is_on=False
    )
