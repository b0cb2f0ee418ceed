"""Expressions in `lake.toml`: Spark SQL over one event, parsed, checked and typed before anything
runs.

Types follow Spark's rules; an unknown type is not guessed: a cast states it. (sqlglot's
`annotate_types` gives others: DECIMAL(18,2) for DECIMAL(18,2) + 1, DOUBLE for 1.5, INT for
3000000000.) The compiled text keeps the written tokens; only casts become casts that give NULL
(`intake.select`). Not here: the computation (`transforms`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from backfill_assets.intake.select import beyond_row_reason, select_expressions
from backfill_assets.intake.session_free import clock_fault, guarded_text
from backfill_assets.kernel.core.column_types import (
    DECIMAL,
    GREATEST_PRECISION,
    ColumnType,
    read_type,
)
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.pipeline.columns import declaration_error

RAISING: dict[type, str] = {
    exp.Div: "try_divide(a, b)",
    exp.Mod: "try_mod(a, b)",
    exp.IntDiv: "cast(try_divide(a, b) AS BIGINT)",
}
ADVICE = "Write Spark SQL over the columns of one event, e.g. total, or coalesce(total, 0)"


@dataclass(frozen=True)
class Expression:
    """A checked expression."""

    text: str  # as written
    sql: str  # as compiled for Spark
    type: ColumnType | None  # None: unknown
    columns: tuple[str, ...]  # that it names


def read_expression(text: str, columns: Mapping[str, ColumnType], where: str) -> Expression:
    """Parse and check an expression over these columns. Raises SettingsError naming `where` and the
    forbidden part."""
    parsed = parse_expression(text, where)
    named = check_expression(parsed, columns, where)
    types = {name.lower(): str(kind) for name, kind in columns.items()}
    if why := clock_fault(text, types):
        raise declaration_error(where, why, ADVICE)
    (sql,) = (guarded_text(e, types) for e in _forgiving_texts(text, where))
    try:
        kind: ColumnType | None = expression_type(parsed, columns)
    except UnknownType:
        kind = None
    return Expression(text, sql, kind, named)


def parse_expression(text: str, where: str) -> exp.Expr:
    """The syntax tree of exactly one expression. Raises SettingsError for anything else."""
    try:
        parsed = sqlglot.parse_one(text, read="spark")
    except SqlglotError as error:
        raise declaration_error(
            where, f"it is no expression: {str(error).splitlines()[0]}", ADVICE
        ) from None
    if isinstance(parsed, exp.Alias | exp.Aliases | exp.Tuple):
        raise declaration_error(
            where, f"{text} is more than one value; its name is the column's", ADVICE
        )
    if len(_forgiving_texts(text, where)) != 1:
        raise declaration_error(where, f"{text} is more than one value", ADVICE)
    return parsed


def check_expression(
    parsed: exp.Expr, columns: Mapping[str, ColumnType], where: str
) -> tuple[str, ...]:
    """The columns that a tree names, in their own spelling. Raises SettingsError for what it may
    not hold."""
    for node in parsed.walk():
        why = beyond_row_reason(node, may_raise=False) or _why_it_raises(node)
        if why:
            raise declaration_error(where, why, ADVICE)
    known = {name.lower(): name for name in columns}
    named = dict.fromkeys(c.sql("spark") for c in parsed.find_all(exp.Column))
    plain = {n: n.strip("`").lower() for n in named}
    unknown = [n for n, name in plain.items() if name not in known]
    if unknown:
        raise declaration_error(
            where,
            f"there is no column {', '.join(unknown)}",
            f"Name columns of the payload: {', '.join(columns)}",
        )
    return tuple(dict.fromkeys(known[name] for name in plain.values()))


def _why_it_raises(node: exp.Expr) -> str:
    """Why a part of an expression may end the query with an error, or gives no value; empty where
    it gives one."""
    sql = node.sql("spark")
    if isinstance(node, tuple(RAISING)) and not _is_number_but_zero(node.expression):
        return (
            f"{sql} would end the whole job at the first zero, where {RAISING[type(node)]} gives "
            "NULL"
        )
    if isinstance(node, exp.Bracket):
        return (
            f"{sql} would end the whole job where the array is shorter; get(array, index), from "
            "0, gives NULL"
        )
    is_no_value = isinstance(node, exp.Star | exp.Placeholder | exp.Parameter)
    return f"{sql} is no value" if is_no_value else ""


def _is_number_but_zero(node: exp.Expr) -> bool:
    """Whether a divisor is a number that is written out and not 0."""
    is_number = isinstance(node, exp.Literal) and not node.is_string
    return is_number and float(node.this) != 0


def _forgiving_texts(text: str, where: str) -> tuple[str, ...]:
    """The expressions that a text holds, with casts that give NULL. Raises SettingsError naming
    `where` for a text that cannot be one."""
    try:
        return select_expressions(text)
    except SettingsError as error:
        raise declaration_error(where, error.culprit, ADVICE) from None


BOOLEAN, BIGINT, DOUBLE, STRING, DATE = map(
    ColumnType, ("BOOLEAN", "BIGINT", "DOUBLE", "STRING", "DATE")
)
INT, INT_MOST = ColumnType("INT"), 2**31 - 1
INT_DIGITS = {"INT": 10, "BIGINT": 20}  # as Spark widens them to decimals
CONDITIONS = (
    exp.Predicate,
    exp.Connector,
    exp.Not,
    exp.Boolean,
    exp.RegexpLike,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
)
TEXTS = (
    exp.Lower,
    exp.Upper,
    exp.Trim,
    exp.Substring,
    exp.Concat,
    exp.ConcatWs,
    exp.DPipe,
    exp.RegexpExtract,
    exp.RegexpReplace,
    exp.Replace,
    exp.Reverse,
    exp.Left,
    exp.Right,
    exp.Initcap,
)
COUNTS = (
    exp.Length,
    exp.Year,
    exp.Month,
    exp.Day,
    exp.Hour,
    exp.Minute,
    exp.Second,
    exp.DateDiff,
    exp.ArraySize,
)
CHOICES = (exp.Coalesce, exp.Greatest, exp.Least)


class UnknownType(ValueError):
    """An expression whose type is unknown here."""


def expression_type(node: exp.Expr, columns: Mapping[str, ColumnType]) -> ColumnType:
    """The type of a tree over these columns. Raises UnknownType."""
    if isinstance(node, exp.Column):
        return {name.lower(): kind for name, kind in columns.items()}[node.name.lower()]
    for kinds, rule in _RULES:
        if isinstance(node, kinds):
            return rule(node, lambda part: expression_type(part, columns))
    raise UnknownType(node.sql("spark"))


_TypeOf = Callable[[exp.Expr], ColumnType]  # gives the type of a part of an expression


def _type_of_literal(node: exp.Expr, type_of: _TypeOf) -> ColumnType:
    """The type of a number or a text that is written out: of a number with a point a decimal of
    just its digits, with an exponent DOUBLE."""
    text = str(node.this)
    if node.args.get("is_string"):
        return STRING
    if "e" in text.lower():
        return DOUBLE
    whole, point, fraction = text.partition(".")
    if not point:
        return INT if int(text) <= INT_MOST else BIGINT
    return _decimal_type(max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))


def _type_of_cast(node: exp.Expr, _: _TypeOf) -> ColumnType:
    """The type that a cast names. Raises UnknownType for one that no column has."""
    try:
        return read_type(node.args["to"].sql("spark"))
    except ValueError as error:
        raise UnknownType(str(error)) from None


def _type_of_choice(node: exp.Expr, type_of: _TypeOf) -> ColumnType:
    """The type of `coalesce`, `greatest` or `least`: the common one of its arguments."""
    return _common_type([node.this, *node.expressions], type_of)


def _type_of_case(node: exp.Expr, type_of: _TypeOf) -> ColumnType:
    """The type of CASE or `if`: the common one of its results."""
    results = [i.args.get("true") for i in node.args.get("ifs", [])] or [node.args.get("true")]
    otherwise = node.args.get("default") or node.args.get("false")
    return _common_type([e for e in (*results, otherwise) if e is not None], type_of)


def _common_type(parts: list[exp.Expr], type_of: _TypeOf) -> ColumnType:
    """The widest type of the parts, NULLs aside. Raises UnknownType where there is none."""
    known = [type_of(p) for p in parts if not isinstance(p, exp.Null)]
    if not known:
        raise UnknownType("only NULL")
    return reduce(_wider_type, known)


def _wider_type(one: ColumnType, other: ColumnType) -> ColumnType:
    """The type that holds the values of both, as Spark chooses it. Raises UnknownType for types
    that are neither equal nor numbers."""
    if one == other:
        return one
    if not (one.is_number and other.is_number):
        raise UnknownType(f"{one} and {other}")
    if DOUBLE in (one, other):
        return DOUBLE
    if DECIMAL not in (one.kind, other.kind):
        return BIGINT
    a, b = _as_decimal(one), _as_decimal(other)
    whole = max(a.precision - a.scale, b.precision - b.scale)  # digits before the point
    scale = max(a.scale, b.scale)
    return _decimal_type(whole + scale, scale)


def _type_of_arithmetic(node: exp.Expr, type_of: _TypeOf) -> ColumnType:
    """The type of a sum, difference or product. Of decimals a product has the digits of both and
    one more, a sum room for a carry, as in Spark."""
    one, other = type_of(node.this), type_of(node.expression)
    if not (one.is_number and other.is_number):
        raise UnknownType(node.sql("spark"))
    is_of_decimals = DOUBLE not in (one, other) and DECIMAL in (one.kind, other.kind)
    if not is_of_decimals:
        return _wider_type(one, other)
    a, b = _type_of_operand(node.this, one), _type_of_operand(node.expression, other)
    if isinstance(node, exp.Mul | exp.SafeMultiply):
        return _decimal_type(a.precision + b.precision + 1, a.scale + b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)  # digits before the point
    scale = max(a.scale, b.scale)
    return _decimal_type(whole + scale + 1, scale)


def _type_of_quotient(node: exp.Expr, type_of: _TypeOf) -> ColumnType:
    """The type of a quotient. Spark's digits for decimals are not reproduced here: a cast states
    them."""
    if DECIMAL in (type_of(node.this).kind, type_of(node.expression).kind):
        raise UnknownType(node.sql("spark"))
    return DOUBLE


def _as_decimal(kind: ColumnType) -> ColumnType:
    """The decimal that holds every value of a whole number's type; a decimal as it is."""
    return kind if kind.kind == DECIMAL else _decimal_type(INT_DIGITS[kind.kind], 0)


