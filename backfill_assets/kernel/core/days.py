"""Days: the only slices of time that tables are cut into. UTC, half-open.

A day lasts until midnight after it, that instant excluded; its as-of cutoff is that midnight plus a
grace. Not here: the frontier (`kernel.core.frontier`), and anything that asks the clock.
`pipeline.transforms.declared` and `kernel.write.judging` apply cutoff and maturity in Spark or SQL,
and change with them.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from backfill_assets.kernel.core.answers import DaySpan
from backfill_assets.kernel.core.errors import BackfillError

ONE_DAY = timedelta(days=1)
SHOWN_RANGES = 5
# `date.fromisoformat` also takes ISO weeks (2024-W13-7), which are ten characters long too.
SHORT_LAST = re.compile(r"([0-9]{2}-)?[0-9]{2}")  # of a span of days: the end of its last day
DAY_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, order=True)
class DayRange:
    """The days `start` (included) up to `end` (excluded). Never empty: raises ValueError when `end
    <= start`."""

    start: date
    end: date

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise ValueError(
                f"a range of days ends after it starts, got [{self.start}, {self.end})"
            )

    def __iter__(self) -> Iterator[date]:
        return (self.start + ONE_DAY * i for i in range(len(self)))

    def __len__(self) -> int:
        return (self.end - self.start).days

    def __contains__(self, day: object) -> bool:
        return isinstance(day, date) and self.start <= day < self.end

    @property
    def last(self) -> date:
        """The last day inside the range."""
        return self.end - ONE_DAY

    def to_dict(self) -> DaySpan:
        """The first and the last day as JSON values, both included."""
        return {"from": str(self.start), "to": str(self.last)}

    def __str__(self) -> str:
        if len(self) == 1:
            return str(self.start)
        return f"{self.start}..{self.last}"


class ChosenSpan(DaySpan):
    """Days with gaps as JSON values."""

    days: str


@dataclass(frozen=True)
class SomeDays(DayRange):
    """Days with gaps: the `chosen` ones, from `start` up to `end`. Made by `some_days`."""

    chosen: frozenset[date] = frozenset()

    def __iter__(self) -> Iterator[date]:
        return iter(sorted(self.chosen))

    def __len__(self) -> int:
        return len(self.chosen)

    def __contains__(self, day: object) -> bool:
        return day in self.chosen

    def to_dict(self) -> ChosenSpan:
        """The first and the last day, both included, and `days` as `parse_days` reads them."""
        return {**super().to_dict(), "days": days_text(self)}

    def __str__(self) -> str:
        return ranges_text(self)


def some_days(days: Iterable[date]) -> DayRange:
    """Exactly these days (any order, repetitions allowed): a range where they are one. Raises
    ValueError for none."""
    chosen = frozenset(days)
    if not chosen:
        raise ValueError("some days are at least one day")
    whole = DayRange(min(chosen), max(chosen) + ONE_DAY)
    if len(whole) == len(chosen):
        return whole
    return SomeDays(whole.start, whole.end, chosen)


def inclusive_range(first: date, last: date) -> DayRange:
    """The range of the days from `first` through `last`, both included, as people type it. Raises
    BackfillError where `last` is earlier, or is the last day of the calendar."""
    if last < first:
        culprit, fix = (
            f"it ends on {last}, before it starts on {first}",
            "Give the earlier day first",
        )
    elif last == date.max:
        culprit, fix = f"after {last} there is no midnight", "Give an earlier last day"
    else:
        return DayRange(first, last + ONE_DAY)
    raise BackfillError("the range of days", culprit, "Nothing was done", fix)


def parse_day(text: str) -> date:
    """The day that `YYYY-MM-DD` names (ASCII digits only); raises BackfillError otherwise."""
    if DAY_FORM.fullmatch(text):
        with suppress(ValueError):
            return date.fromisoformat(text)
    raise BackfillError(
        f"the day {text[:40]!r}",
        "it is not a date of the form YYYY-MM-DD",
        "Nothing was done",
        "Write e.g. 2024-03-31",
    )


def day_range(first: str | date, last: str | date | None = None) -> DayRange:
    """The days from `first` through `last` (None: that one day), as people write them. Raises
    BackfillError for a text that is no day."""
    start = _day_of(first)
    if last is None:
        return inclusive_range(start, start)
    return inclusive_range(start, _day_of(last))


def _day_of(written: str | date) -> date:
    if isinstance(written, date):
        return written
    return parse_day(written)


def parse_span(text: str) -> DayRange:
    """The days that `A..B` names (both included), or the one day that `A` names; raises
    BackfillError otherwise."""
    first, dots, last = text.partition("..")
    return day_range(first, last if dots else None)


def parse_days(text: str) -> DayRange:
    """The days of a list such as `2024-03-01,2024-03-05..07`: days and spans between commas, each
    span with its last day whole or as the end of one (`07`, `04-02`). Raises BackfillError for
    another text."""
    found: list[date] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        first, dots, last = part.partition("..")
        if dots and SHORT_LAST.fullmatch(last):
            last = first[: -len(last)] + last
        found += day_range(first, last if dots else None)
    if not found:
        raise BackfillError(
            "the list of days",
            "it names no day",
            "Nothing was done",
            "Write e.g. 2024-03-01,2024-03-05..07",
        )
    return some_days(found)


def days_text(days: Iterable[date]) -> str:
    """These days as `parse_days` reads them."""
    return ",".join(map(str, contiguous_ranges(days)))


def contiguous_ranges(days: Iterable[date]) -> list[DayRange]:
    """The fewest ranges that hold exactly `days` (any order, repetitions allowed), ascending."""
    found: list[DayRange] = []
    for day in sorted(set(days)):
        if found and found[-1].end == day:
            found[-1] = DayRange(found[-1].start, day + ONE_DAY)
        else:
            found.append(DayRange(day, day + ONE_DAY))
    return found


def ranges_text(days: Iterable[date], most: int = SHOWN_RANGES) -> str:
    """Write days as at most `most` ranges, and the number of further ranges."""
    found = contiguous_ranges(days)
    shown = ", ".join(map(str, found[:most]))
    if len(found) > most:
        return f"{shown} and {len(found) - most} more ranges"
    return shown


def covering_ranges(days: Iterable[date], at_most: int, apart: int = 0) -> list[DayRange]:
    """At most `at_most` (>= 1) ranges that hold all of `days`, ascending; the smallest gaps are
    filled, of equal ones the earlier, and those of fewer days than `apart`."""
    found = contiguous_ranges(days)
    gaps = [after.start - before.end for before, after in itertools.pairwise(found)]
    by_size = sorted(range(len(gaps)), key=gaps.__getitem__)
    filled = set(by_size[: max(len(found) - max(at_most, 1), 0)])
    filled |= {number for number, gap in enumerate(gaps) if gap.days < apart}
    joined = found[:1]
    for number, span in enumerate(found[1:]):
        if number in filled:
            joined[-1] = DayRange(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined


def midnight(day: date) -> datetime:
    """The instant (aware, UTC) at which `day` begins."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


