"""Completeness by age, look-backs with intervals, and watermarks, from counts of rows per arrival day and event day.

The age of a row is its arrival day minus its event day, in whole UTC days (0 if it arrived before its event day); a row
is late iff its age is 1 or more. Not here: counting the rows and the report (`operations.lateness`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import accumulate
from statistics import NormalDist
from typing import Any

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.days import ONE_DAY, DayRange, end_of, newest_over

AGES_DAYS = (0, 1, 2, 3, 7, 14, 30, 90)  # the ages shown: the steps people plan in (days, weeks, month, quarter)
LONGEST_LOOK_BACK_DAYS = 90  # a quarter: who reprocesses more every night rebuilds the table
CONFIDENCE = 0.95  # of the advisor's intervals


@dataclass(frozen=True)
class Cell:
    """How many upserts arrived on `arrival_day` for `event_day`, and when."""

    arrival_day: date
    event_day: date
    rows: int

    @property
    def age_days(self) -> int:
        """Arrival day minus event day, 0 where the rows came before their day."""
        return max((self.arrival_day - self.event_day).days, 0)


@dataclass(frozen=True)
class Interval:
    """A confidence interval of a share: `low` and `high` are both included, within 0..1."""

    low: float
    high: float


@dataclass(frozen=True)
class Aged:
    """The share (0..1) of an event day's rows that has arrived by an age; it rests on `event_days` with `rows` rows."""

    age_days: int
    share: float
    event_days: int
    rows: int


