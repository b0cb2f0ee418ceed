"""Which lake versions upkeep deletes: all beyond the days of rollbacks, and of older ones all but
the last of an hour, then of a day.

A version that something was made at stays beside them. Two machines may thin at once: each deletes
only what a later version of the same hour or day follows. Not here: which instants count, and
deleting (`upkeep.maintain`).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from backfill_assets.kernel.tables.versions import KeptEntries

ALL_STAY = timedelta(days=7)  # what people look for after a fault was noticed
HOURLY_STAY = timedelta(days=30)  # then one a day, as a table is compared with last month's
Period = Callable[[datetime], object]  # the hour or day of an entry's time


@dataclass(frozen=True)
class ThinnedTo:
    """An entry that stayed as the last one when those up to it were thinned out; 0: none."""

    number: int = 0
    at: datetime | None = None


@dataclass(frozen=True)
class Thinned:
    """How far the entries of a lake are thinned out to one a day, and to one an hour."""

    daily: ThinnedTo = ThinnedTo()
    hourly: ThinnedTo = ThinnedTo()


def unneeded_entries(
    entries: KeptEntries,
    before: datetime,
    now: datetime,
    named: Callable[[], Sequence[datetime]],
    thinned: Thinned,
) -> tuple[list[int], Thinned]:
    """Choose the numbers of the entries to delete: those from before an instant, and those that
    others of their hour or day follow; gives also how far they are thinned out then. Never the
    newest one.

    `named` gives ascending instants whose newest entry stays. `thinned` says what the last upkeep
    did; what it says of another log of the lake is passed over. All instants are aware.
    """
    newest = len(entries.numbers) - 1
    if newest < 1:
        return [], thinned
    gone = min(entries.count_by(before), newest)
    old = min(max(entries.count_by(now - HOURLY_STAY), gone), newest)
    aged = min(max(entries.count_by(now - ALL_STAY), old), newest)
    daily = range(max(gone, _index_of(entries, thinned.daily)), old)
    hourly = range(max(old, _index_of(entries, thinned.hourly)), aged)
    instants = named() if len(daily) > 1 or len(hourly) > 1 else ()
    found = [
        *range(gone),
        *_superseded(entries, daily, partial(_day_of, instants)),
        *_superseded(entries, hourly, partial(_hour_of, instants)),
    ]
    reached = Thinned(_last_of(entries, daily), _last_of(entries, hourly))
    return [entries.numbers[index] for index in found], reached


def _index_of(entries: KeptEntries, place: ThinnedTo) -> int:
    """The index of an entry that stayed; 0 where the log does not have it."""
    index = bisect_left(entries.numbers, place.number)
    is_there = index < len(entries.numbers) and entries.numbers[index] == place.number
    return index if is_there and entries.entry(index).at == place.at else 0


def _last_of(entries: KeptEntries, indices: range) -> ThinnedTo:
    """The last entry of those with these indices, which stays."""
    if not indices:
        return ThinnedTo()
    entry = entries.entry(indices[-1])
    return ThinnedTo(entry.number, entry.at)


def _superseded(entries: KeptEntries, indices: range, period: Period) -> Iterator[int]:
    """The indices of the entries that the next one of the same period follows. Only entries where a
    period begins or ends are read: times never fall from one to the next."""
    if len(indices) < 2:
        return
    first, last = indices[0], indices[-1]
    if period(entries.entry(first).at) == period(entries.entry(last).at):
        yield from indices[:-1]
    elif len(indices) > 2:
        middle = len(indices) // 2
        yield from _superseded(entries, indices[: middle + 1], period)
        yield from _superseded(entries, indices[middle:], period)


def _day_of(named: Sequence[datetime], at: datetime) -> tuple[datetime, int]:
    return _hour_of(named, at)[0].replace(hour=0), bisect_left(named, at)


def _hour_of(named: Sequence[datetime], at: datetime) -> tuple[datetime, int]:
    hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return hour, bisect_left(named, at)
