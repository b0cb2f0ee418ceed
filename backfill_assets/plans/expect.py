"""Expected values of a fix: `plan --expect "staging.rows ±0"`, parsed when planned, judged by the
gate of each chunk.

Elsewhere: bounds of single days (`gate`). A figure is counted over all days of a chunk, by DuckDB
in the files, now and before the plan's first write.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.tables.embedded import duckdb_cursor, rows_query
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.model import PlanChunk
from backfill_assets.plans.progress import Progress, table_before_plan
from backfill_assets.reading.moments import errors_of_files

NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)"
FIGURE_AND_BOUND = re.compile(
    r"(?:(?P<of>\w+)\((?P<inner>\w+)\.(?P<column>\w+)\)|(?P<table>\w+)\.(?P<count>\w+))\s*(?P<bound>.*)"
)
BOUND = re.compile(
    rf"(?:(?:±|\+-|\+/-)\s*(?P<by>{NUMBER})\s*(?P<percent>%?)|(?P<sign><=|>=|=)\s*(?P<value>{NUMBER})"
    rf"|between\s+(?P<least>{NUMBER})\s+and\s+(?P<most>{NUMBER}))"
)
ROWS, KEYS, CHANGED = "rows", "keys", "share_changed"
COUNTS = (ROWS, KEYS)
OF_COLUMNS = {  # the SQL of a figure of a column; `share_changed` needs both sides
    "sum": "sum({0})",
    "mean": "avg({0})",
    "nulls": "count(*) - count({0})",
    "distinct": "count(DISTINCT {0})",
}
NUMERIC = ("sum", "mean")
GRAMMAR = (
    "Write FIGURE BOUND: TABLE.rows, TABLE.keys, share_changed(TABLE.COLUMN), or sum, mean, "
    "nulls, distinct of one; "
    "then ±N or ±N% (against before), = N, <= N, >= N, or between A and B"
)
CLOSE = 1e-9  # share of a floating-point figure: what the order of an addition may change
Figure = Any  # of a chunk's days: an int, float or Fraction; None: there are no rows to count


@dataclass(frozen=True)
class Expectation:
    """A figure of a table and its bounds: either `by`, or `least` and `most`."""

    text: str  # as a person wrote it
    figure: str
    table: str
    column: str  # "": the figure is of the table's rows
    by: float | None = None  # how much it may differ from the figure before
    relative: bool = False  # whether `by` is a share of the figure before
    least: float = float("-inf")
    most: float = float("inf")

    def holds(self, before: Figure, now: Figure) -> bool:
        """Whether the figure now is as expected. Without a value (no rows) it is not, unless it had
        none before either."""
        if self.by is None:
            return now is not None and bool(self.least <= now <= self.most)
        if now is None or before is None:
            return now is before
        slack = CLOSE * abs(before) if isinstance(now, float) else 0
        distance = self.by * abs(before) if self.relative else self.by
        return bool(abs(now - before) <= distance + slack)


@dataclass(frozen=True)
class FigureOutcome:
    """An expectation with its figures over a chunk's days."""

    expected: Expectation
    before: Figure
    now: Figure

    @property
    def holds(self) -> bool:
        """Whether it is as expected."""
        return self.expected.holds(self.before, self.now)

    def __str__(self) -> str:
        """E.g. `expected staging.rows ±0: 10 before, 12 now`. `share_changed` compares with before
        by itself, so it has one figure."""
        figures = _figure_text(self.now)
        if self.expected.figure != CHANGED:
            figures = f"{_figure_text(self.before)} before, {figures} now"
        return f"expected {self.expected.text}: {figures}"


def _figure_text(figure: Figure) -> str:
    return "no value" if figure is None else f"{float(figure):.15g}"


