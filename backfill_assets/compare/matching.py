"""Rows of two sides matched by a key in DuckDB, in both directions: missing, doubled and differing,
per day and column.

The rows are matched by a full outer join that takes NULL for a value, so that a NULL key hides
nothing. Also two versions of a table, matched so (`differences`). Not here: what a side may be
(`reconcile.reconcile_sides`), when values differ (`matched_columns`), the choice of versions and
the report (`compare.compare`).
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_assets.compare.matched_columns import (
    DIFFERS,
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    EQUAL,
    MISSING_LEFT,
    MISSING_RIGHT,
    WITHIN,
    ColumnCount,
    ComparedColumn,
    DayCount,
    MatchedRow,
    compared_columns,
    row_digest,
)
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import Histogram
from backfill_assets.kernel.core.texts import shortened
from backfill_assets.kernel.tables.embedded import connection, selections
from backfill_assets.kernel.tables.fingerprints import bucket, quoted
from backfill_assets.kernel.tables.home import Lake

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LEFT, RIGHT = "one", "two"
CELL_CHARS = 80
SAMPLES = 5  # rows of each kind that are shown
NULL_BUCKET = -1000  # no number has so many bits
TEXT_BUCKETS = 32  # a shift among few values shows; many values spread evenly whatever they are
WORDS = {
    "added": (MISSING_LEFT, DOUBLED_RIGHT),
    "removed": (MISSING_RIGHT, DOUBLED_LEFT),
    "changed": (DIFFERS,),
}


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
    def _values(self) -> tuple[ComparedColumn, ...]:
        """Return the compared columns that are not part of the key."""
        return tuple(c for c in self.columns if c.name not in self.key)

    def match(self, setup: Sequence[str] = ()) -> tuple[tuple[int, int], tuple[int, int]]:
        """Join both sides by the key and keep the pairs that are not identical, which the other
        methods read: so it is called first, and once. `setup`: statements that ran before, to be
        shown with the script. Returns two pairs of numbers (of the left side, of the right side):
        the rows with a NULL in the key, and the keys that repeat."""
        self.script.extend(
            ["SET TimeZone = 'UTC'", *setup]
        )  # an engine of ours is in UTC from its start
        for name, side in zip((LEFT, RIGHT), self.sides, strict=True):
            self._run(f"CREATE TEMP VIEW {name} AS {self._normalized(side)}")
        is_null = " OR ".join(f"{quoted(k)} IS NULL" for k in self.key)
        nulls = [
            self._run(f"SELECT count(*) FROM {n} WHERE {is_null}")[0][0] for n in (LEFT, RIGHT)
        ]
        doubled = self._number_rows()
        self._run(f"CREATE TEMP TABLE off AS {self._pairs()}")
        return (nulls[0], nulls[1]), doubled

    def _number_rows(self) -> tuple[int, int]:
        """Number the rows that repeat a key, so that each meets one row of the other side, an equal
        one if there is one; returns the keys that repeat on the left and on the right."""
        keys = ", ".join(map(quoted, self.key))
        cells = [f"t.{quoted(c.name)}" for c in self.columns]
        often = (
            f"SELECT '{n}' AS \"@side\", {keys} FROM {n} GROUP BY ALL HAVING count(*) > 1"
            for n in (LEFT, RIGHT)
        )
        self._run(f"CREATE TEMP TABLE repeated AS {' UNION ALL '.join(often)}")
        repeating = dict(self._run('SELECT "@side", count(*) FROM repeated GROUP BY ALL'))
        repeats = f"FROM {{}} AS t {{}} JOIN repeated ON {self._same_key('t', 'repeated')}"
        for name in (LEFT, RIGHT) if repeating else ():
            copy = f'row_number() OVER (PARTITION BY {", ".join(cells)}) AS "@copy"'
            self._run(
                f"CREATE TEMP TABLE {name}_repeated AS SELECT *, {copy} "
                f"{repeats.format(name, 'SEMI')}"
            )
        equal = " AND ".join(f"{c} IS NOT DISTINCT FROM o{c[1:]}" for c in [*cells, 't."@copy"'])
        order = ", ".join(['o."@copy" IS NULL', *cells, 't."@copy"'])
        number = (
            f"row_number() OVER (PARTITION BY {', '.join(f't.{quoted(k)}' for k in self.key)} "
            f"ORDER BY {order})"
        )
        for name, other in ((LEFT, RIGHT), (RIGHT, LEFT)):
            rows = f'SELECT *, 1 AS "@n" FROM {name}'
            if repeating:
                rows = (
                    f'SELECT t.*, 1 AS "@n" {repeats.format(name, "ANTI")} UNION ALL SELECT t.* '
                    'EXCLUDE ("@copy"), '
                )
                rows += (
                    f"{number} FROM {name}_repeated AS t LEFT JOIN {other}_repeated AS o ON {equal}"
                )
            self._run(f"CREATE TEMP VIEW {name}_numbered AS {rows}")
        return repeating.get(LEFT, 0), repeating.get(RIGHT, 0)

    def _same_key(self, one: str, two: str) -> str:
        """Return the condition that two rows have the same key. NULL counts as a value."""
        return " AND ".join(
            f"{one}.{k} IS NOT DISTINCT FROM {two}.{k}" for k in map(quoted, self.key)
        )

    def _run(self, statement: str) -> list[tuple[Any, ...]]:
        self.script.append(statement)
        return self.engine.execute(statement).fetchall()

    def _normalized(self, side: str) -> str:
        """Select the compared columns of a side in types that both sides share, of the wanted
        days."""
        day = f"CAST({quoted(self.day)} AS DATE)" if self.day else "CAST(NULL AS DATE)"
        where = (
            f" WHERE {day} BETWEEN DATE '{self.within.start}' AND DATE '{self.within.last}'"
            if self.within
            else ""
        )
        names = ", ".join(
            f"CAST({quoted(c.name)} AS {c.type}) AS {quoted(c.name)}" for c in self.columns
        )
        return f'SELECT {names}, {day} AS "@day" FROM ({side}){where}'

    def _pairs(self, drawn: bool = False) -> str:
        """Select the pairs of rows that are not identical; with `drawn`, all pairs whose key was
        drawn."""
        source = f"SEMI JOIN drawn ON {self._same_key('t', 'drawn')}" if drawn else ""
        left, right = (f"(SELECT * FROM {n}_numbered AS t {source})" for n in (LEFT, RIGHT))
        same = f'{self._same_key("l", "r")} AND l."@n" = r."@n"'
        beyond = " OR ".join(c.beyond for c in self._values) or "false"
        differs = " OR ".join(c.differs for c in self._values) or "false"
        shown = [f"coalesce(l.{k}, r.{k}) AS {k}" for k in map(quoted, self.key)]
        shown += [
            f"l.{quoted(c.name)} AS {c.left}, r.{quoted(c.name)} AS {c.right}" for c in self._values
        ]
        kinds = {
            'l."@n" IS NULL AND r."@n" > 1': DOUBLED_RIGHT,
            'l."@n" IS NULL': MISSING_LEFT,
            'r."@n" IS NULL AND l."@n" > 1': DOUBLED_LEFT,
            'r."@n" IS NULL': MISSING_RIGHT,
            beyond: DIFFERS,
            differs: WITHIN,
        }
        kind = " ".join(f"WHEN {condition} THEN '{word}'" for condition, word in kinds.items())
        other = f"ELSE '{EQUAL}'"
        where = "" if drawn else f' WHERE l."@n" IS NULL OR r."@n" IS NULL OR {differs}'
        return (
            f'SELECT coalesce(l."@day", r."@day") AS "@day", CASE {kind} {other} END AS "@kind", '
            f"{', '.join(shown)} FROM {left} AS l FULL OUTER JOIN {right} AS r ON {same}{where}"
        )

    def days(self) -> tuple[DayCount, ...]:
        """Return the days with rows, ascending."""
        rows = [
            dict(self._run(f'SELECT "@day", count(*) FROM {n} GROUP BY 1 ORDER BY 1'))
            for n in (LEFT, RIGHT)
        ]
        kinds_of_day: dict[date | None, dict[str, int]] = {}
        for day, kind, count in self._run(
            'SELECT "@day", "@kind", count(*) FROM off GROUP BY ALL ORDER BY ALL'
        ):
            kinds_of_day.setdefault(day, {})[kind] = count
        days = sorted({*rows[0], *rows[1], *kinds_of_day}, key=lambda d: d or date.min)
        return tuple(
            DayCount(d, rows[0].get(d, 0), rows[1].get(d, 0), kinds_of_day.get(d, {})) for d in days
        )

    def column_differences(self) -> tuple[ColumnCount, ...]:
        """Return the compared columns with the values that differ."""
        values = self._values
        aggregates = [a for c in values for a in c.aggregates()]
        in_both_sides = f"\"@kind\" IN ('{DIFFERS}', '{WITHIN}')"
        cells = iter(
            self._run(f"SELECT {', '.join(aggregates)} FROM off WHERE {in_both_sides}")[0]
            if aggregates
            else ()
        )
        counts = []
        for c in self.columns:
            differing, within, *looks = (
                [next(cells) for _ in c.aggregates()] if c in values else (0, 0)
            )
            named = {word: n for word, n in zip(c.looks(), looks, strict=False) if n}
            counts.append(
                ColumnCount(
                    c.name, c.left_type, c.right_type, differing, within, named, c.same_kind
                )
            )
        return tuple(counts)

    def changed_by_day(self) -> dict[date | None, dict[str, int]]:
        """Return per day and column the values that differ beyond tolerance; columns without any
        are left out."""
        counts = ['"@day"', *(c.aggregates()[0] for c in self._values)]
        rows = self._run(
            f"SELECT {', '.join(counts)} FROM off WHERE \"@kind\" = '{DIFFERS}' GROUP BY 1"
        )
        names = [c.name for c in self._values]
        return {day: {c: n for c, n in zip(names, cells, strict=True) if n} for day, *cells in rows}

    def examples(self) -> tuple[MatchedRow, ...]:
        """Return rows of each kind that differ, the same ones for the same seed, whatever the order
        of rows."""
        numbered = f'row_number() OVER (PARTITION BY "@kind" ORDER BY {self._order})'
        return self._rows(
            f"SELECT {self._shown()} FROM off QUALIFY {numbered} <= {SAMPLES} ORDER BY ALL"
        )

    def _shown(self) -> str:
        """Select kind, key and cells as text."""
        texts = [f"CAST({quoted(k)} AS VARCHAR)" for k in self.key]
        texts += [f"CAST({n} AS VARCHAR)" for c in self._values for n in (c.left, c.right)]
        return ", ".join(['"@kind"', *texts])

    def spot_check(self, keys_drawn: int) -> tuple[MatchedRow, ...]:
        """Draw so many keys of both sides by the seed and return their rows side by side, equal
        ones too."""
        if not keys_drawn:
            return ()
        keys = ", ".join(quoted(k) for k in self.key)
        all_keys = f"(SELECT {keys} FROM {LEFT} UNION SELECT {keys} FROM {RIGHT})"
        self._run(
            f"CREATE TEMP TABLE drawn AS FROM {all_keys} ORDER BY {self._order} LIMIT {keys_drawn}"
        )
        return self._rows(f"SELECT {self._shown()} FROM ({self._pairs(drawn=True)}) ORDER BY ALL")

    @property
    def _order(self) -> str:
        """Return an order of keys that the seed decides and the order of rows does not."""
        return f"md5(concat_ws('|', {self.seed}, {', '.join(quoted(k) for k in self.key)}))"

    def _rows(self, query: str) -> tuple[MatchedRow, ...]:
        values, width = [c.name for c in self._values], len(self.key)
        rows = []
        for kind, *row in self._run(query):
            texts = [None if v is None else shortened(str(v), CELL_CHARS) for v in row]
            left, right = (dict(zip(values, texts[width + i :: 2], strict=True)) for i in (0, 1))
            if kind in (DIFFERS, WITHIN):
                left, right = (
                    {c: t[c] for c in values if left[c] != right[c]} for t in (left, right)
                )
            empty = {MISSING_LEFT: 0, DOUBLED_RIGHT: 0, MISSING_RIGHT: 1, DOUBLED_LEFT: 1}.get(kind)
            sides = [{} if i == empty else s for i, s in enumerate((left, right))]
            rows.append(
                MatchedRow(
                    kind, dict(zip(self.key, texts[:width], strict=True)), sides[0], sides[1]
                )
            )
        return tuple(rows)

    def digests(self, by: str = "") -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Return, of each side, a row with a SHA-256 of the key and the compared columns, whatever
        the order of its rows, or such a row for each value of the expression `by`, behind that
        value."""
        left, right = (self._run(row_digest(self.columns, n, by)) for n in (LEFT, RIGHT))
        return left, right


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
    """The result of `differences`. `histograms`: per column before and after, over all days (None:
    the files of that side have no such column)."""

    days: tuple[DayDifference, ...]
    samples: tuple[SampleRow, ...]
    histograms: Mapping[str, tuple[Histogram | None, Histogram | None]]


