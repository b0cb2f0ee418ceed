"""Columns of a reconciliation: the type that both sides share, and when two values differ, as expressions of DuckDB.

Not here: matching rows (`reconcile`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.operations.reconcile_sides import NOTHING, Side

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NUMBER, TEXT, DATE, TIME, OTHER = "number", "text", "date", "time", "other"
FAMILIES = (
    (NUMBER, r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL.*|DOUBLE|FLOAT|REAL"),
    (TEXT, "VARCHAR"),
    (DATE, "DATE"),
    (TIME, "TIMESTAMP.*"),
)
TOLERANCE = re.compile(r"(\d+(?:\.\d+)?)(%|s|)")
SAME_DIGITS = 2  # of two numbers that are equal so far behind the point, one was rounded
ZONES_US, FARTHEST_US = 15 * 60 * 1_000_000, 14 * 3600 * 1_000_000  # zones are quarter hours apart, 14 hours at most
DIGITS, PIECES = 15, 4  # of SHA-256 as hexadecimal text: pieces that 64 bits hold


@dataclass(frozen=True)
class ComparedColumn:
    """A column of both sides by its number, its types there, the `type` in which values are compared, and tolerance.

    `unit` of the tolerance: "" (a number), "%" (of the greater absolute value) or "s" (seconds).
    """

    number: int
    name: str
    left_type: str
    right_type: str
    type: str
    tolerance: str = ""
    unit: str = ""

    @property
    def left(self) -> str:
        """Return the name of the left value in a pair of rows."""
        return f"left_{self.number}"

    @property
    def right(self) -> str:
        """Return the name of the right value in a pair of rows."""
        return f"right_{self.number}"

    @property
    def same_kind(self) -> bool:
        """Return whether both sides hold numbers, texts, dates, times, or the same other type."""
        one, two = family(self.left_type), family(self.right_type)
        return one == two and (one != OTHER or self.left_type == self.right_type)

    @property
    def beyond(self) -> str:
        """Return the condition on l and r under which the values differ beyond tolerance."""
        return self._beyond(f"l.{quoted(self.name)}", f"r.{quoted(self.name)}")

    @property
    def unlike(self) -> str:
        """Return the condition on l and r under which the values are not identical; 0.0 and -0.0 are not."""
        return self._unlike(f"l.{quoted(self.name)}", f"r.{quoted(self.name)}")

    def figures(self) -> list[str]:
        """Return aggregates over pairs of rows: values beyond tolerance, within it, then those of each look."""
        beyond, unlike = self._beyond(self.left, self.right), self._unlike(self.left, self.right)
        looks = [f"({beyond}) AND {look}" for look in self.looks().values()]
        return [f"count(*) FILTER (WHERE {c})" for c in (beyond, f"{unlike} AND NOT ({beyond})", *looks)]

    def looks(self) -> Mapping[str, str]:
        """Return conditions by what a difference looks like."""
        one, two, kind = self.left, self.right, family(self.type)
        found = {"NULL on one side": f"({one} IS NULL) <> ({two} IS NULL)"}
        if kind == TEXT:
            found["case"] = f"lower({one}) = lower({two})"
            found["blanks"] = f"trim({one}) = trim({two})"
        if kind == DATE:
            found["a day apart"] = f"abs({one} - {two}) = 1"
        if kind == TIME:
            apart = f"abs(epoch_us({one}) - epoch_us({two}))"
            found["time zone"] = f"{apart} % {ZONES_US} = 0 AND {apart} <= {FARTHEST_US}"
        if kind == NUMBER:
            found["rounding"] = f"round({one}, {SAME_DIGITS}) = round({two}, {SAME_DIGITS})"
        return found

    def _unlike(self, one: str, two: str) -> str:
        signs = f" OR ({one} = 0 AND signbit({one}) <> signbit({two}))" if self.type in ("DOUBLE", "FLOAT") else ""
        return f"({one} IS DISTINCT FROM {two}{signs})"

    def _beyond(self, one: str, two: str) -> str:
        differ = f"{one} IS DISTINCT FROM {two}"
        if not self.tolerance:
            return differ
        apart = f"abs(epoch_us({one}) - epoch_us({two})) / 1e6" if self.unit == "s" else f"abs({one} - {two})"
        share = f" / 100 * greatest(abs({one}), abs({two}))" if self.unit == "%" else ""
        return f"({differ} AND coalesce({apart} > {self.tolerance}{share}, true))"


def family(kind: str) -> str:
    """Return the family of a type as DuckDB writes it: number, text, date, time or other."""
    return next((name for name, pattern in FAMILIES if re.fullmatch(pattern, kind)), OTHER)


def compared_columns(
    engine: "DuckDBPyConnection", sides: tuple[Side, Side], types: Sequence[Mapping[str, str]],
    key: Collection[str], wanted: Collection[str], ignored: Collection[str],
) -> tuple[ComparedColumn, ...]:  # fmt: skip
    """Return the key columns and the columns that both sides have (`wanted`: of these; never `ignored`), each with the
    type in which DuckDB unites both; what it cannot unite is compared as text."""
    left, right = types
    names = [
        *key,
        *(c for c in left if c in right and c not in key and c not in ignored and (not wanted or c in wanted)),
    ]
    return tuple(
        ComparedColumn(i, name, left[name], right[name], _united(engine, left[name], right[name]))
        for i, name in enumerate(names)
    )


def _united(engine: "DuckDBPyConnection", left: str, right: str) -> str:
    import duckdb

    try:
        query = f"DESCRIBE SELECT CAST(NULL AS {left}) AS c UNION ALL SELECT CAST(NULL AS {right})"
        return str(engine.execute(query).fetchall()[0][1])
    except duckdb.Error:
        return "VARCHAR"


def parse_tolerances(columns: Sequence[ComparedColumn], given: Mapping[str, str]) -> tuple[ComparedColumn, ...]:
    """Return the columns with their tolerances; raises BackfillError for one that does not fit its column."""
    found = []
    for column in columns:
        if (text := given.get(column.name)) is None:
            found.append(column)
            continue
        parsed = TOLERANCE.fullmatch(text)
        fits = {"s": TIME, "": NUMBER, "%": NUMBER}
        if parsed is None or fits[parsed[2]] != family(column.type):
            raise BackfillError(
                f"the tolerance {column.name}={text}", f"it does not fit a column of type {column.type}", NOTHING,
                "Write a number (0.01) or a share (1%) for numbers, seconds (5s) for times",
            )  # fmt: skip
        found.append(replace(column, tolerance=parsed[1], unit=parsed[2]))
    return tuple(found)


def row_digest(columns: Sequence[ComparedColumn], rows: str) -> str:
    """Return the query of a digest of all rows that their order does not change.

    Each row's text is its cells in the order of their names, as `-` (NULL) or length, `:` and text. Of its SHA-256 four
    pieces of 60 bits are summed over the rows; the digest is the SHA-256 of the number of rows and these sums.
    """
    cells = ", ".join(_text(c) for c in sorted(columns, key=lambda c: c.name))
    pieces = (f"sum(CAST(concat('0x', substr(h, {1 + i * DIGITS}, {DIGITS})) AS BIGINT))" for i in range(PIECES))
    return (
        f"SELECT sha256(concat_ws('.', count(*), {', '.join(pieces)})) "
        f"FROM (SELECT sha256(concat_ws('|', {cells})) AS h FROM {rows})"
    )


def _text(column: ComparedColumn) -> str:
    """Return a cell's text; 0.0 and -0.0 have one."""
    value = quoted(column.name)
    plain = f"{value} + 0" if column.type in ("DOUBLE", "FLOAT") else value
    text = f"CAST({plain} AS VARCHAR)"
    return f"CASE WHEN {value} IS NULL THEN '-' ELSE concat(strlen({text}), ':', {text}) END"
