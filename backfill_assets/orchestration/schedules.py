"""The schedules: `daily_load`, which also catches up on missed days, and `rolling_reprocess`, off unless turned on.

Lives here: which days they request. Does not live here: exact repair of late data (`ticks`): these are for those who
want fixed times. Both request the job `rebuild`, the same load path as any other way.
"""

from datetime import UTC, date, datetime
from typing import Any

import dagster as dg

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.downstream import unheld
from backfill_assets.core.states import State, States
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.view import read_view
from backfill_assets.operations.plan_files import days_of_active_plans
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.bootstrap import is_there, no_lake
from backfill_assets.orchestration.context import LakeContext

DAILY, ROLLING = "daily_load", "rolling_reprocess"


def lake_schedules(lake_context: LakeContext, rebuild: Any) -> list[dg.ScheduleDefinition]:
    """`daily_load` at 02:00 UTC and `rolling_reprocess` at 03:00 UTC over the job `rebuild` (Any: its
    type has no public name in Dagster 1.13)."""

    @dg.schedule(
        name=DAILY, job=rebuild, cron_schedule="0 2 * * *", execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Every earlier day that was never made, in one run per contiguous range, in order, then yesterday.",
    )  # fmt: skip
    def daily_load(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        """Yesterday, and every day that was missed."""
        if not is_there(lake_context.root):
            return dg.SkipReason(str(no_lake(lake_context.root)))
        asked = _today(context)
        return [_request(DAILY, asked, days) for days in missed_days(lake_context, asked)] or dg.SkipReason(
            "no day is missing"
        )

    @dg.schedule(
        name=ROLLING, job=rebuild, cron_schedule="0 3 * * *", execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="The simple way: the last `rolling_days` that ended `delay_days` ago again, whatever happened.",
    )  # fmt: skip
    def rolling_reprocess(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        """The last days again."""
        if not is_there(lake_context.root):
            return dg.SkipReason(str(no_lake(lake_context.root)))
        asked = _today(context)
        lake, pipeline = lake_context.open()
        days = rolling_span(lake.settings, asked)
        if days is None:
            return dg.SkipReason("the lake's first day is not that long ago")
        if any(set(days) & planned for planned in days_of_active_plans(lake).values()):
            return dg.SkipReason(
                f"{days} has days of an active plan, which are left alone: `backfill-assets plan list`"
            )
        built = [dg.AssetKey(t.name) for t in pipeline.tables if not t.is_landed]
        ranges = unheld(pipeline.states(read_view(lake, pipeline.contracts)), days)
        return [_request(ROLLING, asked, free, built) for free in ranges] or dg.SkipReason(
            f"a rollback put all of {days} back, and holds them: `backfill-assets release` lets them go"
        )

    return [daily_load, rolling_reprocess]


def _today(context: dg.ScheduleEvaluationContext) -> date:
    moment: datetime = context.scheduled_execution_time
    return moment.astimezone(UTC).date()


def missed_days(lake_context: LakeContext, today: date) -> list[DayRange]:
    """The days before `today` to load: yesterday, and every day since raw's first receipt of which a table was never
    made (without receipts: since the lake's first day). None at or after `as_of`, of an active plan, or held by a
    rollback; as ranges, ascending, yesterday by itself: a missed day that fails again keeps no new day from being
    made."""
    lake, pipeline = lake_context.open()
    states = pipeline.states(read_view(lake, pipeline.contracts))
    loaded = (states.view.table(t.name).stamps for t in pipeline.tables if t.is_landed)
    first = min((day for stamps in loaded for day in stamps), default=lake.settings.start_date)
    days = [first + ONE_DAY * i for i in range((today - first).days)]
    yesterday = today - ONE_DAY
    planned = set().union(*days_of_active_plans(lake).values())
    due = [d for d in days if states.view.is_due(d) and d not in planned]
    missed = unheld(states, (d for d in due if d < yesterday and _is_missing(states, d)))
    return missed + unheld(states, (d for d in due if d == yesterday))


def _is_missing(states: States, day: date) -> bool:
    return any(states.of(name, day) is State.MISSING for name in states.contracts)


def rolling_span(settings: LakeSettings, today: date) -> DayRange | None:
    """The `rolling_days` days that ended `delay_days` before `today`, none before the lake's first day."""
    lateness = settings.lateness
    end = today - ONE_DAY * lateness.delay_days
    start = max(settings.start_date, end - ONE_DAY * lateness.rolling_days)
    return DayRange(start, end) if start < end else None


def _request(name: str, today: date, days: DayRange, tables: list[dg.AssetKey] | None = None) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=f"{name} {today} {days}",
        asset_selection=tables,
        tags={**runs.range_tags(days), runs.REASON_TAG: name},
    )
