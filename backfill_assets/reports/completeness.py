"""Completeness by age, look-backs with intervals, and watermarks, from counts of rows per arrival
day and event day.

The age of a row is its arrival day minus its event day, in whole UTC days (0 if it arrived before
its event day); a row is late iff its age is 1 or more. Not here: counting the rows and the report
(`reports.lateness`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import accumulate
from statistics import NormalDist

from backfill_assets.kernel.core.contracts import Contract, InputKind
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, end_of_day, newest_day_over

# The ages shown: the steps people plan in (days, weeks, month, quarter).
AGES_DAYS = (0, 1, 2, 3, 7, 14, 30, 90)
LONGEST_LOOK_BACK_DAYS = 90  # a quarter: to reprocess more every night is to rebuild the table
CONFIDENCE = 0.95  # of the advisor's intervals


@dataclass(frozen=True)
class Cell:
    """The number of upserts that arrived on `arrival_day` for `event_day`."""

    arrival_day: date
    event_day: date
    rows: int

    @property
    def age_days(self) -> int:
        """Return arrival day minus event day, 0 where the rows came before their day."""
        return max((self.arrival_day - self.event_day).days, 0)


@dataclass(frozen=True)
class Aged:
    """The share of an event day's rows that has arrived by an age."""

    age_days: int
    share: float  # 0..1
    event_days: int  # days that were watched that long
    rows: int  # of these days


@dataclass(frozen=True)
class Advice:
    """What a look-back of so many days would have missed."""

    days: int
    missed: int  # rows
    missed_share: float  # of all rows (0..1)
    low: float  # of the interval of that share
    high: float


@dataclass(frozen=True)
class Watermark:
    """The day up to which a table is complete."""

    table: str
    newest_day: date | None  # that is built and not pending
    day: date | None  # None: unknown
    lag_days: float | None  # from the end of `day` to the frontier
    clock_lag_days: float | None  # to the clock


def rows_by_age(cells: Iterable[Cell]) -> dict[int, int]:
    """Count the rows of each age (days), ascending."""
    counted: Counter[int] = Counter()
    for cell in cells:
        counted[cell.age_days] += cell.rows
    return dict(sorted(counted.items()))