def differences(
    lake: Lake, contract: Contract, before: Sequence[str], after: Sequence[str], days: DayRange
) -> Differences:
    """Compare the rows of these days in two sets of files, by the columns that both have; days
    without any row are left out. Raises duckdb.Error for files that are gone, BackfillError where
    one side lacks a column of the key."""
    keys = tuple(dict.fromkeys((contract.day_column, *contract.key)))
    with connection(lake) as engine:
        (one, types_before), (two, types_after) = selections(engine, contract, before, after)
        if lacking := [k for k in keys if k not in types_before or k not in types_after]:
            raise BackfillError(
                f"the table {contract.name}",
                f"one side has no column {', '.join(lacking)}, of the key",
                "Nothing was compared",
                "Compare versions that both have it",
            )
        columns = compared_columns(engine, (types_before, types_after), keys)
        matching = Matching(engine, (one, two), keys, contract.day_column, columns, days)
        matching.match()
        changed = matching.changed_by_day()
        days_found = tuple(_day(d, changed.get(d.day, {})) for d in matching.days() if d.day)
        samples = tuple(_sample(contract, row) for row in matching.examples() if row.kind != WITHIN)
        within = f"{quoted(contract.day_column)} BETWEEN DATE '{days.start}' AND DATE '{days.last}'"
        first = _histograms(engine, contract, f"({one}) WHERE {within}", types_before)
        second = _histograms(engine, contract, f"({two}) WHERE {within}", types_after)
        return Differences(
            days_found, samples, {c: (first.get(c), second.get(c)) for c in {**first, **second}}
        )


