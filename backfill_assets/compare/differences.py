"""The differences of two contents of a table, in two sets of its files: rows added, removed and
changed per day, samples, and histograms of every column.

Not here: matching the rows (`reading.matching`), the choice of versions and the report
(`compare.compare_days`).
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import Histogram
from backfill_assets.kernel.tables.embedded import duckdb_cursor, side_queries
from backfill_assets.kernel.tables.fingerprints import number_bucket, quoted_name
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.matching import (
    DIFFERS,
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    MISSING_LEFT,
    MISSING_RIGHT,
    WITHIN,
    DayCount,
    MatchedRow,
    Matching,
    compared_columns,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NULL_BUCKET = -1000  # no number has so many bits
TEXT_BUCKETS = 32  # a shift among few values shows; many values spread evenly whatever they are
KINDS_BY_WORD = {
    "added": (MISSING_LEFT, DOUBLED_RIGHT),
    "removed": (MISSING_RIGHT, DOUBLED_LEFT),
    "changed": (DIFFERS,),
}


@dataclass(frozen=True)
class DayDifference:
    """One day: rows before and after, rows added, removed and changed, and changed values by
    column."""

    day: date
    rows_before: int
    rows_after: int
    added: int
    removed: int
    changed: int
    columns: Mapping[str, int]

    @property
    def differs(self) -> bool:
        """Whether any row of the day does."""
        return any((self.added, self.removed, self.changed))

    @property
    def in_words(self) -> str:
        """How many rows differ, and in which columns."""
        columns = f", in {', '.join(self.columns)}" if self.columns else ""
        return f"{self.added} added, {self.removed} removed, {self.changed} changed{columns}"


@dataclass(frozen=True)
class SampleRow:
    """A row that differs: its key, and the columns that do, as texts (None: there is no such row,
    or NULL)."""

    day: date
    kind: str
    key: str
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]


@dataclass(frozen=True)
class Differences:
    """The result of `find_differences`. `histograms`: per column before and after, over all days
    (None: the files of that side have no such column)."""

    days: tuple[DayDifference, ...]
    samples: tuple[SampleRow, ...]
    histograms: Mapping[str, tuple[Histogram | None, Histogram | None]]


def find_differences(
    lake: Lake, contract: Contract, before: Sequence[str], after: Sequence[str], days: DayRange
) -> Differences:
    """Compare the rows of these days in two sets of files, by the columns that both have; days
    without any row are left out. Raises duckdb.Error for files that are gone, BackfillError where
    one side lacks a column of the key."""
    keys = tuple(dict.fromkeys((contract.day_column, *contract.key)))
    with duckdb_cursor(lake) as engine:
        (one, types_before), (two, types_after) = side_queries(engine, contract, before, after)
        if lacking := [k for k in keys if k not in types_before.keys() & types_after.keys()]:
            raise BackfillError(
                f"the table {contract.name}",
                f"one side has no column {', '.join(lacking)}, of the key",
                "Nothing was compared",
                "Compare versions that both have it",
            )
        columns = compared_columns(engine, (types_before, types_after), keys)
        matching = Matching(
            engine=engine,
            sides=(one, two),
            key=keys,
            day=contract.day_column,
            columns=columns,
            within=days,
        )
        matching.match()
        changed = matching.changed_by_day()
        days_found = tuple(
            _day_difference(d, changed.get(d.day, {})) for d in matching.days() if d.day
        )
        samples = tuple(
            _sample_row(contract, row) for row in matching.examples() if row.kind != WITHIN
        )
        within = (
            f"{quoted_name(contract.day_column)} BETWEEN DATE '{days.start}' AND DATE '{days.last}'"
        )
        first = _column_histograms(engine, contract, f"({one}) WHERE {within}", types_before)
        second = _column_histograms(engine, contract, f"({two}) WHERE {within}", types_after)
        return Differences(
            days_found, samples, {c: (first.get(c), second.get(c)) for c in {**first, **second}}
        )


def day_changes(
    lake: Lake, contract: Contract, before: Sequence[str], after: Sequence[str], day: date
) -> str:
    """Return in words how many rows of a day two sets of files add, remove and change, and in which
    columns. Raises as `find_differences` does."""
    found = find_differences(lake, contract, before, after, inclusive_range(day, day)).days
    return "; ".join(day.in_words for day in found)


def _day_difference(count: DayCount, columns: Mapping[str, int]) -> DayDifference:
    added, removed, changed = (
        sum(count.kinds.get(kind, 0) for kind in kinds) for kinds in KINDS_BY_WORD.values()
    )
    return DayDifference(
        day=count.day or date.min,
        rows_before=count.left,
        rows_after=count.right,
        added=added,
        removed=removed,
        changed=changed,
        columns=columns,
    )


def _sample_row(contract: Contract, row: MatchedRow) -> SampleRow:
    """Return a row that differs, with the word for how it differs and its key as JSON."""
    day = date.fromisoformat(str(row.key[contract.day_column]))
    kind = next(word for word, kinds in KINDS_BY_WORD.items() if row.kind in kinds)
    return SampleRow(
        day,
        kind,
        json.dumps(row.key, ensure_ascii=False, separators=(",", ":")),
        row.left,
        row.right,
    )


def _column_histograms(
    engine: "DuckDBPyConnection", contract: Contract, rows: str, columns: Collection[str]
) -> dict[str, Histogram]:
    """Return the histogram of each column in `rows` (a relation of `engine`) but the day and the
    key; texts by buckets of a hash, as they have no order."""
    others = [c for c in columns if c not in (contract.day_column, *contract.key)]
    if not others:
        return {}
    figures = []
    for name in others:
        value, column = f"hash({quoted_name(name)}) % {TEXT_BUCKETS}", quoted_name(name)
        if name in contract.measured_columns:
            value = number_bucket(contract.column(name))
        cell = f"CASE WHEN {column} IS NULL THEN {NULL_BUCKET} ELSE CAST({value} AS BIGINT) END"
        figures.append(f"histogram({cell})")
    found = engine.execute(f"SELECT {', '.join(figures)} FROM {rows}").fetchone() or ()
    return {c: histogram or {} for c, histogram in zip(others, found, strict=True)}