LEAST = timedelta(microseconds=1)  # the resolution of every time in a lake


def end_of_day(day: date) -> datetime:
    """Midnight after `day`: the first instant that is no longer in it."""
    return midnight(day + ONE_DAY)


def is_day_over(day: date, frontier: datetime | None) -> bool:
    """Whether everything that arrived on `day` is loaded."""
    return _is_reached(end_of_day(day), frontier)


def cut_of(day: date, grace: timedelta) -> datetime:
    """The as-of cutoff of `day`: midnight after it plus `grace`."""
    return end_of_day(day) + grace


def cut_has_passed(day: date, grace: timedelta, frontier: datetime | None) -> bool:
    """Whether everything that arrived before the cutoff of `day` is loaded."""
    return _is_reached(cut_of(day, grace), frontier)


def last_known_day(day: date, grace: timedelta) -> date:
    """The last arrival day with an instant before the cutoff of `day`."""
    return (cut_of(day, grace) - LEAST).date()


def days_until_mature(horizon_days: int, maturity_days: int) -> int:
    """The days after `d + 1` from which on the outcome over a horizon is mature."""
    return horizon_days + maturity_days


def is_mature(day: date, matures_after_days: int, frontier: datetime | None) -> bool:
    """Whether `day + 1 + matures_after_days` days <= frontier."""
    return is_day_over(day + ONE_DAY * matures_after_days, frontier)


def newest_day_over(instant: datetime) -> date:
    """The greatest day that is over at `instant`."""
    return instant.astimezone(UTC).date() - ONE_DAY


def newest_mature_day(instant: datetime, matures_after_days: int) -> date:
    """The greatest day that is mature at `instant`."""
    return newest_day_over(instant) - ONE_DAY * matures_after_days


def _is_reached(instant: datetime, frontier: datetime | None) -> bool:
    return frontier is not None and instant <= frontier
