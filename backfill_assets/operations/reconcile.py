"""Reconciliation: the rows of two sides matched by a business key, in both directions, by SQL that is kept.

Not here: what a side may be (`reconcile_sides`), when values differ (`reconcile_columns`). The rows are matched by a
full outer join that takes NULL for a value, so that a NULL key hides nothing.
"""

from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.texts import shortened
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.reconcile_columns import (
    ComparedColumn,
    compared_columns,
    parse_tolerances,
    row_digest,
)
from backfill_assets.operations.reconcile_report import (
    DIFFERS,
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    EQUAL,
    MISSING_LEFT,
    MISSING_RIGHT,
    WITHIN,
    ColumnCount,
    DayCount,
    MatchedRow,
    ReconcileReport,
    ReconcileRequest,
)
from backfill_assets.operations.reconcile_sides import (
    NOTHING,
    Side,
    by_grain,
    columns_of,
    open_side,
    refuse_lacking,
    unreadable,
)
from backfill_assets.operations.sql import own_engine

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LEFT, RIGHT = "one", "two"
CELL_CHARS = 80
SAMPLES = 5  # rows of each kind that a report shows


def reconcile(lake: Lake, pipeline: Pipeline, asked: ReconcileRequest) -> ReconcileReport:
    """Match the rows of both sides; needs no JVM and changes nothing.

    Raises BackfillError for a side that cannot be read or changes meanwhile, for columns that a side lacks, and if both
    sides are empty.
    """
    with own_engine(lake) as engine:
        left, right = (open_side(engine, lake, pipeline, text) for text in (asked.left, asked.right))
        try:
            if asked.grain:
                left, right = (by_grain(engine, side, asked.grain, asked.columns) for side in (left, right))
                asked = replace(asked, key=(asked.grain,))
            matching = _Matching.of(engine, left, right, asked)
            with unreadable(f"{left.name} or {right.name}", "Leave the column out (--ignore), or cast it in a query"):
                report = matching.report()
        finally:
            for side in (left, right):
                side.refuse_changed()
        if not any(report.rows):
            raise BackfillError(
                "the reconciliation", f"neither {left.name} nor {right.name} has rows (of these days)", NOTHING,
                "Name sides that hold rows",
            )  # fmt: skip
        return report