def wilson_interval(hits: int, rows: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the score interval of the share `hits / rows`, ends included; 0..1 where there are no
    rows.

    E. B. Wilson, Journal of the American Statistical Association 22 (1927) 209-212: sound also for
    shares near 0.
    """
    if not rows:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, spread = hits / rows, z * z / rows
    centre = (share + spread / 2) / (1 + spread)
    reach = ((share * (1 - share) + spread / 4) * spread) ** 0.5 / (1 + spread)
    # The formula gives exactly 0 for no hits and 1 for nothing but hits; rounding must not say
    # otherwise.
    return min(max(centre - reach, 0.0), share), max(min(centre + reach, 1.0), share)


def look_back_advice(
    ages: Mapping[int, int], longest_days: int = LONGEST_LOOK_BACK_DAYS
) -> tuple[Advice, ...]:
    """Return what look-backs of 1 .. `longest_days` days would have missed of the rows counted in
    `ages` (days: rows).

    A job in the night after arrival day A that reprocesses the event days A - N + 1 .. A misses a
    row iff its age is N or more, because no later night reads that day again.
    """
    rows = sum(ages.values())
    found = []
    missed = rows - ages.get(0, 0)  # a look-back of one day sees the rows of age 0 only
    for days in range(1, longest_days + 1):
        share = missed / rows if rows else 0.0
        low, high = wilson_interval(missed, rows)
        found.append(Advice(days, missed, share, low, high))
        missed -= ages.get(days, 0)
    return tuple(found)


def look_back_for(share: float, advice: Sequence[Advice]) -> int | None:
    """Return the smallest look-back (days) that sees at least `share` (0..1) of the rows; None
    without one."""
    return next((a.days for a in advice if 1 - a.missed_share >= share), None)


def completeness_by_age(cells: Iterable[Cell], watched: DayRange) -> tuple[Aged, ...]:
    """Return the share of an event day's rows that has arrived by age 0, 1, 2 .. days; 1 at the
    last age by definition.

    `watched` are the arrival days that were seen; only event days inside it count. For the step
    from one age to the next, days that were watched through the next give rows up to the one age
    divided by rows up to the next, and the share at an age is the product of all steps above it
    (Lagakos, Barraj, De Gruttola, Biometrika 75 (1988) 515-523; chain ladder): a young day cannot
    seem complete, and shares never fall with age. The ages end at half of `watched`, so that every
    step rests on at least half of its days; later rows do not count.
    """
    last_age = len(watched) // 2
    arrived = _rows_arrived(cells, watched, last_age)
    share = 1.0
    found = []
    for age in range(last_age, -1, -1):
        # The event days, the oldest first, that were watched through the next age.
        old = arrived[: len(watched) - min(age + 1, last_age)]
        rows = sum(by_age[age] for by_age in old)
        if age < last_age:
            rows_by_next_age = sum(by_age[age + 1] for by_age in old)
            share *= rows / rows_by_next_age if rows_by_next_age else 1.0
        found.append(Aged(age, share, len(old), rows))
    has_rows = any(aged.rows for aged in found)
    return tuple(reversed(found)) if has_rows else ()


def _rows_arrived(cells: Iterable[Cell], watched: DayRange, last_age: int) -> list[list[int]]:
    """Return, of each day of `watched` (the oldest first), the rows that arrived up to each age 0
    .. `last_age` in days."""
    counted = {day: [0] * (last_age + 1) for day in watched}
    for cell in cells:
        is_watched = cell.event_day in counted and cell.arrival_day in watched
        if is_watched and cell.age_days <= last_age:
            counted[cell.event_day][cell.age_days] += cell.rows
    return [list(accumulate(counted[day])) for day in watched]


def age_for(share: float, shares: Iterable[Aged]) -> int | None:
    """Return the smallest age (days) by which at least `share` (0..1) of the rows has arrived; None
    if unknown."""
    return next((a.age_days for a in shares if a.share >= share), None)


def watermark_day(frontier: datetime, age_days: int) -> date:
    """Return the greatest day with midnight(day + 1 + age) <= frontier: its rows up to that age are
    loaded."""
    return newest_day_over(frontier) - ONE_DAY * age_days


def table_watermarks(
    contracts: Iterable[Contract],
    newest: Mapping[str, date],
    measured: Mapping[str, date | None],
    frontier: Callable[[str], datetime | None],
    now: datetime,
) -> tuple[Watermark, ...]:
    """Return the watermark per table, upstream first; `measured` is the `watermark_day` of each
    landed table.

    Other tables have the smallest of their own newest day and, for each input, its watermark minus
    the days that the table looks ahead. An input read as known at a cut does not change with late
    rows and sets no bound. `frontier` (of a table) and `now` are aware instants.
    """
    marks: dict[str, Watermark] = {}
    for contract in contracts:
        table = contract.name
        bounds = [newest.get(table), *_bounds_of_inputs(contract, measured.get(table), marks)]
        known = [bound for bound in bounds if bound is not None]
        is_unknown = len(known) < len(bounds)
        day = None if is_unknown else min(known)
        loaded_until = frontier(table)
        lag, clock_lag = None, None
        if day is not None and loaded_until is not None:
            lag = (loaded_until - end_of_day(day)) / ONE_DAY
            clock_lag = (now - end_of_day(day)) / ONE_DAY
        marks[table] = Watermark(table, newest.get(table), day, lag, clock_lag)
    return tuple(marks.values())


def _bounds_of_inputs(
    contract: Contract, measured: date | None, marks: Mapping[str, Watermark]
) -> Iterator[date | None]:
    """Yield the greatest watermark that each input allows a table (None: unknown).

    `measured` is the table's own `watermark_day`, if files are its input; `marks` are the
    watermarks of the tables upstream.
    """
    for wanted in contract.inputs:
        if wanted.table == contract.name:  # its own days set no bound of their own
            continue
        if wanted.kind is InputKind.FILES:
            yield measured
        elif wanted.kind is not InputKind.KNOWN_AT_CUT:
            mark = marks.get(wanted.table)
            day = mark.day if mark is not None else None
            yield None if day is None else day - ONE_DAY * wanted.after
