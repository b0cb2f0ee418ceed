"""What plans add to Dagster: the jobs `rollback` and `release` with typed launchpads, the job of a
plan and its sensor.

Not here: the work itself (`plans.rollback`), a plan's job and sensor (`plans.plan_job`), and events
of rollbacks by command (`dagster.adapter.reconcile`).
"""

from collections.abc import Iterable, Mapping
from datetime import date

import dagster as dg
from pydantic import Field

from backfill_assets.dagster.adding import (
    LakeContext,
    ShownLake,
    as_failures,
    dagster_requester,
    one_op_job,
    receipt_event,
    show_lines,
)
from backfill_assets.kernel.core.days import parse_span, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ownership import BY
from backfill_assets.kernel.core.plans import RELEASE, ROLLBACK
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.plans.plan_job import backfill_job, plans_sensor
from backfill_assets.plans.policy import ReleaseOptions, RollbackOptions
from backfill_assets.plans.rollback import (
    RollbackRequest,
    preview_rollback,
    release_days,
    roll_back,
)

PUT_BACK, RELEASE_OP = "put_days_back", "let_days_go"


def definitions(shown: ShownLake) -> dg.Definitions:
    """The jobs of plans and rollbacks, and the sensor that goes on with plans."""
    settings = shown.opened.lake.settings
    ranged = backfill_job(shown.lake_context, settings, shown.rebuild_of)
    return dg.Definitions(
        jobs=[ranged, *rollback_jobs(shown.lake_context)],
        sensors=[plans_sensor(shown.lake_context, ranged)],
    )


class ReleaseConfig(dg.Config, ReleaseOptions):
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


class RollbackConfig(ReleaseConfig, RollbackOptions):
    """Which days go back, and to what."""

    def request(self) -> RollbackRequest:
        """The request, without a version to go back to where that is below 0, with which the
        launchpad is filled. Raises BackfillError as that of a release does."""
        asked = super().request()
        if asked.to_version is None or asked.to_version >= 0:
            return asked
        return asked.model_copy(update={"to_version": None})


def rollback_jobs(lake_context: LakeContext) -> list[dg.JobDefinition]:
    """`rollback` and `release`, without an engine: seconds."""
    return [_rollback_job(lake_context), _release_job(lake_context)]


def _rollback_job(lake_context: LakeContext) -> dg.JobDefinition:
    """The job `rollback`: shows what it would put back, or does it with `act: true` and logs a
    materialization per day."""

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
            if config.act:
                report = roll_back(lake, pipeline, request, _run_provenance(context))
            else:
                report = preview_rollback(lake, pipeline, request)
            hint = [] if report.is_done else ["Nothing was done: `act: true` does it"]
            show_lines(context, [*report.lines(), *hint])
            if report.is_done:
                _materialize_days(
                    context, lake_context, {t.contract.name: t.entries for t in report.tables}
                )

    what = (
        "Put days back to what they held before a plan, a chunk of it, or at a version of a table."
    )
    return one_op_job(lake_context, ROLLBACK, put_days_back, RollbackConfig(to_version=-1), what)


def _release_job(lake_context: LakeContext) -> dg.JobDefinition:
    """The job `release`: lists the held days, or releases them with `act: true` and logs a
    materialization per day."""

    @dg.op(
        name=lake_context.naming.name(RELEASE_OP),
        description="Allow rebuilds of days that a rollback holds. Looks only, unless `act`.",
    )
    def release_held_days(context: dg.OpExecutionContext, config: ReleaseConfig) -> None:
        """One release."""
        with as_failures():
            found = release_days(
                *lake_context.open(), config.request(), _run_provenance(context), act=config.act
            )
            verb = "released" if config.act else "would be released (`act: true` does it)"
            show_lines(
                context, [f"{name}: {ranges_text(days)} {verb}" for name, days in found.items()]
            )
            if config.act:
                _materialize_days(context, lake_context, found)

    what = "Allow rebuilds of days that a rollback holds: stale ones are rebuilt."
    return one_op_job(
        lake_context, RELEASE, release_held_days, ReleaseConfig.model_validate({}), what
    )


def _materialize_days(
    context: dg.OpExecutionContext, lake_context: LakeContext, days: Mapping[str, Iterable[date]]
) -> None:
    """Log a materialization per day, from its receipt."""
    lake, pipeline = lake_context.open()
    states, naming = pipeline.states(read_view(lake, pipeline.contracts)), lake_context.naming
    for name, written in days.items():
        latest = states.view.table(name).latest
        for day in written:
            context.log_event(receipt_event(naming, states, name, day, latest[day]))


def _run_provenance(context: dg.OpExecutionContext) -> Provenance:
    """The run and who asked for it; the reason is left to who writes the receipt."""
    return Provenance("", run_id=context.run_id, tags={BY: dagster_requester()})
