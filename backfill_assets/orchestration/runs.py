"""What Dagster's runs cover and have tried, as days of tables.

Lives here: the names of tags and of the job, the days of queued and running runs, the attempts that ended in vain, runs
of the last day. Does not live here: what the lake needs (`core.needs`). Read anew at every tick: a cursor may be wiped,
runs are kept.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

import dagster as dg

from backfill_assets.core.days import ONE_DAY, parse_day
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.requests import Attempts

REBUILD = "rebuild"
REASON_TAG, NOTE_TAG = "backfill_assets/reason", "backfill_assets/note"
LAKE_TAG = "backfill_assets/lake"  # one instance may serve several lakes
REQUEST_TAG = "backfill_assets/request"
SENSOR_TAG = "backfill_assets/sensor"  # our own: Dagster sets its tag only where its daemon launches
PARTITION, RANGE_START, RANGE_END = (
    "dagster/partition", "dagster/asset_partition_range_start", "dagster/asset_partition_range_end",
)  # fmt: skip
ACTIVE = [
    dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING,
]  # fmt: skip
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
LOOK_BACK_RUNS = 200  # a day that fails is asked for at nearly every tick: its attempts are among the newest runs
PAGE = 5000  # events read from storage at once
ONE_DAY_OF_CLOCK = timedelta(hours=24)


def busy_days(instance: dg.DagsterInstance, job: str, tables: list[str]) -> dict[str, set[date]]:
    """Per table the days that queued and running runs will make; a run of `job` without a selection makes `tables`."""
    busy: dict[str, set[date]] = defaultdict(set)
    for run in instance.get_runs(dg.RunsFilter(statuses=ACTIVE)):
        chosen = run.asset_selection
        names = {k.path[-1] for k in chosen} if chosen else set(tables if run.job_name == job else ())
        days = set(_days(run))
        for name in names & set(tables):
            busy[name] |= days
    return dict(busy)


def first_and_last(run: dg.DagsterRun) -> tuple[str, str]:
    """The first and the last day of a run, both included, as its tags say them; empty where it has no days."""
    first = run.tags.get(RANGE_START, run.tags.get(PARTITION, ""))
    return first, run.tags.get(RANGE_END, first)


def records_of(instance: dg.DagsterInstance, run_id: str, kind: dg.DagsterEventType) -> Iterator[dg.DagsterEvent]:
    """The events of one kind of a run, in their order, page by page: a long range has tens of thousands."""
    cursor = None
    while True:
        page = instance.get_records_for_run(run_id, cursor, kind, limit=PAGE)
        for record in page.records:
            if record.event_log_entry.dagster_event is not None:
                yield record.event_log_entry.dagster_event
        if not page.has_more:
            return
        cursor = page.cursor


def _days(run: dg.DagsterRun) -> Iterator[date]:
    first, last = first_and_last(run)
    try:
        day, end = parse_day(first), parse_day(last)
    except BackfillError:
        return
    while day <= end:
        yield day
        day += ONE_DAY


def attempts(instance: dg.DagsterInstance, sensor: str) -> Attempts:
    """How often runs of a sensor that ended had asked for a (table, day, identity)."""
    counted: Counter[tuple[str, str, str]] = Counter()
    ended = dg.RunsFilter(statuses=ENDED, tags={SENSOR_TAG: sensor})
    for run in instance.get_runs(ended, limit=LOOK_BACK_RUNS):
        ops: Any = run.run_config.get("ops", {})
        for op, body in ops.items():
            asked = body.get("config", {}).get("asked", {})
            counted.update((op.removeprefix("make_"), day, known) for day, known in asked.items())
    return counted


def is_active(instance: dg.DagsterInstance, job: str) -> bool:
    """Whether a run of the job is queued or running."""
    return bool(instance.get_runs(dg.RunsFilter(job_name=job, statuses=ACTIVE), limit=1))


def ended_runs(instance: dg.DagsterInstance, request: str) -> int:
    """How many runs of this request have ended, however."""
    return instance.get_runs_count(dg.RunsFilter(statuses=ENDED, tags={REQUEST_TAG: request}))


def runs_of_last_day(instance: dg.DagsterInstance, sensor: str, now: datetime) -> int:
    """How many runs the sensor asked for in the 24 hours before `now`."""
    return instance.get_runs_count(dg.RunsFilter(tags={SENSOR_TAG: sensor}, created_after=now - ONE_DAY_OF_CLOCK))
