"""Sensors and schedules of a lake as Dagster sees them, and the job with which `landing` scans new
files.

Here: their definitions, where notes and alarms of sensors go, and which days the schedules request.
Not here: what a tick decides (`ticks`). The cursor only shows what the last tick found; nothing
reads it.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.alerts import report_alarms
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.dagster_private import instance_id
from backfill_assets.dagster.adapter.io_manager import as_failures
from backfill_assets.dagster.adapter.jobs import one_op_job
from backfill_assets.dagster.adapter.runs import markers_of
from backfill_assets.dagster.adapter.ticks import (
    LANDING,
    LATE_DATA,
    SCAN,
    Tick,
    landing_tick,
    late_data_tick,
)
from backfill_assets.engines.lake_session import LakeSession, explaining_losses
from backfill_assets.intake.scan import scan_all, scan_each
from backfill_assets.kernel.core.addresses import TICK_SECONDS, bucket_address
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, contiguous_ranges
from backfill_assets.kernel.core.errors import BackfillError, raise_first_error
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.table_places import base_lake_folder
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.attention import keep_alarms
from backfill_assets.reading.claims import days_of_active_plans
from backfill_assets.reading.readable import observe_others

# A tick with nothing to do costs a few hundred milliseconds, and there are five levels.
INTERVAL_SECONDS = 10
CURSOR_CHARS = 2000
DAILY, ROLLING = "daily_load", "rolling_reprocess"


def scan_job(lake_context: LakeContext) -> dg.JobDefinition:
    """The job that takes stock of the landing folder: afterwards it is known which days the new
    files touch."""

    @dg.op(
        name=lake_context.naming.name("take_stock"),
        description="Read new landed files once and record their days and rows in `files`.",
    )
    def take_stock(context: dg.OpExecutionContext) -> None:
        """One scan of each source, under its load lock."""
        with as_failures(), explaining_losses():
            lake, pipeline = lake_context.open()
            markers_of(context.instance, lake).mark(context.run_id)
            observed, unread = observe_others(lake, pipeline.contracts)
            report = scan_all(LakeSession(lake))
            raise_first_error(unread)
        for found in observed:
            context.log.info(str(found))
        context.log.info(
            f"{len(report.new)} new, {len(report.copies)} copies, {len(report.waiting)} still "
            "being written"
        )
        context.add_output_metadata(
            {"new": len(report.new), "known": report.known, "refused": len(report.refused)}
        )

    return one_op_job(lake_context, SCAN, take_stock, None, "Take stock of the landing folder.")


def scan_each_source(
    lake: Lake, pipeline: Pipeline, log: Callable[[str], None]
) -> tuple[frozenset[date], list[BackfillError]]:
    """Scan each source and look at the tables of others; the arrival days whose files are altered
    or missing, and the errors of those that cannot be scanned. Shows what changed. Raises as
    `scan_each`."""
    observed, unread = observe_others(lake, pipeline.contracts)
    with explaining_losses():
        report, failed = scan_each(LakeSession(lake))
    for found in observed:
        log(str(found))
    log(f"{len(report.new)} new landed files, {len(report.waiting)} still being written")
    return report.blocked, [*failed, *unread]


def lake_sensors(lake_context: LakeContext, jobs: Sequence[Any]) -> list[dg.SensorDefinition]:
    """`landing` and `late_data`; `jobs` are `rebuild` and `scan_landing` (an asset job has no
    public type)."""
    return [
        lake_sensor(
            lake_context,
            LANDING,
            jobs,
            lambda instance: landing_tick(instance, lake_context, utc_now()),
            "Loads what lands: scans new complete files, then loads every arrival day that is not "
            "in raw.",
        ),
        lake_sensor(
            lake_context,
            LATE_DATA,
            jobs,
            lambda instance: late_data_tick(instance, lake_context, utc_now()),
            "Rebuilds exactly the days whose inputs changed, upstream first; early cut-off ends "
            "the cascade.",
        ),
    ]


def lake_sensor(
    lake_context: LakeContext,
    name: str,
    jobs: Sequence[Any],
    tick: Callable[[dg.DagsterInstance], Tick],
    what: str,
    interval_seconds: int | None = None,
) -> dg.SensorDefinition:
    """A sensor that requests the runs of `tick`; without a lake it says so. It ticks each
    `interval_seconds`, else each ten; of a lake in a bucket, where a look has its price, each
    `TICK_SECONDS`."""
    seconds = interval_seconds or (
        TICK_SECONDS if bucket_address(lake_context.root) else INTERVAL_SECONDS
    )
    status = dg.DefaultSensorStatus.STOPPED
    if lake_context.appearance.runs(name):
        status = dg.DefaultSensorStatus.RUNNING

    @dg.sensor(
        name=lake_context.naming.name(name),
        jobs=jobs,
        minimum_interval_seconds=seconds,
        description=what,
        default_status=status,
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """One tick."""
        if lake_context.missing is not None:
            return dg.SensorResult(skip_reason=str(lake_context.missing))
        if base_lake_folder(lake_context.root) != lake_context.root:
            return dg.SensorResult(
                skip_reason="a candidate is brought up to date by `catch-up`, not by sensors"
            )
        return _sensor_result(context, lake_context, name, tick(context.instance))

    return sensor


def _sensor_result(
    context: dg.SensorEvaluationContext, lake_context: LakeContext, sensor: str, tick: Tick
) -> dg.SensorResult:
    """The tick as Dagster takes it. Alarms are kept for the commands and sent once, by a tick that
    requests no run: a webhook that answers slowly holds no request back."""
    for note in tick.notes:
        context.log.info(note)
    keep_alarms(
        lake_context.root,
        instance_id(context.instance),
        sensor,
        {} if tick.is_kept else tick.alarms,
    )
    if not tick.requests:
        report_alarms(lake_context.root, context.instance, sensor, tick.alarms, context.log)
    alarms = [*tick.alarms.values()]
    other_notes = [note for note in tick.notes if note not in alarms]
    cursor = "; ".join([*alarms, *other_notes])[:CURSOR_CHARS] or "nothing to do"
    return dg.SensorResult(
        run_requests=tick.requests or None,
        skip_reason=None if tick.requests else cursor,
        cursor=cursor,
        asset_events=tick.verdicts,
    )


def lake_schedules(lake_context: LakeContext, rebuild: Any) -> list[dg.ScheduleDefinition]:
    """`daily_load` at 02:00 UTC and `rolling_reprocess` at 03:00 UTC over the job `rebuild` (Any:
    its type has no public name in Dagster 1.13)."""

    def missed(today: date) -> dg.SkipReason | list[dg.RunRequest]:
        """Request yesterday and the days that were missed."""
        requests = [_days_request(DAILY, today, days) for days in missed_days(lake_context, today)]
        return requests or dg.SkipReason("no day is missing")

    def rolling(today: date) -> dg.SkipReason | list[dg.RunRequest]:
        """Request the last days of the built tables again."""
        return rolling_requests(lake_context, today)

    what = (
        "Every earlier day never made, in one run per contiguous range, in order, then yesterday."
    )
    again = (
        "Off: `late_data` does better. The last `rolling_days` that ended `delay_days` ago, in "
        "any case."
    )
    return [
        lake_schedule(lake_context, DAILY, rebuild, "0 2 * * *", what, missed),
        lake_schedule(lake_context, ROLLING, rebuild, "0 3 * * *", again, rolling, is_on=False),
    ]


def lake_schedule(  # noqa: PLR0913 - what Dagster's decorator takes
    lake_context: LakeContext,
    name: str,
    job: Any,
    cron: str,
    what: str,
    requests: Callable[[date], Any],
    is_on: bool = True,
) -> dg.ScheduleDefinition:
    """A schedule in UTC that requests `requests(today)`; without a lake it says so."""

    status = dg.DefaultScheduleStatus.STOPPED
    if is_on and lake_context.appearance.runs(name):
        status = dg.DefaultScheduleStatus.RUNNING

    @dg.schedule(
        name=lake_context.naming.name(name),
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        description=what,
        default_status=status,
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> Any:
        """One tick."""
        if lake_context.missing is not None:
            return dg.SkipReason(str(lake_context.missing))
        return requests(context.scheduled_execution_time.astimezone(UTC).date())

    return schedule


def rolling_requests(lake_context: LakeContext, today: date) -> dg.SkipReason | list[dg.RunRequest]:
    """Requests for the `rolling_days` days that ended `delay_days` before `today`, without held
    days; else why none."""
    lake, pipeline = lake_context.look()
    lateness = lake.settings.lateness
    stop = today - ONE_DAY * lateness.delay_days
    start = max(lake.settings.start_date, stop - ONE_DAY * lateness.rolling_days)
    if start >= stop:
        return dg.SkipReason("the lake's first day is not that long ago")
    days = DayRange(start, stop)
    if not _planned_days(lake, pipeline).isdisjoint(days):
        return dg.SkipReason(
            f"{days} has days of an active plan, which are left alone: `backfill-assets plan list`"
        )
    ranges = unheld_ranges(pipeline.states(read_view(lake, pipeline.contracts)), days)
    daily = [t for t in pipeline.own if t.contract.calendar.is_daily]
    built = [lake_context.naming.key(t.name) for t in daily if not t.is_landed]
    if not ranges:
        return dg.SkipReason(
            f"a rollback put all of {days} back, and holds them: `backfill-assets release` lets "
            "them go"
        )
    return [_days_request(ROLLING, today, free, built) for free in ranges]


def _planned_days(lake: Lake, pipeline: Pipeline) -> set[date]:
    """The days that active plans have of tables with a partition for every day: the key of a month
    is no day that a run of all tables may not have."""
    daily = {c.name for c in pipeline.contracts if c.calendar.is_daily}
    found = set[date]()
    for name, days in days_of_active_plans(lake).items():
        if name in daily:
            found |= days
    return found


def _days_request(
    name: str, today: date, days: DayRange, tables: list[dg.AssetKey] | None = None
) -> dg.RunRequest:
    tags = {**runs.range_tags(days), runs.REASON_TAG: name}
    return dg.RunRequest(run_key=f"{name} {today} {days}", asset_selection=tables, tags=tags)


def missed_days(lake_context: LakeContext, today: date) -> list[DayRange]:
    """The days before `today` to load: yesterday, and every day since raw's first receipt (without
    receipts: since the lake's first day) that is missing in a table. None at or after `as_of`, of
    an active plan, or held by a rollback.

    As ranges, ascending, yesterday by itself: a missed day that fails again holds no new day back.
    """
    lake, pipeline = lake_context.look()
    states = pipeline.states(read_view(lake, pipeline.contracts))
    loaded = (states.view.table(t.name).latest for t in pipeline.tables if t.is_landed)
    first = min((day for latest in loaded for day in latest), default=lake.settings.start_date)
    days = [first + ONE_DAY * i for i in range((today - first).days)]
    yesterday = today - ONE_DAY
    planned = _planned_days(lake, pipeline)
    due = [d for d in days if states.view.is_due(d) and d not in planned]
    # The others are not in the job `rebuild`: `late_data` requests their partitions.
    daily = [t.name for t in pipeline.own if t.contract.calendar.is_daily]
    missing = set[date]()
    for day in due:
        if any(states.of(name, day) is State.MISSING for name in daily):
            missing.add(day)
    missed = unheld_ranges(states, (d for d in due if d < yesterday and d in missing))
    return missed + unheld_ranges(states, (d for d in due if d == yesterday))


def unheld_ranges(states: States, days: Iterable[date]) -> list[DayRange]:
    """The days as ranges, without days that are held or closed in any table: a run of a range with
    one is refused as a whole."""
    return contiguous_ranges(day for day in days if not _is_left_alone(states, day))


def _is_left_alone(states: States, day: date) -> bool:
    """Whether a run of all tables with a partition for every day would meet a held or closed
    one."""
    daily = (name for name, c in states.contracts.items() if c.calendar.is_daily)
    return any(states.of(name, day).is_left_alone for name in daily)
