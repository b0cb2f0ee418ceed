"""Rows of two sides matched by a key in DuckDB, in both directions: missing, doubled and differing,
per day and column.

The rows are matched by a full outer join that takes NULL for a value, so that a NULL key hides
nothing. Here is also when two values differ: the type that both sides share, tolerances, and what a
difference looks like. Not here: what a side may be (`reconcile.reconcile_sides`), and two versions
of a table (`compare.differences`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.texts import shortened_text
from backfill_assets.kernel.tables.fingerprints import quoted_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LEFT, RIGHT = "one", "two"
CELL_CHARS = 80
SAMPLES = 5  # rows of each kind that are shown
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
        return quoted_name(f"{self.name}@left")

    @property
    def right(self) -> str:
        """Return the name of the right value in a pair of rows."""
        return quoted_name(f"{self.name}@right")

    @property
    def same_kind(self) -> bool:
        """Return whether both sides hold numbers, texts, dates, times, or the same other type."""
        one, two = type_family(self.left_type), type_family(self.right_type)
        return one == two and (one != OTHER or self.left_type == self.right_type)

    @property
    def beyond(self) -> str:
        """Return the condition on l and r under which the values differ beyond tolerance."""
        return self._beyond_condition(f"l.{quoted_name(self.name)}", f"r.{quoted_name(self.name)}")

    @property
    def differs(self) -> str:
        """Return the condition on l and r under which the values are not identical; 0.0 and -0.0
        are not."""
        return self._differs_condition(f"l.{quoted_name(self.name)}", f"r.{quoted_name(self.name)}")

    @property
    def is_floating(self) -> bool:
        """Return whether values have a sign of zero, infinities and NaN."""
        return self.type in ("DOUBLE", "FLOAT")

    def aggregates(self) -> list[str]:
        """Return aggregates over pairs of rows: values beyond tolerance, values within it, then
        values of each look."""
        beyond = self._beyond_condition(self.left, self.right)
        differs = self._differs_condition(self.left, self.right)
        conditions = [beyond, f"{differs} AND NOT ({beyond})"]
        for look in self.looks().values():
            conditions.append(f"{differs} AND ({look})")
        return [f"count(*) FILTER (WHERE {condition})" for condition in conditions]

    def looks(self) -> Mapping[str, str]:
        """Return conditions by what a difference looks like, within tolerance or beyond it."""
        one, two, kind = self.left, self.right, type_family(self.type)
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
            conditions |= self._number_looks()
        if self.is_floating:
            conditions["sign of zero"] = f"{one} = 0 AND {two} = 0"
        return conditions

    def _number_looks(self) -> dict[str, str]:
        """Return the looks of numbers: one side is rounded, in another unit, or has another
        sign."""
        one, two = self.left, self.right
        rounded = []
        for digits in DIGITS_KEPT:
            rounded.append(f"{one} = round({two}, {digits})")
            rounded.append(f"{two} = round({one}, {digits})")
        if self.is_floating:
            rounded.append(f"abs({one} / {two} - 1) <= {NOISE}")
        looks = {"rounding": f"{one} <> {two} AND ({' OR '.join(rounded)})"}
        left, right = f"CAST({one} AS DOUBLE)", f"CAST({two} AS DOUBLE)"
        for unit in UNITS:
            looks[f"left = right × {unit}"] = f"abs({left} / ({right} * {unit}) - 1) <= {NOISE}"
        for unit in UNITS:
            looks[f"right = left × {unit}"] = f"abs({right} / ({left} * {unit}) - 1) <= {NOISE}"
        looks["other sign"] = f"{left} = -{right} AND {left} <> 0"
        return looks

    def _differs_condition(self, one: str, two: str) -> str:
        differ = f"{one} IS DISTINCT FROM {two}"
        if self.is_floating:
            differ += f" OR ({one} = 0 AND signbit({one}) <> signbit({two}))"
        return f"({differ})"

    def _beyond_condition(self, one: str, two: str) -> str:
        """Condition for a difference beyond tolerance: integers are subtracted as HUGEINT, and
        overflow, infinity and NaN count as beyond."""
        differ = f"{one} IS DISTINCT FROM {two}"
        if not self.tolerance:
            return differ
        wide_one, wide_two = one, two
        if "INT" in self.type:
            wide_one, wide_two = f"CAST({one} AS HUGEINT)", f"CAST({two} AS HUGEINT)"
        apart, bound = f"abs({wide_one} - {wide_two})", self.tolerance
        if self.unit == "s":
            apart = f"abs(epoch_us({one}) - epoch_us({two})) / 1e6"
        if self.unit == "%":
            bound += f" / 100 * greatest(abs({wide_one}), abs({wide_two}))"
        finite = f"isfinite({one}) AND isfinite({two}) AND " if self.is_floating else ""
        return f"({differ} AND NOT coalesce({finite}TRY({apart} <= {bound}), false))"


def type_family(kind: str) -> str:
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
    names = [*key]
    for column in left:
        is_chosen = not wanted or column in wanted
        if column in right and is_chosen and column not in {*key, *ignored}:
            names.append(column)
    return tuple(
        ComparedColumn(name, left[name], right[name], _common_type(engine, left[name], right[name]))
        for name in names
    )


def _common_type(engine: "DuckDBPyConnection", left: str, right: str) -> str:
    """Return DuckDB's type that holds values of both types; text where there is none."""
    import duckdb

    is_one_known = (type_family(left) == OTHER) != (type_family(right) == OTHER)
    if is_one_known and "BOOLEAN" not in (left, right):
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
    return tuple(
        _with_tolerance(column, texts[column.name]) if column.name in texts else column
        for column in columns
    )


