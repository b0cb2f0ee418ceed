"""Jobs `maintain` and `export` with their schedules, which are stopped; `maintain` also ends Dagster's own old runs.

Not here: the work itself (`operations.maintain`, `operations.export`). Dagster itself prunes the ticks of sensors and
schedules: `retention` in dagster.yaml.
"""

from collections import defaultdict
from datetime import datetime, timedelta

import dagster as dg
from pydantic import Field

from backfill_assets.core.clock import utc_now
from backfill_assets.operations.export import export_all
from backfill_assets.operations.maintain import maintain
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.dagster_private import newest_materializations
from backfill_assets.orchestration.io_manager import as_failures
from backfill_assets.orchestration.naming import PLAIN, Naming
from backfill_assets.orchestration.rollbacks import one_op_job, show_lines

MAINTAIN, EXPORT = "maintain", "export"
UNNEEDED = "delete_unneeded"


class MaintainConfig(dg.Config):
    """Whether to do it; the launchpad shows the description."""

    act: bool = Field(default=False, description="false: only say what can go. true: delete it.")


def maintain_job(lake_context: LakeContext) -> dg.JobDefinition:
    """The job of the command `maintain`; it also deletes Dagster's runs older than `[retention] run_days`."""

    @dg.op(
        name=lake_context.naming.name(UNNEEDED),
        description="Delete what nothing needs any more. Looks only, unless `act`.",
    )
    def delete_unneeded(context: dg.OpExecutionContext, config: MaintainConfig) -> None:
        """One upkeep of the lake and of its runs."""
        with as_failures():
            lake, pipeline = lake_context.open()
            upkeep = maintain(lake, pipeline, act=config.act)
            lines, days = upkeep.lines(), lake.settings.retention.run_days
            if days is not None:
                before = utc_now() - timedelta(days=days)
                old = superseded_runs(context.instance, lake.address, before)
                for run_id in old if config.act else ():
                    context.instance.delete_run(run_id)
                lines.append(f"{len(old)} run(s) of Dagster that ended before {before:%Y-%m-%d}")
            if not config.act:
                lines.append("Nothing was done: `act: true` does it")
            show_lines(context, lines)

    what = "Delete data files that no rollback needs any more, and write days and ledgers of small files again."
    return one_op_job(lake_context, MAINTAIN, delete_unneeded, MaintainConfig(), what)


def maintain_schedule(job: dg.JobDefinition, naming: Naming = PLAIN) -> dg.ScheduleDefinition:
    """Sundays at 04:00 UTC, stopped until somebody starts it in the browser."""
    return dg.ScheduleDefinition(
        name=naming.name("weekly_upkeep"), job=job, cron_schedule="0 4 * * 0", execution_timezone="UTC",
        run_config=dg.RunConfig(ops={naming.name(UNNEEDED): MaintainConfig(act=True)}),
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Off unless you turn it on: deletes weekly what no rollback needs any more (job `maintain`).",
    )  # fmt: skip


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


def export_schedule(job: dg.JobDefinition, naming: Naming = PLAIN) -> dg.ScheduleDefinition:
    """Every hour, stopped until somebody starts it in the browser."""
    return dg.ScheduleDefinition(
        name=naming.name("hourly_export"), job=job, cron_schedule="30 * * * *", execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Off unless you turn it on: brings changed days to the places of [exports] (the job `export`).",
    )  # fmt: skip


def superseded_runs(instance: dg.DagsterInstance, lake: str, before: datetime) -> list[str]:
    """The lake's runs that ended before (aware) and of which Dagster's pages need nothing: every day that one of them
    materialized was materialized again since."""
    ended = dg.RunsFilter(statuses=runs.ENDED, tags={runs.LAKE_TAG: lake}, updated_before=before)
    run_ids, of_asset = set[str](), defaultdict[dg.AssetKey, set[str]](set)
    for run in instance.get_runs(ended):
        run_ids.add(run.run_id)
        for event in runs.records_of(instance, run.run_id, dg.DagsterEventType.ASSET_MATERIALIZATION):
            if event.asset_key is not None and event.partition is not None:
                of_asset[event.asset_key].add(event.partition)
    newest = {key: newest_materializations(instance, key, partitions) for key, partitions in of_asset.items()}
    needed = {record.run_id for by_day in newest.values() for record in by_day.values()}
    return sorted(run_ids - needed)
