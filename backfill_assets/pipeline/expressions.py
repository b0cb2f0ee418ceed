"""Expressions in `lake.toml`: Spark SQL over one event, parsed and checked before anything runs.

Not here: types (`lake.expression_types`) and the computation (`transforms`). The compiled text keeps the tokens of the
written one; only casts are replaced by casts that give NULL instead of ending the job (`landing.select`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from backfill_assets.core.column_types import ColumnType
from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.expression_types import Untold, type_of
from backfill_assets.landing.row_functions import GENERATORS, KNOWN, OF_MANY_ROWS, SUBQUERIES, called
from backfill_assets.landing.select import expressions

RAISING: dict[type, str] = {
    exp.Div: "try_divide(a, b)",
    exp.Mod: "try_mod(a, b)",
    exp.IntDiv: "cast(try_divide(a, b) AS BIGINT)",
}
ADVICE = "Write Spark SQL over the columns of one event, e.g. total, or coalesce(total, 0)"


@dataclass(frozen=True)
class Expression:
    """A checked expression: as written, as compiled for Spark, its type (None: unknown), and the columns it names."""

    text: str
    sql: str
    type: ColumnType | None
    columns: tuple[str, ...]


def read_expression(text: str, columns: Mapping[str, ColumnType], where: str) -> Expression:
    """Parse and check an expression over these columns. Raises SettingsError naming `where` and the forbidden part."""
    parsed = parse(text, where)
    named = check(parsed, columns, where)
    (sql,) = _forgiving(text, where)
    try:
        kind: ColumnType | None = type_of(parsed, columns)
    except Untold:
        kind = None
    return Expression(text, sql, kind, named)


def parse(text: str, where: str) -> exp.Expr:
    """The syntax tree of exactly one expression. Raises SettingsError for anything else."""
    try:
        parsed = sqlglot.parse_one(text, read="spark")
    except SqlglotError as error:
        raise refused(where, f"it is no expression: {str(error).splitlines()[0]}") from None
    inner = parsed.find(*SUBQUERIES)
    if inner is not None:
        raise refused(where, f"{inner.sql('spark')} is a subquery")
    if isinstance(parsed, exp.Alias | exp.Aliases | exp.Tuple):
        raise refused(where, f"{text} is more than one value; its name is the column's")
    if len(_forgiving(text, where)) != 1:
        raise refused(where, f"{text} is more than one value")
    return parsed


def check(parsed: exp.Expr, columns: Mapping[str, ColumnType], where: str) -> tuple[str, ...]:
    """The columns that a tree names, in their own spelling. Raises SettingsError for what it may not hold."""
    for node in parsed.walk():
        for culprit, advice in _faults(node):
            raise refused(where, culprit, advice)
    known = {name.lower(): name for name in columns}
    named = dict.fromkeys(c.sql("spark") for c in parsed.find_all(exp.Column))
    plain = {n: n.strip("`").lower() for n in named}
    strangers = [n for n, name in plain.items() if name not in known]
    if strangers:
        raise refused(
            where, f"there is no column {', '.join(strangers)}", f"Name columns of the payload: {', '.join(columns)}"
        )
    return tuple(dict.fromkeys(known[name] for name in plain.values()))


def refused(where: str, culprit: str, advice: str = ADVICE) -> SettingsError:
    """The error for an expression at `where` in lake.toml."""
    return SettingsError(f"{where} in lake.toml", culprit, "Nothing was done", advice)


def _faults(node: exp.Expr) -> Iterator[tuple[str, str]]:
    said = node.sql("spark")
    name = called(node)
    if isinstance(node, exp.Window | exp.AggFunc) or name in OF_MANY_ROWS:
        yield f"{said} looks at more than one event", "Aggregate with `agg`, and write `of` and `where` over one event"
    elif isinstance(node, GENERATORS):
        yield f"{said} makes more than one row of an event", ADVICE
    elif name.startswith("current_") or (isinstance(node, exp.Anonymous) and name not in KNOWN):
        yield (
            f"{name} is no function that gives the same for the same row",
            "Use a built-in function of Spark; what needs Python belongs into the delivery, or a table of your own",
        )
    elif isinstance(node, tuple(RAISING)) and not _is_number_but_zero(node.expression):
        yield f"{said} would end the whole job at the first zero", f"Write {RAISING[type(node)]}, which gives NULL"
    elif isinstance(node, exp.Bracket):
        yield f"{said} would end the whole job where the array is shorter", "Write get(array, index), from 0"
    elif isinstance(node, exp.Star | exp.Placeholder | exp.Parameter):
        yield f"{said} is no value", ADVICE


def _is_number_but_zero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) != 0


def _forgiving(text: str, where: str) -> tuple[str, ...]:
    try:
        return expressions(text)
    except SettingsError as error:
        raise refused(where, error.culprit) from None
