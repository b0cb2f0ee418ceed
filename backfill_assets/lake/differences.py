"""Rows of two versions of a table, matched by key: added, removed and changed, per day and column, without a JVM.

Not here: the choice of versions and the report (`operations.compare`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import DayRange
from backfill_assets.core.profiles import Histogram
from backfill_assets.core.texts import shortened
from backfill_assets.lake.embedded import connection, selection
from backfill_assets.lake.fingerprints import bucket, quoted
from backfill_assets.lake.home import Lake

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NULL_BUCKET = -1000  # no number has so many bits
TEXT_BUCKETS = 32  # a shift among few values shows; many values spread evenly whatever they are
CELL_CHARS = 80
SAMPLES = 5  # rows of each kind
ORDER = "md5(kind || key)"  # that of files, and of keys, decides nothing


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
class Sides:
    """The files of both sides, and the days of which rows count."""

    before: Sequence[str]
    after: Sequence[str]
    days: DayRange


@dataclass(frozen=True)
class Differences:
    """What `differences` found; `histograms` are per column those before and after, over all days."""

    days: tuple[DayDifference, ...]
    samples: tuple[SampleRow, ...]
    histograms: Mapping[str, tuple[Histogram, Histogram]]


def differences(lake: Lake, contract: Contract, sides: Sides) -> Differences:
    """Compare the sides; days without any row are left out. Raises duckdb.Error for files that are gone."""
    keys = list(dict.fromkeys((contract.day_column, *contract.key)))
    others = [c for c in contract.column_names if c not in keys]
    with connection(lake) as engine:
        for name, files in (("one", sides.before), ("two", sides.after)):
            engine.execute(f"CREATE TEMP VIEW {name} AS {_numbered(contract, keys, files, sides.days)}")
        engine.execute(f"CREATE TEMP TABLE pairs AS {_joined(list(map(quoted, keys)), others)}")
        return Differences(
            tuple(_days(engine, others)),
            tuple(_samples(engine, others)),
            _histograms(engine, contract, others),
        )


def _numbered(contract: Contract, keys: Sequence[str], files: Sequence[str], days: DayRange) -> str:
    """Select the rows of the days; rows that repeat a key are numbered, so that each is compared once."""
    of_key, rest = (", ".join(map(quoted, names)) for names in (keys, contract.column_names))
    within = f"{quoted(contract.day_column)} BETWEEN DATE '{days.start}' AND DATE '{days.last}'"
    return (
        f"SELECT *, true AS __here, row_number() OVER (PARTITION BY {of_key} ORDER BY {rest}) AS __number "
        f"FROM ({selection(files, contract)}) WHERE {within}"
    )


def _joined(keys: Sequence[str], others: Sequence[str]) -> str:
    same = " AND ".join(f"one.{k} IS NOT DISTINCT FROM two.{k}" for k in (*keys, "__number"))
    day = f"coalesce(one.{keys[0]}, two.{keys[0]})"
    key = ", ".join(f"{k} := coalesce(one.{k}, two.{k})" for k in keys)
    columns = [f"one.{quoted(c)} AS one_{i}, two.{quoted(c)} AS two_{i}" for i, c in enumerate(others)]
    kind = "CASE WHEN one.__here IS NULL THEN 'added' WHEN two.__here IS NULL THEN 'removed'"
    moved = " OR ".join(f"one.{quoted(c)} IS DISTINCT FROM two.{quoted(c)}" for c in others) or "false"
    return (
        f"SELECT {day} AS day, CAST(to_json(struct_pack({key})) AS VARCHAR) AS key, "
        f"{kind} WHEN {moved} THEN 'changed' ELSE 'same' END AS kind{''.join(', ' + c for c in columns)} "
        f"FROM one FULL OUTER JOIN two ON {same}"
    )


def _days(engine: "DuckDBPyConnection", others: Sequence[str]) -> list[DayDifference]:
    moved = [f"count(*) FILTER (kind = 'changed' AND one_{i} IS DISTINCT FROM two_{i})" for i in range(len(others))]
    kinds = [f"count(*) FILTER (kind = '{kind}')" for kind in ("added", "removed", "changed")]
    figures = ", ".join(["count(*)", *kinds, *moved])
    found = []
    for day, rows, added, removed, changed, *columns in engine.execute(
        f"SELECT day, {figures} FROM pairs GROUP BY day ORDER BY day"
    ).fetchall():
        named = {c: n for c, n in zip(others, columns, strict=True) if n}
        found.append(DayDifference(day, rows - added, rows - removed, added, removed, changed, named))
    return found


def _samples(engine: "DuckDBPyConnection", others: Sequence[str]) -> list[SampleRow]:
    """Draw the same rows whatever the order of the files."""
    cells = [f"CAST(one_{i} AS VARCHAR), CAST(two_{i} AS VARCHAR)" for i in range(len(others))]
    query = (
        f"SELECT day, kind, key{''.join(', ' + c for c in cells)} FROM pairs WHERE kind <> 'same' "
        f"QUALIFY row_number() OVER (PARTITION BY kind ORDER BY {ORDER}) <= {SAMPLES} ORDER BY kind, {ORDER}"
    )
    found = []
    for day, kind, key, *values in engine.execute(query).fetchall():
        texts = [value and shortened(value, CELL_CHARS) for value in values]
        pairs = {c: (texts[2 * i], texts[2 * i + 1]) for i, c in enumerate(others)}
        if kind == "changed":
            pairs = {c: p for c, p in pairs.items() if p[0] != p[1]}
        before = {c: p[0] for c, p in pairs.items()} if kind != "added" else {}
        after = {c: p[1] for c, p in pairs.items()} if kind != "removed" else {}
        found.append(SampleRow(day, kind, shortened(key, CELL_CHARS), before, after))
    return found


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
