"""Calendars: which partitions a table has, and which days each of them covers.

A partition is named by its key, the first day that it covers. Of days some may be left out: these
are no partitions. Not here: single days and ranges of them (`kernel.core.days`), and which days a
table is made from (`kernel.core.contracts.Input`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

from backfill_assets.kernel.core.days import ONE_DAY, DayRange

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAYS_OF_A_WEEK, MONTHS_OF_A_YEAR = 7, 12
MOST_LEFT_OUT = 10_000  # dates: those of an exchange in a thousand years
_TEXT = re.compile(r"(?P<unit>[a-z]+)(?: from (?P<first>[a-z]+))?(?: without (?P<without>.+))?")


class Unit(StrEnum):
    """What a partition covers."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    @property
    def months(self) -> int:
        """The months that one covers; 0 of units that are no months."""
        return {Unit.MONTH: 1, Unit.QUARTER: 3, Unit.YEAR: MONTHS_OF_A_YEAR}.get(self, 0)


@dataclass(frozen=True, repr=False)
class Calendar:
    """The partitions of a table: every day, week, month, quarter or year (UTC). Raises ValueError
    for days left out of what is no day, and where all weekdays are."""

    unit: Unit = Unit.DAY
    first_weekday: int = 0  # that weeks begin on; 0 is Monday
    left_out_weekdays: frozenset[int] = frozenset()
    left_out_dates: frozenset[date] = frozenset()

    def __post_init__(self) -> None:
        leaves_out = bool(self.left_out_weekdays or self.left_out_dates)
        if leaves_out and self.unit is not Unit.DAY:
            raise ValueError(
                f"only days can be left out, and every partition is a {self.unit}: say no "
                f"`without`; a {self.unit} without rows exists and is empty"
            )
        if len(self.left_out_weekdays) == DAYS_OF_A_WEEK:
            raise ValueError("every day of a week is left out")
        if len(self.left_out_dates) > MOST_LEFT_OUT:
            raise ValueError(f"more than {MOST_LEFT_OUT} dates are left out")

    @cached_property
    def is_daily(self) -> bool:
        """Whether every day is a partition."""
        return self == DAILY  # asked of each day of each input

    @property
    def is_of_days(self) -> bool:
        """Whether a partition covers one day."""
        return self.unit is Unit.DAY

    def is_key(self, day: date) -> bool:
        """Whether a partition is named by the day."""
        if self.is_daily:
            return True
        if self.is_of_days:
            return day.weekday() not in self.left_out_weekdays and day not in self.left_out_dates
        return self.key_at(day) == day

    def key_at(self, day: date) -> date:
        """The first day of the period around `day`: of days the day itself, also one left out."""
        if self.unit is Unit.DAY:
            return day
        return self._first_of(self._number_of(day))

    def span(self, key: date) -> DayRange:
        """The days that the partition of `key` covers."""
        if self.unit is Unit.DAY:
            return DayRange(key, key + ONE_DAY)
        number = self._number_of(key)
        return DayRange(self._first_of(number), self._first_of(number + 1))

    def last_of(self, key: date) -> date:
        """The last day that the partition of `key` covers."""
        return key if self.unit is Unit.DAY else self.span(key).last

    def first_from(self, day: date) -> date:
        """The key of the first partition that begins on `day` or after it."""
        key = self._at_or_after(day)
        return key if key >= day else self._shifted(key, 1)

    def keys_in(self, days: Iterable[date]) -> list[date]:
        """The keys of the partitions that cover one of these days, ascending."""
        if self.is_daily:
            return sorted({*days})
        if self.is_of_days:
            return sorted(day for day in set(days) if self.is_key(day))
        return sorted({self.key_at(day) for day in days})

    def keys_around(self, days: DayRange, before: int, after: int) -> list[date]:
        """The keys of the partitions that cover one of these days, from so many partitions before
        them through so many after them (negative: fewer), ascending."""
        first = self._shifted(self._at_or_after(days.start), -before)
        last = self._shifted(self._at_or_before(days.last), after)
        found = list[date]()
        while first <= last:
            found.append(first)
            first = self._shifted(first, 1)
        return found

    def keys_reaching(self, other: "Calendar", key: date, before: int, after: int) -> list[date]:
        """The keys of the partitions here that have the partition `key` of another calendar among
        its `keys_around`, ascending."""
        if not other.is_key(key):
            return []
        first, last = other._shifted(key, -after), other.last_of(other._shifted(key, before))
        if first <= last:
            return self.keys_in(DayRange(first, last + ONE_DAY))
        # A window of fewer partitions than cover its days: it has to begin early and end late.
        return [own for own in self.keys_in([last]) if self.last_of(own) >= first]

    def _at_or_after(self, day: date) -> date:
        """The key of the first partition that covers `day` or a later one."""
        while self.is_of_days and not self.is_key(day):
            day += ONE_DAY
        return self.key_at(day)

    def _at_or_before(self, day: date) -> date:
        """The key of the last partition that covers `day` or an earlier one."""
        while self.is_of_days and not self.is_key(day):
            day -= ONE_DAY
        return self.key_at(day)

    def _shifted(self, key: date, count: int) -> date:
        """The key of the partition `count` after that of `key`; negative: before it."""
        if self.is_of_days:
            step = ONE_DAY if count > 0 else -ONE_DAY
            while count:
                key += step
                count -= self.is_key(key) * (step // ONE_DAY)
            return key
        return self._first_of(self._number_of(key) + count)

    def _number_of(self, day: date) -> int:
        """The number of the week, month, quarter or year of a day, counted through all years."""
        if self.unit is Unit.WEEK:
            return (day.toordinal() - 1 - self.first_weekday) // DAYS_OF_A_WEEK
        return (day.year * MONTHS_OF_A_YEAR + day.month - 1) // self.unit.months

    def _first_of(self, number: int) -> date:
        """The first day of the week, month, quarter or year of that number."""
        if self.unit is Unit.WEEK:
            return date.fromordinal(number * DAYS_OF_A_WEEK + 1 + self.first_weekday)
        year, month = divmod(number * self.unit.months, MONTHS_OF_A_YEAR)
        return date(year, month + 1, 1)

    def count_text(self, number: int) -> str:
        """So many of its partitions in words, e.g. `2 month(s)`."""
        return f"{number} {self.unit}(s)"

    def __repr__(self) -> str:
        return f"Calendar({self})"

    def __str__(self) -> str:
        """The text that `parse_calendar` reads."""
        text = str(self.unit)
        if self.first_weekday:
            text += f" from {WEEKDAYS[self.first_weekday]}"
        left_out = [WEEKDAYS[number] for number in sorted(self.left_out_weekdays)]
        left_out += map(str, sorted(self.left_out_dates))
        return f"{text} without {', '.join(left_out)}" if left_out else text


DAILY = Calendar()


@dataclass(frozen=True)
class Recurrence:
    """Days by numbers, as cron schedules name them: days of these numbers (1 to 31) in these months
    (1 to 12) that are these weekdays (0 is Monday)."""

    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def has(self, day: date) -> bool:
        """Whether it names a day."""
        is_in_month = day.day in self.days and day.month in self.months
        return is_in_month and day.weekday() in self.weekdays


@dataclass(frozen=True)
class LeftOut:
    """Keys of a calendar whose partitions nothing makes. Windows count them as any other, unlike
    days that the calendar itself is without."""

    dates: frozenset[date] = frozenset()
    recurrences: tuple[Recurrence, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.dates or self.recurrences)

    def has(self, key: date) -> bool:
        """Whether the partition of a key is left out."""
        return key in self.dates or any(each.has(key) for each in self.recurrences)

    def to_list(self) -> list[Any]:
        """As JSON values: a text for each date, three lists of numbers for what recurs."""
        texts: list[Any] = sorted(map(str, self.dates))
        return texts + [
            [sorted(each.days), sorted(each.months), sorted(each.weekdays)]
            for each in self.recurrences
        ]

    @classmethod
    def parse(cls, values: Iterable[Any]) -> "LeftOut":
        """What `to_list` gave. Raises TypeError or ValueError for another content."""
        dates, recurrences = set[date](), list[Recurrence]()
        for value in values:
            if isinstance(value, str):
                dates.add(date.fromisoformat(value))
            else:
                recurrences.append(Recurrence(*map(frozenset, value)))
        return cls(frozenset(dates), tuple(recurrences))


NOTHING_LEFT_OUT = LeftOut()


def counts_text(counts: Mapping[str, int]) -> str:
    """So many partitions by what each is in words, e.g. `31 day(s), 1 month(s)`."""
    told = (f"{number} {unit}(s)" for unit, number in counts.items() if number)
    return ", ".join(told) or f"0 {Unit.DAY}(s)"


@lru_cache(maxsize=256)
def parse_calendar(text: str, without: Sequence[str] = ()) -> Calendar:
    """The calendar that a text names: `day`, `week` (from Monday), `week from sunday`, `month`,
    `quarter`, `year`; and `without` these weekdays and dates. Raises ValueError for another."""
    found = _TEXT.fullmatch(text)
    if found is None or found["unit"] not in [*Unit]:
        raise ValueError(f"{text[:40]!r} is none of {', '.join(Unit)}, and `week from` a weekday")
    if found["first"] and found["unit"] != Unit.WEEK:
        raise ValueError(f"a {found['unit']} begins on no weekday: write e.g. week from sunday")
    first = _weekday_number(found["first"] or WEEKDAYS[0])
    left_out = [*without, *(found["without"] or "").split(", ")]
    weekdays, dates = set[int](), set[date]()
    for name in filter(None, left_out):
        if name[0].isdigit():
            dates.add(date.fromisoformat(name))
        else:
            weekdays.add(_weekday_number(name))
    return Calendar(Unit(found["unit"]), first, frozenset(weekdays), frozenset(dates))


def _weekday_number(name: str) -> int:
    """The number of a weekday, 0 of Monday. Raises ValueError for another name."""
    if name not in WEEKDAYS:
        raise ValueError(f"{name[:40]!r} is none of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(name)
