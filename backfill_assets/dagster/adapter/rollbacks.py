"""Jobs of one step for the browser: `rollback` and `release` with typed launchpads, `maintain` and
`export`.

`maintain` also ends Dagster's own old runs. Not here: the work itself (`plans`, `upkeep`),
schedules of the last two (`lake_definitions`), and events of rollbacks by command (`reconcile`).
Dagster itself prunes the ticks of sensors and schedules: `retention` in dagster.yaml.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta

import dagster as dg
from pydantic import Field

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.dagster_private import newest_materializations
from backfill_assets.dagster.adapter.io_manager import as_failures
from backfill_assets.dagster.adapter.reconcile import receipt_event
from backfill_assets.dagster.adapter.runs import LAKE_TAG
from backfill_assets.export.export import export_all
from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import parse_span, ranges
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ownership import BY, through_dagster
from backfill_assets.kernel.core.plans import RELEASE, ROLLBACK
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.plans.policy import PutBack, Undone
from backfill_assets.plans.rollback import RollbackRequest, preview, release, roll_back
from backfill_assets.upkeep.maintain import maintain

PUT_BACK, RELEASE_OP = "put_days_back", "let_days_go"


class ReleaseConfig(dg.Config, Undone):
    """The fields of the launchpad, with the descriptions that it shows."""

    days: str = Field(
        default="", description="Days of that table: YYYY-MM-DD..YYYY-MM-DD, both included."
    )
    act: bool = Field(default=False, description="false: only say what would be done. true: do it.")

    def request(self) -> RollbackRequest:
        """The request; raises BackfillError if it names neither a plan nor days of a table, or
        both."""
        if bool(self.plan) == bool(self.table and self.days):
            raise BackfillError(
                "the config",
                "it names neither a plan nor a table with days, or both",
                "Nothing was done",
                "Fill in `plan` (and `chunk`), or `table` and `days`",
            )
        asked = self.model_dump(include={*RollbackRequest.model_fields} - {"days"})
        return RollbackRequest(**asked, days=parse_span(self.days) if self.days else None)


class RollbackConfig(ReleaseConfig, PutBack):
    """Which days go back, and to what."""

    def request(self) -> RollbackRequest:
        """As of a release; a version below 0, with which the launchpad is filled, is none."""
        asked = super().request()
        return (
            asked if (asked.to_version or 0) >= 0 else asked.model_copy(update={"to_version": None})
        )


def rollback_jobs(lake_context: LakeContext) -> list[dg.JobDefinition]:
    """`rollback` and `release`, without an engine: seconds."""
    return [_rollback_job(lake_context), _release_job(lake_context)]


def _rollback_job(lake_context: LakeContext) -> dg.JobDefinition:
    @dg.op(
        name=lake_context.naming.name(PUT_BACK),
        description="Put days back to what they held, and hold them. Looks only, unless `act`.",
    )
    def put_days_back(context: dg.OpExecutionContext, config: RollbackConfig) -> None:
        """One rollback."""
        with as_failures():
            lake, pipeline = lake_context.open()
            request = config.request()
            if request.table and request.to_version is None:
                raise BackfillError(
                    f"the table {request.table}",
                    "no version is named",
                    "Nothing was put back",
                    "Fill in `to_version`",
                )
            provenance = _provenance(context)
            report = (
                roll_back(lake, pipeline, request, provenance)
                if config.act
                else preview(lake, pipeline, request)
            )
            hint = [] if report.is_done else ["Nothing was done: `act: true` does it"]
            show_lines(context, [*report.lines(), *hint])
            if report.is_done:
                _materialize(
                    context, lake_context, {t.contract.name: t.entries for t in report.tables}
                )

    what = (
        "Put days back to what they held before a plan, a chunk of it, or at a version of a table."
    )
    return one_op_job(lake_context, ROLLBACK, put_days_back, RollbackConfig(to_version=-1), what)


def _release_job(lake_context: LakeContext) -> dg.JobDefinition:
    @dg.op(
        name=lake_context.naming.name(RELEASE_OP),
        description="Allow rebuilds of days that a rollback holds. Looks only, unless `act`.",
    )
    def release_held_days(context: dg.OpExecutionContext, config: ReleaseConfig) -> None:
        """One release."""
        with as_failures():
            found = release(
                *lake_context.open(), config.request(), _provenance(context), act=config.act
            )
            verb = "released" if config.act else "would be released (`act: true` does it)"
            show_lines(context, [f"{name}: {ranges(days)} {verb}" for name, days in found.items()])
            if config.act:
                _materialize(context, lake_context, found)

    what = "Allow rebuilds of days that a rollback holds: stale ones are rebuilt."
    return one_op_job(
        lake_context, RELEASE, release_held_days, ReleaseConfig.model_validate({}), what
    )


def one_op_job(
    lake_context: LakeContext,
    name: str,
    op: dg.OpDefinition,
    config: dg.Config | None,
    description: str,
    tags: Mapping[str, str] | None = None,
) -> dg.JobDefinition:
    """The job of one op, with its launchpad filled in where it has one, and further `tags`."""
    named = lake_context.naming.name(name)
    return dg.GraphDefinition(name=named, node_defs=[op]).to_job(
        name=named,
        executor_def=dg.in_process_executor,
        tags={LAKE_TAG: address_of(lake_context.root), **(tags or {})},
        config=dg.RunConfig(ops={op.name: config}) if config else None,
        description=description,
    )


def show_lines(context: dg.OpExecutionContext, lines: Iterable[str]) -> None:
    """Show the lines on the page of the run: among its events, and as a list of its output."""
    told = [*lines]
    for line in told:
        context.log.info(
            line
        )  # a list is behind a click, and a run that looked only ends with success, too
    context.add_output_metadata(
        {"done": dg.MetadataValue.md("\n".join(f"- {line}" for line in told))}
    )


def _materialize(
    context: dg.OpExecutionContext, lake_context: LakeContext, days: Mapping[str, Iterable[date]]
) -> None:
    """Log a materialization per day, from its receipt."""
    lake, pipeline = lake_context.open()
    view = read_view(lake, pipeline.contracts)
    for name, written in days.items():
        for day in written:
            context.log_event(
                receipt_event(lake_context.naming, name, day, view.table(name).latest[day])
            )


def _provenance(context: dg.OpExecutionContext) -> Provenance:
    return Provenance("", run_id=context.run_id, tags={BY: through_dagster()})


MAINTAIN, EXPORT = "maintain", "export"
UNNEEDED = "delete_unneeded"


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

    what = (
        "Delete data files that no rollback needs any more, and write days and ledgers of small "
        "files again."
    )
    return one_op_job(lake_context, MAINTAIN, delete_unneeded, MaintainConfig(), what)


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


def superseded_runs(instance: dg.DagsterInstance, lake: str, before: datetime) -> list[str]:
    """The lake's runs that ended before (aware) and of which Dagster's pages need nothing: every
    day that one of them materialized was materialized again since."""
    ended = dg.RunsFilter(statuses=runs.ENDED, tags={runs.LAKE_TAG: lake}, updated_before=before)
    run_ids, of_asset = set[str](), defaultdict[dg.AssetKey, set[str]](set)
    for run in instance.get_runs(ended):
        run_ids.add(run.run_id)
        for event in runs.records_of(
            instance, run.run_id, dg.DagsterEventType.ASSET_MATERIALIZATION
        ):
            if event.asset_key is not None and event.partition is not None:
                of_asset[event.asset_key].add(event.partition)
    newest = {
        key: newest_materializations(instance, key, partitions)
        for key, partitions in of_asset.items()
    }
    needed = {record.run_id for by_day in newest.values() for record in by_day.values()}
    return sorted(run_ids - needed)
