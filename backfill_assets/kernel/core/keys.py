"""Which days of an input a step loaded for one day of its own, where they are not just the window
of that day.

A window is counted in calendar days. Dagster's partition mappings give keys, which part with it at
days that a definition leaves out, at the newest partition, and for mappings that name no window at
all. Here: such keys as plain values and as text in a receipt. Not here: asking a mapping
(`assets.loaded`), and what follows for a state (`kernel.core.digests`, `kernel.core.states`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from backfill_assets.kernel.core.days import ONE_DAY, contiguous_ranges, days_text, parse_days

# First and last day, both included, as numbers of days; None: no last one.
Spans = tuple[tuple[int, int | None], ...]


@dataclass(frozen=True)
class Keys:
    """Days of an input, as spans of offsets in days from `origin`, or from the day that was made
    (None).

    `loaded`: the step got them. `awaited`: the step would have got them, had they been partitions;
    once one of them has rows, the day was made without rows that are its own.
    """

    loaded: Spans
    awaited: Spans = ()
    origin: date | None = None

    def loaded_for(self, day: date) -> list[date]:
        """The loaded days for a day, ascending."""
        if self.origin is None:
            return self._loaded_days_from(day)
        return [*self._loaded_from_origin]

    def awaited_for(self, day: date, known: Collection[date]) -> list[date]:
        """The awaited days for a day among the `known` days of the input, ascending."""
        if not self.awaited:
            return []
        return sorted(other for other in known if self.awaits(day, other))

    def awaits(self, day: date, other: date) -> bool:
        """Whether a day of the input was not loaded for a day, and is awaited for it."""
        number = (other - (self.origin or day)).days
        return _spans_contain(self.awaited, number) and not _spans_contain(self.loaded, number)

    @cached_property
    def _loaded_from_origin(self) -> list[date]:
        """The loaded days where they are the same for all days."""
        return self._loaded_days_from(self.origin or date.min)

    def _loaded_days_from(self, start: date) -> list[date]:
        found = []
        for first, last in self.loaded:
            found += [start + ONE_DAY * n for n in range(first, (last or 0) + 1)]
        return found

    def to_values(self, days: str) -> list[Any]:
        """The keys of these days as JSON values; `days` as `parse_days` reads them."""
        loaded = [list(span) for span in self.loaded]
        awaited = [list(span) for span in self.awaited]
        return [loaded, awaited, str(self.origin or ""), days]


@dataclass(frozen=True)
class KeyReaders:
    """Days of a table that are made from keys of one input, by the day that is loaded, and those
    that await some."""

    by_loaded: Mapping[date, set[date]]
    awaiting: tuple[tuple[date, Keys], ...]

    @classmethod
    def of(cls, keys: Iterable[tuple[date, Keys]]) -> "KeyReaders":
        """Those of an input, by the days that were made from keys of it, each with its keys."""
        by_loaded, awaiting = dict[date, set[date]](), list[tuple[date, Keys]]()
        for day, own in keys:
            for loaded in own.loaded_for(day):
                by_loaded.setdefault(loaded, set()).add(day)
            if own.awaited:
                awaiting.append((day, own))
        return cls(by_loaded, tuple(awaiting))

    def of_day(self, loaded: date) -> set[date]:
        """The days that load a day of the input, or await it."""
        found = set(self.by_loaded.get(loaded, ()))
        for day, own in self.awaiting:
            if own.awaits(day, loaded):
                found.add(day)
        return found


# Keys, each with the days that were made from them, as `parse_days` reads them.
DayKeys = tuple[tuple[Keys, str], ...]


def parse_keys(values: Sequence[Sequence[Any]]) -> DayKeys:
    """The keys in the text of a receipt. Raises ValueError or TypeError for another form."""
    found = []
    for loaded, awaited, origin, days in values:
        origin_day = date.fromisoformat(origin) if origin else None
        found.append((Keys(_parse_spans(loaded), _parse_spans(awaited), origin_day), str(days)))
    return tuple(found)


def _parse_spans(values: Sequence[Sequence[Any]]) -> Spans:
    return tuple((int(first), None if last is None else int(last)) for first, last in values)


def _spans_contain(spans: Spans, number: int) -> bool:
    return any(first <= number and (last is None or number <= last) for first, last in spans)


def offset_spans(days: Iterable[date], start: date) -> Spans:
    """These days as offsets from `start`."""
    return tuple(((r.start - start).days, (r.last - start).days) for r in contiguous_ranges(days))


def days_by_keys(keys: Mapping[date, Keys]) -> DayKeys:
    """The keys by day, with each different one once."""
    found: dict[Keys, list[date]] = {}
    for day, own in sorted(keys.items(), key=lambda item: item[0]):
        found.setdefault(own, []).append(day)
    return tuple((own, days_text(days)) for own, days in found.items())


def days_with_keys(keys: DayKeys) -> Iterator[tuple[date, Keys]]:
    """Yield each day with its keys."""
    for own, days in keys:
        for day in parse_days(days):
            yield day, own