def _day(count: DayCount, columns: Mapping[str, int]) -> DayDifference:
    added, removed, changed = (
        sum(count.kinds.get(kind, 0) for kind in kinds) for kinds in WORDS.values()
    )
    return DayDifference(
        count.day or date.min, count.left, count.right, added, removed, changed, columns
    )


def _sample(contract: Contract, row: MatchedRow) -> SampleRow:
    day = date.fromisoformat(str(row.key[contract.day_column]))
    kind = next(word for word, kinds in WORDS.items() if row.kind in kinds)
    return SampleRow(
        day,
        kind,
        json.dumps(row.key, ensure_ascii=False, separators=(",", ":")),
        row.left,
        row.right,
    )


def _histograms(
    engine: "DuckDBPyConnection", contract: Contract, rows: str, columns: Collection[str]
) -> dict[str, Histogram]:
    others = [c for c in columns if c not in (contract.day_column, *contract.key)]
    if not others:
        return {}
    measured = set(contract.measured_columns)
    buckets = [
        bucket(contract.column(c)) if c in measured else f"hash({quoted(c)}) % {TEXT_BUCKETS}"
        for c in others
    ]
    figures = [
        f"histogram(CASE WHEN {quoted(c)} IS NULL THEN {NULL_BUCKET} ELSE CAST({b} AS BIGINT) END)"
        for c, b in zip(others, buckets, strict=True)
    ]
    found = engine.execute(f"SELECT {', '.join(figures)} FROM {rows}").fetchone() or ()
    return {c: histogram or {} for c, histogram in zip(others, found, strict=True)}