def _with_tolerance(column: ComparedColumn, text: str) -> ComparedColumn:
    """Return the column with the tolerance that `text` says, e.g. `0.01`, `1%`, `5s`; raises
    BackfillError for one that does not fit its type."""
    parsed = TOLERANCE.fullmatch(text)
    fits = {"s": TIME, "": NUMBER, "%": NUMBER}
    if parsed is None or fits[parsed[2]] != type_family(column.type):
        raise BackfillError(
            f"the tolerance {column.name}={text}",
            f"it does not fit a column of type {column.type}",
            "Nothing was compared",
            "Write a number (0.01) or a share (1%) for numbers, seconds (5s) for times",
        )
    return replace(column, tolerance=parsed[1], unit=parsed[2])


def row_digest(columns: Sequence[ComparedColumn], rows: str, by: str = "") -> str:
    """Return the query of a digest of all rows, or of each value of the expression `by` and a
    digest of its rows. The order of rows does not change it.

    Each row's text is its cells in the order of their names, as `-` (NULL) or length, `:` and text.
    Of its SHA-256 four pieces of 60 bits are summed over the rows; the digest is the SHA-256 of the
    number of rows and these sums.
    """
    cells = ", ".join(_cell_text_sql(c) for c in sorted(columns, key=lambda c: c.name))
    pieces = (
        f"sum(CAST(concat('0x', substr(h, {1 + i * DIGITS}, {DIGITS})) AS BIGINT))"
        for i in range(PIECES)
    )
    digest = f"sha256(concat_ws('.', count(*), {', '.join(pieces)}))"
    hashed = f"(SELECT *, sha256(concat_ws('|', {cells})) AS h FROM {rows})"
    if by:
        return f"SELECT {by}, {digest} FROM {hashed} GROUP BY {by}"
    return f"SELECT {digest} FROM {hashed}"


def _cell_text_sql(column: ComparedColumn) -> str:
    """Return a cell's text; 0.0 and -0.0 have one."""
    value = quoted_name(column.name)
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


class KeyCounts(NamedTuple):
    """What is wrong with the keys of two sides; each pair is of the left and of the right side."""

    null_keys: tuple[int, int]  # rows with a NULL in the key
    repeated_keys: tuple[int, int]  # keys that several rows have


