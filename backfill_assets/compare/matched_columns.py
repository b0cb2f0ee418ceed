"""Columns of a reconciliation: the type that both sides share, and when two values differ, as
expressions of DuckDB.

Also the records of what matching finds. Not here: matching rows (`matching`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.fingerprints import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NUMBER, TEXT, DATE, TIME, OTHER = "number", "text", "date", "time", "other"
FAMILIES = (
    (NUMBER, r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL.*|DOUBLE|FLOAT|REAL"),
    (TEXT, r"VARCHAR|ENUM\(.*\)"),
    (DATE, "DATE"),
    (TIME, "TIMESTAMP.*"),
)
TOLERANCE = re.compile(r"(\d+(?:\.\d+)?)(%|s|)")
DIGITS_KEPT = range(7)  # behind the point, by what rounds: cents, thousandths, parts per million
NOISE = 1e-9  # the share by which sums of doubles differ that were added in another order
UNITS = (10, 100, 1000)  # by which one side is too large: cents for euros, grams for kilograms
ZONES_US, FARTHEST_US = (
    15 * 60 * 1_000_000,
    14 * 3600 * 1_000_000,
)  # zones are quarter hours apart, 14 hours at most
DAY_US = 24 * 3600 * 1_000_000
DIGITS, PIECES = 15, 4  # of SHA-256 as hexadecimal text: pieces that 64 bits hold
MISSING_LEFT, MISSING_RIGHT = "missing left", "missing right"
DOUBLED_LEFT, DOUBLED_RIGHT = "doubled left", "doubled right"
DIFFERS, WITHIN, EQUAL = "differs", "within tolerance", "equal"
KINDS = (MISSING_LEFT, MISSING_RIGHT, DOUBLED_LEFT, DOUBLED_RIGHT, DIFFERS, WITHIN)


@dataclass(frozen=True)
class ComparedColumn:
    """A column of both sides."""

    name: str
    left_type: str
    right_type: str
    type: str  # the type in which values are compared
    tolerance: str = ""
    # Of the tolerance: "" (a number), "%" (of the greater absolute value) or "s" (seconds).
    unit: str = ""

    @property
    def left(self) -> str:
        """Return the name of the left value in a pair of rows."""
        return quoted(f"{self.name}@left")

    @property
    def right(self) -> str:
        """Return the name of the right value in a pair of rows."""
        return quoted(f"{self.name}@right")

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
    def differs(self) -> str:
        """Return the condition on l and r under which the values are not identical; 0.0 and -0.0
        are not."""
        return self._differs(f"l.{quoted(self.name)}", f"r.{quoted(self.name)}")

    @property
    def is_floating(self) -> bool:
        """Return whether values have a sign of zero, infinities and NaN."""
        return self.type in ("DOUBLE", "FLOAT")

    def aggregates(self) -> list[str]:
        """Return aggregates over pairs of rows: values beyond tolerance, values within it, then
        values of each look."""
        beyond, differs = self._beyond(self.left, self.right), self._differs(self.left, self.right)
        looks = [f"{differs} AND ({look})" for look in self.looks().values()]
        return [
            f"count(*) FILTER (WHERE {c})"
            for c in (beyond, f"{differs} AND NOT ({beyond})", *looks)
        ]

    def looks(self) -> Mapping[str, str]:
        """Return conditions by what a difference looks like, within tolerance or beyond it."""
        one, two, kind = self.left, self.right, family(self.type)
        conditions = {"NULL on one side": f"({one} IS NULL) <> ({two} IS NULL)"}
        if kind == TEXT:
            conditions["case"] = f"lower({one}) = lower({two})"
            conditions["blanks"] = f"trim({one}) = trim({two})"
        if kind == DATE:
            conditions["a day apart"] = f"abs({one} - {two}) = 1"
        if kind == TIME:
            apart = f"abs(epoch_us({one}) - epoch_us({two}))"
            conditions["a day apart"] = f"{apart} = {DAY_US}"
            conditions["time zone"] = f"{apart} % {ZONES_US} = 0 AND {apart} <= {FARTHEST_US}"
        if kind == NUMBER:
            rounded = [
                f"{a} = round({b}, {n})" for n in DIGITS_KEPT for a, b in ((one, two), (two, one))
            ]
            noise = [f"abs({one} / {two} - 1) <= {NOISE}"] if self.is_floating else []
            conditions["rounding"] = f"{one} <> {two} AND ({' OR '.join(rounded + noise)})"
            a, b = (f"CAST({value} AS DOUBLE)" for value in (one, two))
            for name, great, small in (("left = right", a, b), ("right = left", b, a)):
                conditions |= {
                    f"{name} × {n}": f"abs({great} / ({small} * {n}) - 1) <= {NOISE}" for n in UNITS
                }
            conditions["other sign"] = f"{a} = -{b} AND {a} <> 0"
        if self.is_floating:
            conditions["sign of zero"] = f"{one} = 0 AND {two} = 0"
        return conditions

    def _differs(self, one: str, two: str) -> str:
        signs = f" OR ({one} = 0 AND signbit({one}) <> signbit({two}))" if self.is_floating else ""
        return f"({one} IS DISTINCT FROM {two}{signs})"

    def _beyond(self, one: str, two: str) -> str:
        """Condition for a difference beyond tolerance: integers are subtracted as HUGEINT, and
        overflow, infinity and NaN count as beyond."""
        differ = f"{one} IS DISTINCT FROM {two}"
        if not self.tolerance:
            return differ
        wide = [f"CAST({v} AS HUGEINT)" if "INT" in self.type else v for v in (one, two)]
        apart = (
            f"abs(epoch_us({one}) - epoch_us({two})) / 1e6"
            if self.unit == "s"
            else f"abs({' - '.join(wide)})"
        )
        share = f" / 100 * greatest(abs({wide[0]}), abs({wide[1]}))" if self.unit == "%" else ""
        finite = f"isfinite({one}) AND isfinite({two}) AND " if self.is_floating else ""
        return (
            f"({differ} AND NOT coalesce({finite}TRY({apart} <= {self.tolerance}{share}), false))"
        )


def family(kind: str) -> str:
    """Return the family of a type as DuckDB writes it: number, text, date, time or other."""
    return next((name for name, pattern in FAMILIES if re.fullmatch(pattern, kind)), OTHER)


def compared_columns(
    engine: "DuckDBPyConnection",
    types: Sequence[Mapping[str, str]],
    key: Collection[str],
    wanted: Collection[str] = (),
    ignored: Collection[str] = (),
) -> tuple[ComparedColumn, ...]:
    """Return the key columns and the columns that both sides have (`wanted`: of these; never
    `ignored`), each with the type in which DuckDB unites both; what it cannot unite is compared as
    text."""
    left, right = types
    names = [
        *key,
        *(
            c
            for c in left
            if c in right and c not in key and c not in ignored and (not wanted or c in wanted)
        ),
    ]
    return tuple(
        ComparedColumn(name, left[name], right[name], _common_type(engine, left[name], right[name]))
        for name in names
    )


def _common_type(engine: "DuckDBPyConnection", left: str, right: str) -> str:
    import duckdb

    if (family(left) == OTHER) != (family(right) == OTHER) and "BOOLEAN" not in (left, right):
        return "VARCHAR"  # DuckDB names a type here to which it casts no number
    try:
        query = f"DESCRIBE SELECT CAST(NULL AS {left}) AS c UNION ALL SELECT CAST(NULL AS {right})"
        return str(engine.execute(query).fetchall()[0][1])
    except duckdb.Error:
        return "VARCHAR"


def parse_tolerances(
    columns: Sequence[ComparedColumn], texts: Mapping[str, str]
) -> tuple[ComparedColumn, ...]:
    """Return the columns with their tolerances; raises BackfillError for one that does not fit its
    column."""
    parsed_columns = []
    for column in columns:
        if (text := texts.get(column.name)) is None:
            parsed_columns.append(column)
            continue
        parsed = TOLERANCE.fullmatch(text)
        fits = {"s": TIME, "": NUMBER, "%": NUMBER}
        if parsed is None or fits[parsed[2]] != family(column.type):
            raise BackfillError(
                f"the tolerance {column.name}={text}",
                f"it does not fit a column of type {column.type}",
                "Nothing was compared",
                "Write a number (0.01) or a share (1%) for numbers, seconds (5s) for times",
            )
        parsed_columns.append(replace(column, tolerance=parsed[1], unit=parsed[2]))
    return tuple(parsed_columns)


def row_digest(columns: Sequence[ComparedColumn], rows: str, by: str = "") -> str:
    """Return the query of a digest of all rows, or of each value of the expression `by` and a
    digest of its rows. The order of rows does not change it.

    Each row's text is its cells in the order of their names, as `-` (NULL) or length, `:` and text.
    Of its SHA-256 four pieces of 60 bits are summed over the rows; the digest is the SHA-256 of the
    number of rows and these sums.
    """
    cells = ", ".join(_text(c) for c in sorted(columns, key=lambda c: c.name))
    pieces = (
        f"sum(CAST(concat('0x', substr(h, {1 + i * DIGITS}, {DIGITS})) AS BIGINT))"
        for i in range(PIECES)
    )
    return (
        f"SELECT {f'{by}, ' if by else ''}sha256(concat_ws('.', count(*), {', '.join(pieces)})) "
        f"FROM (SELECT *, sha256(concat_ws('|', {cells})) AS h FROM "
        f"{rows}){f' GROUP BY {by}' if by else ''}"
    )


def _text(column: ComparedColumn) -> str:
    """Return a cell's text; 0.0 and -0.0 have one."""
    value = quoted(column.name)
    plain = f"{value} + 0" if column.is_floating else value
    text = f"CAST({plain} AS VARCHAR)"
    return f"CASE WHEN {value} IS NULL THEN '-' ELSE concat(strlen({text}), ':', {text}) END"


@dataclass(frozen=True)
class DayCount:
    """Rows of one day (None: no day is known) on both sides, and rows of each kind of
    difference."""

    day: date | None
    left: int
    right: int
    kinds: Mapping[str, int]


@dataclass(frozen=True)
class ColumnCount:
    """A column: its types, values beyond and within tolerance, and what the differences look like
    (`how`)."""

    column: str
    left_type: str
    right_type: str
    differing: int
    within: int
    how: Mapping[str, int]
    same_kind: bool


@dataclass(frozen=True)
class MatchedRow:
    """A row of both sides: its key, its kind, and cells of both sides as text (None: NULL, or there
    is no row)."""

    kind: str
    key: Mapping[str, str | None]
    left: Mapping[str, str | None]
    right: Mapping[str, str | None]