@dataclass(frozen=True)
class Advice:
    """What a look-back of `days` days would have missed: rows, their share (0..1) of all rows, and its interval."""

    days: int
    missed: int
    share: float
    interval: Interval

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as JSON values."""
        return {"days": self.days, "missed": self.missed, "missed_share": self.share, **vars(self.interval)}


@dataclass(frozen=True)
class Watermark:
    """Up to which day a table may be believed. `newest_day` is its newest day that was built and is not pending.

    `day` is None where none is known. Lags run from the end of `day` to the frontier, and to the clock.
    """

    table: str
    newest_day: date | None
    day: date | None
    lag: timedelta | None
    clock_lag: timedelta | None

    def to_dict(self) -> dict[str, Any]:
        """Return the watermark as JSON values, lags in days."""
        days = {"newest_day": self.newest_day, "day": self.day}
        lags = {"lag_days": self.lag, "clock_lag_days": self.clock_lag}
        return {
            "table": self.table,
            **{name: day and day.isoformat() for name, day in days.items()},
            **{name: None if lag is None else lag / ONE_DAY for name, lag in lags.items()},
        }


def rows_by_age(cells: Iterable[Cell]) -> dict[int, int]:
    """How many rows have each age (days), ascending."""
    counted: Counter[int] = Counter()
    for cell in cells:
        counted[cell.age_days] += cell.rows
    return dict(sorted(counted.items()))


def wilson(hits: int, rows: int, confidence: float = CONFIDENCE) -> Interval:
    """The score interval of the share `hits / rows`; 0..1 where there are no rows.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, Journal of the American
    Statistical Association 22 (1927) 209-212. It stays within 0..1 and is sound for shares near 0, where the usual
    share +- z * standard error is not (Brown, Cai, DasGupta, Statistical Science 16 (2001) 101-133).
    """
    if not rows:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, spread = hits / rows, z * z / rows
    centre = (share + spread / 2) / (1 + spread)
    reach = ((share * (1 - share) + spread / 4) * spread) ** 0.5 / (1 + spread)
    # The formula gives exactly 0 for no hits and 1 for nothing but hits; rounding must not say otherwise.
    return Interval(min(max(centre - reach, 0.0), share), max(min(centre + reach, 1.0), share))


def advise(ages: Mapping[int, int], longest_days: int = LONGEST_LOOK_BACK_DAYS) -> tuple[Advice, ...]:
    """What look-backs of 1 .. `longest_days` days would have missed of the rows counted in `ages` (age in days: rows).

    A job in the night after arrival day A that reprocesses the event days A - N + 1 .. A misses a row iff its age is
    N or more, because no later night looks at that day again. Early rows are seen in the night after their event day.
    """
    rows = sum(ages.values())
    missed, found = rows - ages.get(0, 0), []
    for days in range(1, longest_days + 1):
        found.append(Advice(days, missed, missed / rows if rows else 0.0, wilson(missed, rows)))
        missed -= ages.get(days, 0)
    return tuple(found)


def look_back_for(share: float, advice: Sequence[Advice]) -> int | None:
    """The smallest look-back (days) that sees at least `share` (0..1) of the rows; None where none of these does."""
    return next((a.days for a in advice if 1 - a.share >= share), None)


def completeness(cells: Iterable[Cell], watched: DayRange) -> tuple[Aged, ...]:
    """The share of an event day's rows that has arrived by age 0, 1, 2 .. days; of the last age it is 1 by definition.

    `watched` are the arrival days that were seen. Only event days inside it count, and for the step from one age to
    the next only those that are old enough to have been watched through the next: of them the rows up to the one age
    are divided by the rows up to the next, and the share at an age is the product of all steps above it. So a young
    day counts for small ages and cannot seem complete, and shares never fall with age. (The estimate of distributions
    truncated on the right: Lagakos, Barraj, De Gruttola, Biometrika 75 (1988) 515-523; actuaries call it chain ladder.)
    The ages end at half of `watched`, so that every step rests on at least half of its days; rows that come later than
    that are not judged and do not count.
    """
    through = len(watched) // 2
    counted = {day: [0] * (through + 1) for day in watched}
    for cell in cells:
        if cell.event_day in counted and cell.arrival_day in watched and cell.age_days <= through:
            counted[cell.event_day][cell.age_days] += cell.rows
    arrived = [list(accumulate(counted[day])) for day in watched]  # the oldest day first
    share, found = 1.0, []
    for age in range(through, -1, -1):
        old = arrived[: len(watched) - min(age + 1, through)]
        rows = sum(by_age[age] for by_age in old)
        if age < through:
            by_next = sum(by_age[age + 1] for by_age in old)
            share *= rows / by_next if by_next else 1.0
        found.append(Aged(age, share, len(old), rows))
    return tuple(reversed(found)) if any(a.rows for a in found) else ()


def ages_shown(shares: Iterable[Aged]) -> tuple[Aged, ...]:
    """The ages that people are shown; those that could not be watched are left out."""
    return tuple(a for a in shares if a.age_days in AGES_DAYS)


def age_for(share: float, shares: Iterable[Aged]) -> int | None:
    """The smallest age (days) by which at least `share` (0..1) of the rows has arrived; None where none is known."""
    return next((a.age_days for a in shares if a.share >= share), None)


def watermark_day(frontier: datetime, age_days: int) -> date:
    """The greatest day whose rows up to that age all arrive before the frontier: midnight(day + 1 + age) <= frontier.

    With a frontier at midnight this is the last loaded day minus the age.
    """
    return newest_over(frontier) - ONE_DAY * age_days


def watermarks(
    contracts: Iterable[Contract],
    newest: Mapping[str, date],
    measured: Mapping[str, date | None],
    frontier: Callable[[str], datetime | None],
    now: datetime,
) -> tuple[Watermark, ...]:
    """The watermark per table, upstream first; `measured` is that of the deliveries (`watermark_day`), by landed table.

    Raw has the measured one. Another table has the smallest of: its own newest day, and for each input its watermark
    minus the days that the table looks ahead. What is read as known at a cut does not change with late rows, so there
    only the table's own newest day counts. `frontier` (of a table) and `now` are aware instants.
    """
    days: dict[str, date | None] = {}
    for contract in contracts:
        bounds = [newest.get(contract.name)]
        for wanted in contract.inputs:
            if wanted.basis is Basis.FILES:
                bounds.append(measured.get(contract.name))
            elif wanted.basis is not Basis.KNOWN_AT_CUT:
                above = days.get(wanted.table)
                bounds.append(above - ONE_DAY * wanted.after if above else None)
        known = [b for b in bounds if b is not None]
        days[contract.name] = min(known) if len(known) == len(bounds) else None
    return tuple(_mark(name, newest.get(name), day, frontier(name), now) for name, day in days.items())


def _mark(table: str, newest: date | None, day: date | None, frontier: datetime | None, now: datetime) -> Watermark:
    if day is None or frontier is None:
        return Watermark(table, newest, day, None, None)
    end = end_of(day)
    return Watermark(table, newest, day, frontier - end, now - end)