@dataclass(frozen=True)
class Matching:
    """Two sides, each a SELECT, and how their rows are matched."""

    engine: "DuckDBPyConnection"
    sides: tuple[str, str]
    key: Sequence[str]  # columns of both sides
    day: str | None  # the column that gives a row's day, if one does
    columns: tuple[ComparedColumn, ...]  # the columns to compare, with those of the key
    within: DayRange | None = None  # only rows of these days (None: all)
    seed: int = 0  # draws the examples and the spot check
    script: list[str] = field(default_factory=list)  # the statements that were run so far

    @property
    def _value_columns(self) -> tuple[ComparedColumn, ...]:
        """Return the compared columns that are not part of the key."""
        return tuple(c for c in self.columns if c.name not in self.key)

    def match(self, setup: Sequence[str] = ()) -> KeyCounts:
        """Join both sides by the key and keep the pairs that are not identical, which the other
        methods read: so it is called first, and once. `setup`: statements that ran before, to be
        shown with the script. Returns what is wrong with the keys of both sides."""
        # An engine of ours is in UTC from its start.
        self.script.extend(["SET TimeZone = 'UTC'", *setup])
        for name, side in zip((LEFT, RIGHT), self.sides, strict=True):
            self._run_statement(f"CREATE TEMP VIEW {name} AS {self._normalized_side(side)}")
        null_keys = self._count_null_keys(LEFT), self._count_null_keys(RIGHT)
        repeated_keys = self._number_rows()
        self._run_statement(f"CREATE TEMP TABLE off AS {self._select_pairs()}")
        return KeyCounts(null_keys, repeated_keys)

    def _count_null_keys(self, name: str) -> int:
        """Count the rows of the side `name` with a NULL in the key."""
        is_null = " OR ".join(f"{quoted_name(k)} IS NULL" for k in self.key)
        [(count,)] = self._run_statement(f"SELECT count(*) FROM {name} WHERE {is_null}")
        return int(count)

    def _number_rows(self) -> tuple[int, int]:
        """Number the rows that repeat a key, so that each meets one row of the other side, an equal
        one if there is one; returns the keys that repeat on the left and on the right."""
        repeating = self._find_repeated_keys()
        if repeating:
            self._number_copies(LEFT)
            self._number_copies(RIGHT)
        for name, other in ((LEFT, RIGHT), (RIGHT, LEFT)):
            rows = f'SELECT *, 1 AS "@n" FROM {name}'
            if repeating:
                rows = self._numbered_rows(name, other)
            self._run_statement(f"CREATE TEMP VIEW {name}_numbered AS {rows}")
        return repeating.get(LEFT, 0), repeating.get(RIGHT, 0)

    def _find_repeated_keys(self) -> dict[str, int]:
        """Keep the keys that repeat as the table `repeated`; returns their number by side, without
        sides that have none."""
        keys = ", ".join(map(quoted_name, self.key))
        often = (
            f"SELECT '{n}' AS \"@side\", {keys} FROM {n} GROUP BY ALL HAVING count(*) > 1"
            for n in (LEFT, RIGHT)
        )
        self._run_statement(f"CREATE TEMP TABLE repeated AS {' UNION ALL '.join(often)}")
        return dict(self._run_statement('SELECT "@side", count(*) FROM repeated GROUP BY ALL'))

    def _cells(self) -> list[str]:
        """Return the compared columns of the row `t`."""
        return [f"t.{quoted_name(c.name)}" for c in self.columns]

    def _join_repeated(self, name: str, kind: str) -> str:
        """Return the rows `t` of the side `name` whose key repeats (`kind` SEMI) or not (ANTI)."""
        return f"FROM {name} AS t {kind} JOIN repeated ON {self._same_key('t', 'repeated')}"

    def _number_copies(self, name: str) -> None:
        """Keep the rows of the side `name` whose key repeats, equal ones among them numbered as
        `@copy`."""
        copy = f'row_number() OVER (PARTITION BY {", ".join(self._cells())}) AS "@copy"'
        self._run_statement(
            f"CREATE TEMP TABLE {name}_repeated AS SELECT *, {copy} "
            f"{self._join_repeated(name, 'SEMI')}"
        )

    def _numbered_rows(self, name: str, other: str) -> str:
        """Select the rows of the side `name` with their number `@n` among those of their key: rows
        that have an equal one on the `other` side come first."""
        cells = self._cells()
        equal = " AND ".join(f"{c} IS NOT DISTINCT FROM o{c[1:]}" for c in [*cells, 't."@copy"'])
        order = ", ".join(['o."@copy" IS NULL', *cells, 't."@copy"'])
        keys = ", ".join(f"t.{quoted_name(k)}" for k in self.key)
        return (
            f'SELECT t.*, 1 AS "@n" {self._join_repeated(name, "ANTI")} UNION ALL SELECT t.* '
            f'EXCLUDE ("@copy"), row_number() OVER (PARTITION BY {keys} ORDER BY {order}) '
            f"FROM {name}_repeated AS t LEFT JOIN {other}_repeated AS o ON {equal}"
        )

    def _same_key(self, one: str, two: str) -> str:
        """Return the condition that two rows have the same key. NULL counts as a value."""
        return " AND ".join(
            f"{one}.{k} IS NOT DISTINCT FROM {two}.{k}" for k in map(quoted_name, self.key)
        )

    def _run_statement(self, statement: str) -> list[tuple[Any, ...]]:
        self.script.append(statement)
        return self.engine.execute(statement).fetchall()

    def _normalized_side(self, side: str) -> str:
        """Select the compared columns of a side in types that both sides share, of the wanted
        days."""
        day = f"CAST({quoted_name(self.day)} AS DATE)" if self.day else "CAST(NULL AS DATE)"
        names = ", ".join(
            f"CAST({quoted_name(c.name)} AS {c.type}) AS {quoted_name(c.name)}"
            for c in self.columns
        )
        selected = f'SELECT {names}, {day} AS "@day" FROM ({side})'
        if not self.within:
            return selected
        first, last = self.within.start, self.within.last
        return f"{selected} WHERE {day} BETWEEN DATE '{first}' AND DATE '{last}'"

    def _select_pairs(self, drawn: bool = False) -> str:
        """Select the pairs of rows that are not identical; with `drawn`, all pairs whose key was
        drawn."""
        source = f"SEMI JOIN drawn ON {self._same_key('t', 'drawn')}" if drawn else ""
        left, right = (f"(SELECT * FROM {n}_numbered AS t {source})" for n in (LEFT, RIGHT))
        same = f'{self._same_key("l", "r")} AND l."@n" = r."@n"'
        differs = self._any_differs()
        shown = [f"coalesce(l.{k}, r.{k}) AS {k}" for k in map(quoted_name, self.key)]
        for c in self._value_columns:
            shown.append(
                f"l.{quoted_name(c.name)} AS {c.left}, r.{quoted_name(c.name)} AS {c.right}"
            )
        where = "" if drawn else f' WHERE l."@n" IS NULL OR r."@n" IS NULL OR {differs}'
        return (
            f'SELECT coalesce(l."@day", r."@day") AS "@day", {self._kind_of_pair()} AS "@kind", '
            f"{', '.join(shown)} FROM {left} AS l FULL OUTER JOIN {right} AS r ON {same}{where}"
        )

    def _any_differs(self) -> str:
        """Return the condition on l and r under which a value is not identical."""
        return " OR ".join(c.differs for c in self._value_columns) or "false"

    def _kind_of_pair(self) -> str:
        """Return the expression on l and r that gives the kind of their difference."""
        beyond = " OR ".join(c.beyond for c in self._value_columns) or "false"
        kinds = {
            'l."@n" IS NULL AND r."@n" > 1': DOUBLED_RIGHT,
            'l."@n" IS NULL': MISSING_LEFT,
            'r."@n" IS NULL AND l."@n" > 1': DOUBLED_LEFT,
            'r."@n" IS NULL': MISSING_RIGHT,
            beyond: DIFFERS,
            self._any_differs(): WITHIN,
        }
        kind = " ".join(f"WHEN {condition} THEN '{word}'" for condition, word in kinds.items())
        return f"CASE {kind} ELSE '{EQUAL}' END"

    def days(self) -> tuple[DayCount, ...]:
        """Return the days with rows, ascending."""
        left, right = self._rows_by_day(LEFT), self._rows_by_day(RIGHT)
        kinds_of_day: dict[date | None, dict[str, int]] = {}
        for day, kind, count in self._run_statement(
            'SELECT "@day", "@kind", count(*) FROM off GROUP BY ALL ORDER BY ALL'
        ):
            kinds_of_day.setdefault(day, {})[kind] = count
        days = sorted({*left, *right, *kinds_of_day}, key=lambda d: d or date.min)
        return tuple(
            DayCount(d, left.get(d, 0), right.get(d, 0), kinds_of_day.get(d, {})) for d in days
        )

    def _rows_by_day(self, name: str) -> dict[date | None, int]:
        """Count the rows of the side `name` by day."""
        return dict(
            self._run_statement(f'SELECT "@day", count(*) FROM {name} GROUP BY 1 ORDER BY 1')
        )

    def column_differences(self) -> tuple[ColumnCount, ...]:
        """Return the compared columns with the values that differ."""
        values = self._value_columns
        cells = iter(self._aggregate_pairs(values))
        counts = []
        for c in self.columns:
            differing, within, named = 0, 0, dict[str, int]()
            if c in values:
                differing, within, *looks = (next(cells) for _ in c.aggregates())
                named = {word: n for word, n in zip(c.looks(), looks, strict=True) if n}
            counts.append(
                ColumnCount(
                    column=c.name,
                    left_type=c.left_type,
                    right_type=c.right_type,
                    differing=differing,
                    within=within,
                    how=named,
                    same_kind=c.same_kind,
                )
            )
        return tuple(counts)

    def _aggregate_pairs(self, columns: Sequence[ComparedColumn]) -> Sequence[int]:
        """Return the aggregates of these columns, one after the other, over pairs of both
        sides."""
        aggregates = [a for c in columns for a in c.aggregates()]
        if not aggregates:
            return ()
        in_both_sides = f"\"@kind\" IN ('{DIFFERS}', '{WITHIN}')"
        return self._run_statement(
            f"SELECT {', '.join(aggregates)} FROM off WHERE {in_both_sides}"
        )[0]

    def changed_by_day(self) -> dict[date | None, dict[str, int]]:
        """Return per day and column the values that differ beyond tolerance; columns without any
        are left out."""
        counts = ['"@day"', *(c.aggregates()[0] for c in self._value_columns)]
        rows = self._run_statement(
            f"SELECT {', '.join(counts)} FROM off WHERE \"@kind\" = '{DIFFERS}' GROUP BY 1"
        )
        names = [c.name for c in self._value_columns]
        changed: dict[date | None, dict[str, int]] = {}
        for day, *cells in rows:
            by_column = zip(names, cells, strict=True)
            changed[day] = {name: count for name, count in by_column if count}
        return changed

    def examples(self) -> tuple[MatchedRow, ...]:
        """Return rows of each kind that differ, the same ones for the same seed, whatever the order
        of rows."""
        numbered = f'row_number() OVER (PARTITION BY "@kind" ORDER BY {self._order_by_seed})'
        return self._matched_rows(
            f"SELECT {self._shown_columns()} FROM off QUALIFY {numbered} <= {SAMPLES} ORDER BY ALL"
        )

    def _shown_columns(self) -> str:
        """Select kind, key and cells as text."""
        shown = ['"@kind"']
        for name in self.key:
            shown.append(f"CAST({quoted_name(name)} AS VARCHAR)")
        for c in self._value_columns:
            shown += [f"CAST({c.left} AS VARCHAR)", f"CAST({c.right} AS VARCHAR)"]
        return ", ".join(shown)

    def spot_check(self, keys_drawn: int) -> tuple[MatchedRow, ...]:
        """Draw so many keys of both sides by the seed and return their rows side by side, equal
        ones too."""
        if not keys_drawn:
            return ()
        keys = ", ".join(quoted_name(k) for k in self.key)
        all_keys = f"(SELECT {keys} FROM {LEFT} UNION SELECT {keys} FROM {RIGHT})"
        self._run_statement(
            f"CREATE TEMP TABLE drawn AS FROM {all_keys} ORDER BY {self._order_by_seed} LIMIT "
            f"{keys_drawn}"
        )
        return self._matched_rows(
            f"SELECT {self._shown_columns()} FROM ({self._select_pairs(drawn=True)}) ORDER BY ALL"
        )

    @property
    def _order_by_seed(self) -> str:
        """Return an order of keys that the seed decides and the order of rows does not."""
        return f"md5(concat_ws('|', {self.seed}, {', '.join(quoted_name(k) for k in self.key)}))"

    def _matched_rows(self, query: str) -> tuple[MatchedRow, ...]:
        return tuple(self._matched_row(kind, cells) for kind, *cells in self._run_statement(query))

    def _matched_row(self, kind: str, cells: Sequence[Any]) -> MatchedRow:
        """Return the row of one pair; `cells` are those of `_shown_columns` behind the kind."""
        texts = [None if cell is None else shortened_text(str(cell), CELL_CHARS) for cell in cells]
        width, names = len(self.key), [c.name for c in self._value_columns]
        key = dict(zip(self.key, texts[:width], strict=True))
        left = dict(zip(names, texts[width::2], strict=True))
        right = dict(zip(names, texts[width + 1 :: 2], strict=True))
        if kind in (DIFFERS, WITHIN):
            differing = [name for name in names if left[name] != right[name]]
            left = {name: left[name] for name in differing}
            right = {name: right[name] for name in differing}
        if kind in (MISSING_LEFT, DOUBLED_RIGHT):
            left = {}
        if kind in (MISSING_RIGHT, DOUBLED_LEFT):
            right = {}
        return MatchedRow(kind, key, left, right)

    def digests(self, by: str = "") -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Return, of each side, a row with a SHA-256 of the key and the compared columns, whatever
        the order of its rows, or such a row for each value of the expression `by`, behind that
        value."""
        left, right = (self._run_statement(row_digest(self.columns, n, by)) for n in (LEFT, RIGHT))
        return left, right
