"""Rows of two versions of a table, matched by key: added, removed and changed, per day and column, without a JVM.

Not here: matching the rows (`matching`), the choice of versions and the report (`operations.compare`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import DayRange
from backfill_assets.core.profiles import Histogram
from backfill_assets.lake.embedded import connection, selection
from backfill_assets.lake.fingerprints import bucket, quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.matched_columns import compared_columns
from backfill_assets.lake.matching import (
    DIFFERS,
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    MISSING_LEFT,
    MISSING_RIGHT,
    WITHIN,
    DayCount,
    MatchedRow,
    Matching,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NULL_BUCKET = -1000  # no number has so many bits
TEXT_BUCKETS = 32  # a shift among few values shows; many values spread evenly whatever they are
WORDS = {"added": (MISSING_LEFT, DOUBLED_RIGHT), "removed": (MISSING_RIGHT, DOUBLED_LEFT), "changed": (DIFFERS,)}


@dataclass(frozen=True)
class DayDifference:
    """One day: rows before and after, those added, removed and changed, and changed values by column."""

    day: date
    rows_before: int
    rows_after: int
    added: int
    removed: int
    changed: int
    columns: Mapping[str, int]


@dataclass(frozen=True)
class SampleRow:
    """A row that differs: its key, and the columns that do, as texts (None: there is no such row, or NULL)."""

    day: date
    kind: str
    key: str
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]


@dataclass(frozen=True)
class Differences:
    """What `differences` found; `histograms` are per column those before and after, over all days."""

    days: tuple[DayDifference, ...]
    samples: tuple[SampleRow, ...]
    histograms: Mapping[str, tuple[Histogram, Histogram]]


def differences(
    lake: Lake, contract: Contract, before: Sequence[str], after: Sequence[str], days: DayRange
) -> Differences:
    """Compare the rows of these days in two sets of files; days without any row are left out. Raises duckdb.Error for
    files that are gone."""
    keys = tuple(dict.fromkeys((contract.day_column, *contract.key)))
    others = [c for c in contract.column_names if c not in keys]
    selects = selection(before, contract), selection(after, contract)
    with connection(lake) as engine:
        types = {name: kind for name, kind, *_ in engine.execute(f"DESCRIBE {selects[0]}").fetchall()}
        columns = compared_columns(engine, (types, types), keys)
        matching = Matching(engine, selects, keys, contract.day_column, columns, days)
        matching.match()
        changed = matching.changed_by_day()
        found = tuple(_day(d, changed.get(d.day, {})) for d in matching.days() if d.day)
        samples = tuple(_sample(contract, row) for row in matching.examples() if row.kind != WITHIN)
        return Differences(found, samples, _histograms(engine, contract, others))


def _day(found: DayCount, columns: Mapping[str, int]) -> DayDifference:
    added, removed, changed = (sum(found.kinds.get(kind, 0) for kind in kinds) for kinds in WORDS.values())
    return DayDifference(found.day or date.min, found.left, found.right, added, removed, changed, columns)


def _sample(contract: Contract, row: MatchedRow) -> SampleRow:
    day = date.fromisoformat(str(row.key[contract.day_column]))
    kind = next(word for word, kinds in WORDS.items() if row.kind in kinds)
    return SampleRow(day, kind, json.dumps(row.key, ensure_ascii=False, separators=(",", ":")), row.left, row.right)


def _histograms(
    engine: "DuckDBPyConnection", contract: Contract, others: Sequence[str]
) -> dict[str, tuple[Histogram, Histogram]]:
    if not others:
        return {}
    measured = set(contract.measured_columns)
    told = [bucket(contract.column(c)) if c in measured else f"hash({quoted(c)}) % {TEXT_BUCKETS}" for c in others]
    figures = [
        f"histogram(CASE WHEN {quoted(c)} IS NULL THEN {NULL_BUCKET} ELSE CAST({b} AS BIGINT) END)"
        for c, b in zip(others, told, strict=True)
    ]
    sides = [engine.execute(f"SELECT {', '.join(figures)} FROM {side}").fetchone() or () for side in ("one", "two")]
    return {c: (one or {}, two or {}) for c, one, two in zip(others, *sides, strict=True)}
