"""The partitions of tables as Dagster has them, and how those of one table follow from another's.

Here: a calendar as a definition, its keys named by their first day, and the calendar of a
definition's schedule. Not here: calendars (`kernel.core.calendars`), and what else a project's
assets may bring (`assets.contracts`).
"""

import re
from collections.abc import Callable, Collection
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg

from backfill_assets.dagster.adapter.context import window_mapping
from backfill_assets.kernel.core.calendars import Calendar, Unit
from backfill_assets.kernel.core.contracts import Input, InputKind
from backfill_assets.kernel.core.days import DayRange, parse_day

KEY_FORM = "%Y-%m-%d"
FIRST_DAYS = {
    Unit.DAY: "0 0 * * *",
    Unit.MONTH: "0 0 1 * *",
    Unit.QUARTER: "0 0 1 1,4,7,10 *",
    Unit.YEAR: "0 0 1 1 *",
}
# Of schedules: leap years, week 53, and years that begin on each weekday.
COMPARED = DayRange(date(2000, 1, 1), date(2012, 1, 1))
COMPARED_ENDS = "2020-01-01"  # by then the last of these has its next one, also of February 29
CALENDARS = (
    *(Calendar(unit) for unit in FIRST_DAYS),
    *(Calendar(Unit.WEEK, first_weekday) for first_weekday in range(7)),
)
# Of a day, as cron's last three fields, and what each may be.
NUMBERS: tuple[Callable[[date], int], ...] = (attrgetter("day"), attrgetter("month"), date.weekday)
POSSIBLE = (range(1, 32), range(1, 13), range(7))
ONCE_A_DAY = re.compile(r"\d+ \d+ \S+ \S+ \S+")  # a schedule at one minute of one hour


def partitions_of(calendar: Calendar, start: date) -> dg.TimeWindowPartitionsDefinition:
    """The definition of a table's partitions (UTC) that begin on `start` or after it, without an
    end: with one in the past the UI draws no plots (Dagster 1.13). Of more than a day each, the
    partition of today is there, too: it is made as far as it has come."""
    if calendar.is_daily:
        return dg.DailyPartitionsDefinition(start_date=start.isoformat(), timezone="UTC")
    if calendar.unit is Unit.WEEK:
        schedule = _weekday_schedule(calendar.first_weekday)
    else:
        schedule = FIRST_DAYS[calendar.unit]
    left_out: list[str | datetime] = [*map(_weekday_schedule, sorted(calendar.left_out_weekdays))]
    for day in sorted(calendar.left_out_dates):
        left_out.append(datetime(day.year, day.month, day.day, tzinfo=UTC))
    return dg.TimeWindowPartitionsDefinition(
        start=start.isoformat(),
        fmt=KEY_FORM,
        cron_schedule=schedule,
        timezone="UTC",
        end_offset=0 if calendar.is_of_days else 1,
        exclusions=left_out or None,
    )


@lru_cache(maxsize=64)
def calendar_of_schedule(schedule: str) -> Calendar | None:
    """The calendar whose partitions begin on the days on which a cron schedule fires, at any one
    time of these; None for schedules of other days, and of several times a day."""
    if not ONCE_A_DAY.fullmatch(schedule):
        return None  # and of each minute, twelve years have millions
    fired = _fired_days(schedule)
    return next((one for one in CALENDARS if _first_keys(one, len(fired)) == fired), None)


def left_out_of(partitions: dg.PartitionsDefinition) -> list[Any]:
    """The keys that a definition's exclusions leave out, as a contract takes them (`leaving_out`).
    A schedule that no numbers of days, months and weekdays describe, such as that of the first
    Monday of each month, is passed over."""
    found = list[Any]()
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return found
    minute, hour, *_ = partitions.cron_schedule.split()
    for exclusion in partitions.exclusions or ():
        if isinstance(exclusion, str):
            at, days = exclusion.split()[:2], exclusion.split()[2:]
            if at in ([minute, hour], ["*", hour], ["*", "*"]):
                found += _numbers_of_schedule(" ".join([minute, hour, *days]))
            continue
        begins = datetime.fromtimestamp(exclusion.timestamp, ZoneInfo(exclusion.timezone))
        if (begins.hour, begins.minute) == (int(hour), int(minute)):
            found.append(str(begins.date()))
    return found


@lru_cache(maxsize=64)
def _numbers_of_schedule(schedule: str) -> list[list[list[int]]]:
    """The numbers of days, months and weekdays on which a cron schedule fires, as one element; none
    where it does not fire on all days that have them."""
    if not ONCE_A_DAY.fullmatch(schedule):
        return []
    fired = _fired_days(schedule)
    _, _, *fields = schedule.split()
    numbers = list[list[int]]()
    for field, possible, number in zip(fields, POSSIBLE, NUMBERS, strict=True):
        numbers.append([*possible] if field == "*" else sorted({*map(number, fired)}))
    described = [
        day
        for day in COMPARED
        if all(number(day) in found for number, found in zip(NUMBERS, numbers, strict=True))
    ]
    return [numbers] if described == fired else []


def _fired_days(schedule: str) -> list[date]:
    """The compared days on which a cron schedule fires, ascending."""
    keys = dg.TimeWindowPartitionsDefinition(
        start=str(COMPARED.start), end=COMPARED_ENDS, cron_schedule=schedule, fmt=KEY_FORM
    ).get_partition_keys()
    return [day for day in map(parse_day, keys) if day in COMPARED]


def _first_keys(calendar: Calendar, count: int) -> list[date]:
    """The first so many keys of a calendar among the compared days."""
    found = (key for key in calendar.keys_in(COMPARED) if key >= COMPARED.start)
    return [*islice(found, count)]


def _weekday_schedule(number: int) -> str:
    """The midnights at which a weekday begins, 0 of Monday; cron counts from Sunday."""
    return f"0 0 * * {(number + 1) % 7}"


def shown_mapping(inputs: Collection[Input], as_windows: bool) -> dg.PartitionMapping:
    """The mapping of a partition to those that these inputs need of a table (`as_windows`), or to
    the same day; of deliveries, which can be for any day, the same day. Between other calendars it
    is to the partitions that cover one of its days: Dagster moves no window there."""
    if any(i.calendar != i.made_in for i in inputs):
        return window_mapping(0, 0)
    if not as_windows or any(i.kind is InputKind.ARRIVALS for i in inputs):
        return dg.IdentityPartitionMapping()
    return window_mapping(max(i.before for i in inputs), max(i.after for i in inputs))