def parse_expectation(text: str, contracts: Sequence[Contract]) -> Expectation:
    """The expectation that a text states about one of these tables. Raises BackfillError for an
    unknown table, column or figure, and for a bound that is none."""
    parsed = FIGURE_AND_BOUND.fullmatch(text.strip())
    if parsed is None:
        raise _expectation_error(text, "it is not FIGURE BOUND", GRAMMAR)
    name, column = parsed["table"] or parsed["inner"], parsed["column"] or ""
    contract = next((c for c in contracts if c.name == name), None)
    if contract is None:
        raise _expectation_error(
            text,
            f"{name} is none of the plan's tables",
            f"Name one of {', '.join(c.name for c in contracts)}",
        )
    figure = parsed["of"] or parsed["count"]
    _refuse_figure(text, figure, column, contract)
    bound = BOUND.fullmatch(parsed["bound"].strip())
    if bound is None:
        raise _expectation_error(text, f"{parsed['bound']!r} is no bound", GRAMMAR)
    if bound["by"] is not None:  # ±N: how far from before
        distance = _distance(text, figure, bound)
        is_relative = bool(bound["percent"])
        return Expectation(text, figure, name, column, by=distance, relative=is_relative)
    least, most = _least_and_most(text, bound)
    return Expectation(text, figure, name, column, least=least, most=most)


def _distance(text: str, figure: str, bound: re.Match[str]) -> float:
    """How far the figure may be from before; of `±N%` a share."""
    fix = "Write e.g. `<= 0.1` or `between 0.4 and 0.6`"
    if figure == CHANGED:
        raise _expectation_error(text, "it is a comparison with before already", fix)
    if bound["by"].startswith("-"):
        raise _expectation_error(text, "a negative distance holds never", fix)
    distance = float(bound["by"])
    return distance / 100 if bound["percent"] else distance


def _least_and_most(text: str, bound: re.Match[str]) -> tuple[float, float]:
    """The least and the greatest value that the figure may have."""
    if bound["sign"] == "<=":
        return float("-inf"), float(bound["value"])
    if bound["sign"] == ">=":
        return float(bound["value"]), float("inf")
    if bound["sign"] == "=":
        return float(bound["value"]), float(bound["value"])
    least, most = float(bound["least"]), float(bound["most"])
    if least > most:
        raise _expectation_error(
            text, f"nothing lies between {least:g} and {most:g}", "Write the smaller one first"
        )
    return least, most


def _refuse_figure(text: str, figure: str, column: str, contract: Contract) -> None:
    """Raise BackfillError where the table of `contract`, or its `column`, has no such figure.
    `text`: the expectation as a person wrote it."""
    if column:
        _refuse_column(text, figure, column, contract)
    elif figure not in COUNTS:
        raise _expectation_error(text, f"{figure} is no figure of a table", GRAMMAR)
    if figure in (KEYS, CHANGED) and not contract.key:
        raise _expectation_error(
            text, f"{contract.name} has no key, by which rows would be told apart", f"Use {ROWS}"
        )
    if figure == CHANGED and column in (*contract.key, contract.day_column):
        raise _expectation_error(
            text, f"rows are matched by {column}, so that it never changes", "Name another column"
        )
    if figure in NUMERIC and not contract.column(column).kind.is_number:
        raise _expectation_error(
            text, f"{column} is no number", "Use nulls, distinct or share_changed"
        )


def _refuse_column(text: str, figure: str, column: str, contract: Contract) -> None:
    """Raise BackfillError where `figure` is none of a column, or the table has no such `column`."""
    if figure not in (CHANGED, *OF_COLUMNS):
        raise _expectation_error(text, f"{figure} is no figure of a column", GRAMMAR)
    if column not in contract.column_names:
        raise _expectation_error(
            text,
            f"{contract.name} has no column {column}",
            f"Name one of {', '.join(contract.column_names)}",
        )


def _expectation_error(text: str, why: str, fix: str) -> BackfillError:
    return BackfillError(f"the expectation {text[:80]!r}", why, "Nothing was planned", fix)