def _type_of_operand(node: exp.Expr, kind: ColumnType) -> ColumnType:
    """The decimal type of an operand; a whole number that is written out has just its digits."""
    is_written_out = isinstance(node, exp.Literal) and kind.kind in INT_DIGITS
    return _decimal_type(len(str(node.this)), 0) if is_written_out else _as_decimal(kind)


def _decimal_type(precision: int, scale: int) -> ColumnType:
    """The decimal of so many digits, `scale` of them behind the point. Raises UnknownType for more
    than one can have: Spark would cut digits off."""
    if precision > GREATEST_PRECISION:
        raise UnknownType(f"{precision} digits")
    return ColumnType(DECIMAL, precision, scale)


def _always_of(kind: ColumnType) -> Callable[[exp.Expr, _TypeOf], ColumnType]:
    """The rule of what has one type, whatever its arguments."""
    return lambda node, type_of: kind


_RULES: tuple[tuple[tuple[type, ...], Callable[[exp.Expr, _TypeOf], ColumnType]], ...] = (
    ((exp.Literal,), _type_of_literal),
    ((exp.Cast,), _type_of_cast),
    (CONDITIONS, _always_of(BOOLEAN)),
    ((exp.Paren, exp.Neg, exp.Abs, exp.Nullif), lambda node, type_of: type_of(node.this)),
    (
        (exp.Add, exp.Sub, exp.Mul, exp.SafeAdd, exp.SafeSubtract, exp.SafeMultiply),
        _type_of_arithmetic,
    ),
    ((exp.Div, exp.SafeDivide), _type_of_quotient),
    ((exp.IntDiv,), _always_of(BIGINT)),
    (CHOICES, _type_of_choice),
    ((exp.Case, exp.If), _type_of_case),
    (TEXTS, _always_of(STRING)),
    (COUNTS, _always_of(BIGINT)),
)