@dataclass(frozen=True)
class _Matching:
    """The matching of two opened sides: the statements that ran so far stand in `script`."""

    engine: "DuckDBPyConnection"
    sides: tuple[Side, Side]
    asked: ReconcileRequest
    key: tuple[str, ...]
    day: str | None
    columns: tuple[ComparedColumn, ...]
    unmatched: tuple[tuple[str, ...], tuple[str, ...]]
    script: list[str] = field(default_factory=list)

    @staticmethod
    def of(engine: "DuckDBPyConnection", left: Side, right: Side, asked: ReconcileRequest) -> "_Matching":
        """Decide key, day and compared columns; raises BackfillError where a side lacks one."""
        contract = left.contract or right.contract
        key = tuple(asked.key) or tuple(dict.fromkeys((contract.day_column, *contract.key)) if contract else ())
        if not key:
            raise BackfillError(
                "the reconciliation", "no key is known: neither side is a table of a lake", NOTHING,
                "Name the columns that identify a row: --key a,b",
            )  # fmt: skip
        day = asked.day_column or (contract.day_column if contract else None)
        types = [columns_of(engine, side) for side in (left, right)]
        for side, there in zip((left, right), types, strict=True):
            refuse_lacking(side, [*key, *([day] if day else [])], there, "of --key or the day")
            refuse_lacking(side, [*asked.columns, *asked.tolerance], there, "of --columns or --tolerance")
        if asked.days and not day:
            raise BackfillError(
                "the reconciliation", "it is to compare days, and no column gives a row's day", NOTHING,
                "Name it with --day-column",
            )  # fmt: skip
        compared = compared_columns(engine, (left, right), types, key, asked.columns, asked.ignore)
        columns = parse_tolerances(compared, asked.tolerance)
        alone = [tuple(c for c in one if c not in (*two, *asked.ignore)) for one, two in (types, types[::-1])]
        unmatched = ((), ()) if asked.columns else (alone[0], alone[1])
        return _Matching(engine, (left, right), asked, key, day, columns, unmatched)

    @property
    def _values(self) -> tuple[ComparedColumn, ...]:
        """Return the compared columns that are not part of the key."""
        return tuple(c for c in self.columns if c.name not in self.key)

    def report(self) -> ReconcileReport:
        """Run the statements."""
        self._run("SET TimeZone = 'UTC'")
        self.script.extend(statement for side in self.sides for statement in side.setup)
        for name, side in zip((LEFT, RIGHT), self.sides, strict=True):
            self._run(f"CREATE TEMP VIEW {name} AS {self._normalized(side)}")
        nulls = [
            self._run(f"SELECT count(*) FROM {n} WHERE {' OR '.join(f'{quoted(k)} IS NULL' for k in self.key)}")[0][0]
            for n in (LEFT, RIGHT)
        ]
        doubled = self._number_rows()
        self._run(f"CREATE TEMP TABLE off AS {self._pairs()}")
        return ReconcileReport(
            self.sides[0].name, self.sides[1].name, self.key, self._days(), self._columns(), (nulls[0], nulls[1]),
            doubled, self.unmatched, self._examples(), self._spot_check(),
            self._digests(), ";\n".join([*self.script, ""]),
        )  # fmt: skip

    def _number_rows(self) -> tuple[int, int]:
        """Number the rows that repeat a key, so that each meets one row of the other side, an equal one if there is
        one; returns the keys that repeat on the left and on the right."""
        keys = ", ".join(map(quoted, self.key))
        cells = [f"t.{quoted(c.name)}" for c in self.columns]
        often = (f"SELECT '{n}' AS \"@side\", {keys} FROM {n} GROUP BY ALL HAVING count(*) > 1" for n in (LEFT, RIGHT))
        self._run(f"CREATE TEMP TABLE repeated AS {' UNION ALL '.join(often)}")
        found = dict(self._run('SELECT "@side", count(*) FROM repeated GROUP BY ALL'))
        repeats = f"FROM {{}} AS t {{}} JOIN repeated ON {self._same('t', 'repeated')}"
        for name in (LEFT, RIGHT) if found else ():
            copy = f'row_number() OVER (PARTITION BY {", ".join(cells)}) AS "@copy"'
            self._run(f"CREATE TEMP TABLE {name}_repeated AS SELECT *, {copy} {repeats.format(name, 'SEMI')}")
        equal = " AND ".join(f"{c} IS NOT DISTINCT FROM o{c[1:]}" for c in [*cells, 't."@copy"'])
        order = ", ".join(['o."@copy" IS NULL', *cells, 't."@copy"'])
        number = f"row_number() OVER (PARTITION BY {', '.join(f't.{quoted(k)}' for k in self.key)} ORDER BY {order})"
        for name, other in ((LEFT, RIGHT), (RIGHT, LEFT)):
            rows = f'SELECT *, 1 AS "@n" FROM {name}'
            if found:
                rows = f'SELECT t.*, 1 AS "@n" {repeats.format(name, "ANTI")} UNION ALL SELECT t.* EXCLUDE ("@copy"), '
                rows += f"{number} FROM {name}_repeated AS t LEFT JOIN {other}_repeated AS o ON {equal}"
            self._run(f"CREATE TEMP VIEW {name}_numbered AS {rows}")
        return found.get(LEFT, 0), found.get(RIGHT, 0)

    def _same(self, one: str, two: str) -> str:
        """Return the condition that two rows have one key, of which NULL is a value."""
        return " AND ".join(f"{one}.{k} IS NOT DISTINCT FROM {two}.{k}" for k in map(quoted, self.key))

    def _run(self, statement: str) -> list[tuple[Any, ...]]:
        self.script.append(statement)
        return self.engine.execute(statement).fetchall()

    def _normalized(self, side: Side) -> str:
        """Select the compared columns of a side in types that both sides share, of the wanted days."""
        day = f"CAST({quoted(self.day)} AS DATE)" if self.day else "CAST(NULL AS DATE)"
        within = self.asked.days
        where = f" WHERE {day} BETWEEN DATE '{within.start}' AND DATE '{within.last}'" if within else ""
        names = ", ".join(f"CAST({quoted(c.name)} AS {c.type}) AS {quoted(c.name)}" for c in self.columns)
        return f'SELECT {names}, {day} AS "@day" FROM ({side.select}){where}'

    def _pairs(self, drawn: bool = False) -> str:
        """Select the pairs of rows that are not identical; with `drawn`, all pairs whose key was drawn."""
        source = f"SEMI JOIN drawn ON {self._same('t', 'drawn')}" if drawn else ""
        left, right = (f"(SELECT * FROM {n}_numbered AS t {source})" for n in (LEFT, RIGHT))
        same = f'{self._same("l", "r")} AND l."@n" = r."@n"'
        beyond = " OR ".join(c.beyond for c in self._values) or "false"
        unlike = " OR ".join(c.unlike for c in self._values) or "false"
        shown = [f"coalesce(l.{k}, r.{k}) AS {k}" for k in map(quoted, self.key)]
        shown += [f"l.{quoted(c.name)} AS {c.left}, r.{quoted(c.name)} AS {c.right}" for c in self._values]
        kinds = {
            'l."@n" IS NULL AND r."@n" > 1': DOUBLED_RIGHT, 'l."@n" IS NULL': MISSING_LEFT,
            'r."@n" IS NULL AND l."@n" > 1': DOUBLED_LEFT, 'r."@n" IS NULL': MISSING_RIGHT,
            beyond: DIFFERS, unlike: WITHIN,
        }  # fmt: skip
        kind = " ".join(f"WHEN {condition} THEN '{word}'" for condition, word in kinds.items())
        other = f"ELSE '{EQUAL}'"
        where = "" if drawn else f' WHERE l."@n" IS NULL OR r."@n" IS NULL OR {unlike}'
        return (
            f'SELECT coalesce(l."@day", r."@day") AS "@day", CASE {kind} {other} END AS "@kind", '
            f"{', '.join(shown)} FROM {left} AS l FULL OUTER JOIN {right} AS r ON {same}{where}"
        )

    def _days(self) -> tuple[DayCount, ...]:
        rows = [dict(self._run(f'SELECT "@day", count(*) FROM {n} GROUP BY 1 ORDER BY 1')) for n in (LEFT, RIGHT)]
        found: dict[date | None, dict[str, int]] = {}
        for day, kind, count in self._run('SELECT "@day", "@kind", count(*) FROM off GROUP BY ALL ORDER BY ALL'):
            found.setdefault(day, {})[kind] = count
        days = sorted({*rows[0], *rows[1], *found}, key=lambda d: d or date.min)
        return tuple(DayCount(d, rows[0].get(d, 0), rows[1].get(d, 0), found.get(d, {})) for d in days)

    def _columns(self) -> tuple[ColumnCount, ...]:
        values = self._values
        figures = [f for c in values for f in c.figures()]
        both = f"\"@kind\" IN ('{DIFFERS}', '{WITHIN}')"
        cells = iter(self._run(f"SELECT {', '.join(figures)} FROM off WHERE {both}")[0] if figures else ())
        found = []
        for c in self.columns:
            differing, within, *how = [next(cells) for _ in c.figures()] if c in values else (0, 0)
            named = {word: n for word, n in zip(c.looks(), how, strict=False) if n}
            found.append(ColumnCount(c.name, c.left_type, c.right_type, differing, within, named, c.same_kind))
        return tuple(found)

    def _examples(self) -> tuple[MatchedRow, ...]:
        numbered = f'row_number() OVER (PARTITION BY "@kind" ORDER BY {self._order})'
        return self._rows(f"SELECT {self._shown()} FROM off QUALIFY {numbered} <= {SAMPLES} ORDER BY ALL")

    def _shown(self) -> str:
        """Select kind, key and cells as text."""
        texts = [f"CAST({quoted(k)} AS VARCHAR)" for k in self.key]
        texts += [f"CAST({n} AS VARCHAR)" for c in self._values for n in (c.left, c.right)]
        return ", ".join(['"@kind"', *texts])

    def _spot_check(self) -> tuple[MatchedRow, ...]:
        """Draw keys of both sides by the seed and show their rows side by side, equal ones too."""
        if not self.asked.sample:
            return ()
        keys = ", ".join(quoted(k) for k in self.key)
        both = f"(SELECT {keys} FROM {LEFT} UNION SELECT {keys} FROM {RIGHT})"
        self._run(f"CREATE TEMP TABLE drawn AS FROM {both} ORDER BY {self._order} LIMIT {self.asked.sample}")
        return self._rows(f"SELECT {self._shown()} FROM ({self._pairs(drawn=True)}) ORDER BY ALL")

    @property
    def _order(self) -> str:
        """Return an order of keys that the seed decides and the order of rows does not."""
        return f"md5(concat_ws('|', {self.asked.seed}, {', '.join(quoted(k) for k in self.key)}))"

    def _rows(self, query: str) -> tuple[MatchedRow, ...]:
        values, width = [c.name for c in self._values], len(self.key)
        found = []
        for kind, *row in self._run(query):
            texts = [None if v is None else shortened(str(v), CELL_CHARS) for v in row]
            left, right = (dict(zip(values, texts[width + i :: 2], strict=True)) for i in (0, 1))
            if kind in (DIFFERS, WITHIN):
                left, right = ({c: t[c] for c in values if left[c] != right[c]} for t in (left, right))
            empty = {MISSING_LEFT: 0, DOUBLED_RIGHT: 0, MISSING_RIGHT: 1, DOUBLED_LEFT: 1}.get(kind)
            sides = [{} if i == empty else s for i, s in enumerate((left, right))]
            found.append(MatchedRow(kind, dict(zip(self.key, texts[:width], strict=True)), sides[0], sides[1]))
        return tuple(found)

    def _digests(self) -> tuple[str, str] | None:
        if not self.asked.sha256:
            return None
        left, right = (str(self._run(row_digest(self.columns, n))[0][0]) for n in (LEFT, RIGHT))
        return left, right