def read_expectations(path: Path) -> tuple[str, ...]:
    """The texts in `expect = ["…"]` of a TOML file; raises BackfillError where it has none."""
    try:
        body = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BackfillError(
            str(path), f"it is no TOML file: {error}", "Nothing was planned", "Correct it"
        ) from None
    texts = body.pop("expect", None)
    is_list = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    if body or not is_list:
        fix = 'Write one list: expect = ["staging.rows ±0"]'
        raise BackfillError(
            str(path), "it does not say what is expected", "Nothing was planned", fix
        )
    return tuple(texts)


def judge_expectations(
    lake: Lake, pipeline: Pipeline, chunk: PlanChunk, current: Progress
) -> Iterator[FigureOutcome]:
    """The plan's expectations over the days of a chunk. Raises BackfillError for files that are
    gone."""
    contracts = [pipeline.table(name).contract for name in current.plan.tables]
    for text in current.plan.policy.expect:
        wanted = parse_expectation(text, contracts)
        contract = pipeline.table(wanted.table).contract
        days = current.plan.keys(chunk, contract.name)
        if not days:
            continue  # a later chunk makes the month
        sides = [
            _rows_of_days(side, version, contract, days)
            for side, version in _both_sides(lake, contract, current)
        ]
        with errors_of_files(contract, "The gate was not passed"), duckdb_cursor(lake) as engine:
            row = engine.execute(f"SELECT {_figure_sql(wanted, contract, sides)}").fetchone()
        before, now = row or (None, None)
        yield FigureOutcome(wanted, _exact(before), _exact(now))


def _both_sides(
    lake: Lake, contract: Contract, current: Progress
) -> tuple[tuple[Lake, int], tuple[Lake, int]]:
    """The table before the plan, and the table now: each as a lake and a version. Before the plan's
    first write both are the table now."""
    writes = current.writes[contract.name]
    newest = current.states.view.table(contract.name).version
    before = table_before_plan(lake, contract, writes)
    # A candidate's table is compared with the lake beside it even before its first write.
    is_other_lake = before.lake is not lake
    version = before.version if writes.chunks or is_other_lake else newest
    return (before.lake, version), (lake, newest)


def _rows_of_days(lake: Lake, version: int, contract: Contract, days: Sequence[date]) -> str:
    """SQL of the rows of some days (ascending, without gaps between partitions) of a table at a
    version; of none where there was no table."""
    files = lake.store.data_files(contract, version, days) if exists_at(version) else []
    within = f"{quoted_name(contract.day_column)} BETWEEN DATE '{days[0]}' AND DATE '{days[-1]}'"
    return f"(SELECT * FROM ({rows_query(files, contract)}) WHERE {within})"


def _exact(figure: Figure) -> Figure:
    """A decimal as a fraction, any other figure as it is."""
    return Fraction(figure) if isinstance(figure, Decimal) else figure


def _figure_sql(wanted: Expectation, contract: Contract, sides: Sequence[str]) -> str:
    """SQL of the figure before and now, as two columns; `share_changed` has only the second, over
    keys of both sides."""
    if wanted.figure == CHANGED:
        columns = [quoted_name(column) for column in (contract.day_column, *contract.key)]
        same = " AND ".join(f"one.{c} IS NOT DISTINCT FROM two.{c}" for c in columns)
        moved = (
            f"one.{quoted_name(wanted.column)} IS DISTINCT FROM two.{quoted_name(wanted.column)}"
        )
        return (
            f"NULL, (SELECT avg(CAST({moved} AS INT)) FROM {sides[0]} one JOIN {sides[1]} two ON "
            f"{same})"
        )
    keys = ", ".join(map(quoted_name, contract.key))
    sql = {ROWS: "count(*)", KEYS: f"count(DISTINCT ({keys}))"}.get(wanted.figure)
    sql = sql or OF_COLUMNS[wanted.figure].format(quoted_name(wanted.column))
    return ", ".join(f"(SELECT {sql} FROM {side})" for side in sides)
