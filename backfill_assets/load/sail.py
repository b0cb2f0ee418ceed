"""Refusals on Sail, before anything runs: of what `lake.toml` declares and of users' DataFrames.

Lives here: the expressions of declared columns, and the plan that a Spark Connect client keeps of a DataFrame, down to
the frames of its inputs. Does not live here: what differs (`landing.sail_differences`). Tests hold what this package's
own tables compute on Sail to Spark.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from backfill_assets.core.column_types import EXACT
from backfill_assets.core.contracts import AGGREGATION, Contract
from backfill_assets.core.errors import ContractBroken, SettingsError
from backfill_assets.core.payload import OF_EVERY_EVENT
from backfill_assets.core.unsteady import keys_of
from backfill_assets.engine.confs import SAIL
from backfill_assets.lake.label_calls import label_calls
from backfill_assets.lake.model import Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.landing.sail_differences import (
    DECIMAL,
    DOUBLE,
    NAMES,
    Types,
    advice,
    advised,
    culprit,
    differences,
    differences_in,
    kind_in,
    multiplies,
    tables_read,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Parts of a plan that take any of several rows, run Python or read by themselves.
RELATIONS = frozenset([
    "limit", "offset", "tail", "sample", "read", "unpivot", "map_partitions", "group_map", "co_group_map",
    "common_inline_user_defined_table_function",
])  # fmt: skip
MULTIPLYING = frozenset(["join", "set_op", "lateral_join", "explode", "explode_outer", "posexplode"])
OPERATORS: Mapping[str, type[Any]] = {
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div, "==": exp.EQ, "<=>": exp.NullSafeEQ, "and": exp.And,
    "or": exp.Or, ">": exp.GT, "<": exp.LT, ">=": exp.GTE, "<=": exp.LTE,
}  # fmt: skip
TYPE_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint", "bool": "boolean"}
FRAMES = {1: "ROWS", 2: "RANGE"}


@dataclass(frozen=True)
class Differing:
    """An expression of `lake.toml`: the tables computed by it, where it is written, and each name in it that is known
    to differ, with what to write instead ("": nothing)."""

    tables: tuple[str, ...]
    where: str
    names: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.where} in lake.toml (for {' and '.join(self.tables)})"


def refuse_settings(settings: LakeSettings, contracts: Collection[Contract], table: str = "") -> None:
    """Raise SettingsError if the lake is on Sail, and an expression that differs there computes one of these tables, or
    `table` alone."""
    if settings.spark.engine == SAIL:
        for found in differing_settings(settings, contracts):
            if not table or table in found.tables:
                raise SettingsError(str(found), culprit(found.names), "Nothing was done", advice(found.names))


def differing_settings(settings: LakeSettings, contracts: Collection[Contract]) -> list[Differing]:
    """Return the expressions that differ, of those by which one of these tables is computed."""
    maturing = _first_of(contracts, lambda contract: contract.matures_after_days is not None)
    found, types = list[Differing](), _types(settings, settings.features.source)
    for column in settings.features.columns:
        tables = _first_of(contracts, partial(_declares, column.name))
        where = f"[[features.columns]] {column.name}"
        found.append(Differing(tables, f"{where}: where", differences(column.where or "true", types)))
        found.append(Differing(tables, f"{where}: of", _of_aggregation(column.agg, column.of or "", types)))
    found += [Differing(maturing, *of) for of in _of_labels(settings)]
    return [f for f in found if f.names and f.tables]


def _first_of(contracts: Collection[Contract], fits: Callable[[Contract], bool]) -> tuple[str, ...]:
    """Return the tables that fit and have no input that does."""
    fit = {c.name for c in contracts if fits(c)}
    return tuple(c.name for c in contracts if c.name in fit and fit.isdisjoint(i.table for i in c.inputs))


def _declares(name: str, contract: Contract) -> bool:
    return any(c.name == name and AGGREGATION in c.tags for c in contract.columns)


def _of_labels(settings: LakeSettings) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield where the label is declared, with what differs; its aggregates are exact numbers to its condition."""
    types, labels = _types(settings, settings.labels.source), settings.labels
    if labels.label is None:
        measure = "" if labels.measure == "events" else labels.measure
        yield f'[labels] measure = "{labels.measure}"', _of_aggregation("sum", measure, types)
        return
    found, condition, done = dict[str, str](), "", 0
    for call in label_calls(labels.label):
        found |= _of_aggregation(call.agg, call.of.strip(" *"), types)
        condition, done = f"{condition}{labels.label[done : call.start]}CAST(1 AS {EXACT})", call.end
    yield "[labels] label", found | differences(condition + labels.label[done:], types)


def _of_aggregation(agg: str, of: str, types: Types) -> dict[str, str]:
    """Return what differs in the aggregation `agg` of the expression `of` ("": of the events themselves)."""
    found = differences(f"{agg}({of})" if of and agg in ("min", "max") else of or "true", types)
    kind = kind_in(of, types) if of else ""
    if agg == "distinct":
        found["distinct"] = ""
    elif kind == DOUBLE or (agg == "avg" and kind == DECIMAL):
        found[f"{agg} of {kind}"] = ""
    return found


def _types(settings: LakeSettings, source: str | None) -> Types:
    """Return the types of the columns that a section may name."""
    own = {c.name.lower(): c.type for c in settings.payload_of("", source) or ()}
    return {name: str(kind) for name, kind in OF_EVERY_EVENT.items()} | own


def refuse_plan(
    table: Table, frame: "DataFrame", inputs: Mapping[str, "DataFrame"], contracts: Mapping[str, Contract], engine: str
) -> None:
    """Raise ContractBroken if the engine is Sail and a user's frame over `inputs` asks for what differs there."""
    if engine != SAIL or not table.brings_code:
        return
    names = plan_differences(frame, inputs, [contracts[name] for name in inputs])
    if names:
        raise ContractBroken(
            f"the transform of {table.name}", culprit(names), "It was not run, and nothing was written", advice(names)
        )


def plan_differences(
    frame: "DataFrame", inputs: Mapping[str, "DataFrame"], contracts: list[Contract]
) -> dict[str, str]:
    """Return what a frame asks for, above its input frames, that is known to differ, with what to write instead."""
    plan: Any = frame
    known = frozenset(int(f._plan._plan_id) for f in [*map(_untyped, inputs.values())])
    parts = [*_walk(plan._plan.to_proto(plan._session.client).root, known)]
    types = {c.name.lower(): str(c.type) for contract in contracts for c in contract.columns}
    renamed = {name.lower() for part in parts for name in _renamed(part)}
    types = {name: kind for name, kind in types.items() if name not in renamed}
    keys = () if any(map(_multiplies, parts)) else keys_of(contracts)
    return advised(name for part in parts for name in _of_part(part, parts, types, keys))


def _untyped(frame: Any) -> Any:
    return frame


def _walk(message: Any, known: frozenset[int]) -> Iterator[Any]:
    """Yield a message of a plan and all below it, without the relations whose plan ids are `known`."""
    if message.DESCRIPTOR.name == "Relation" and message.common.plan_id in known:
        return
    yield message
    for part in _parts(message):
        yield from _walk(part, known)


def _parts(message: Any) -> Iterator[Any]:
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            is_map = field.message_type.GetOptions().map_entry
            for part in value.values() if is_map else value if field.is_repeated else [value]:
                if hasattr(part, "DESCRIPTOR"):
                    yield part


def _renamed(message: Any) -> Iterator[str]:
    """Yield the names that a message gives to something else than the column of that name."""
    kind = message.DESCRIPTOR.name
    if kind == "Alias" and [n.lower() for n in message.name] != [_tree(message.expr).name.lower()]:
        yield from message.name
    elif kind == "ToDF":
        yield from message.column_names
    elif kind == "WithColumnsRenamed":
        yield from (r.new_col_name for r in message.renames)


def _multiplies(message: Any) -> bool:
    kind = message.DESCRIPTOR.name
    if kind in ("SQL", "ExpressionString"):
        parsed = _parsed(message.query if kind == "SQL" else message.expression)
        return parsed is None or multiplies(parsed)
    name = message.WhichOneof("rel_type") if kind == "Relation" else getattr(message, "function_name", "")
    return str(name).lower() in MULTIPLYING


def _of_part(message: Any, parts: list[Any], types: Types, keys: Any) -> Iterator[str]:
    """Yield what one message of a plan asks for that differs; `parts` are all messages of the plan."""
    kind = message.DESCRIPTOR.name
    if kind == "Relation":
        relation = str(message.WhichOneof("rel_type"))
        any_row = relation == "deduplicate" and not message.deduplicate.all_columns_as_keys
        if relation in RELATIONS or any_row:
            yield relation
    elif kind == "SQL":
        given = {p.subquery_alias.alias for p in parts if p.DESCRIPTOR.name == "Relation"}
        yield from (f"table {name}" for name in tables_read(_parsed(message.query) or exp.Null()) if name not in given)
        yield from differences(message.query, types, keys)
    elif kind == "ExpressionString":
        yield from differences(message.expression, types, keys)
    elif kind == "UnresolvedFunction" and (message.is_user_defined_function or message.function_name.lower() in NAMES):
        yield message.function_name.lower()
    elif kind == "CommonInlineUserDefinedFunction":
        yield "a function in Python"
    if kind != "Expression":  # an expression is judged as a whole, below the part that holds it
        for part in (p for p in _parts(message) if p.DESCRIPTOR.name == "Expression"):
            yield from differences_in(exp.Paren(this=_tree(part)), types, keys)


def _parsed(text: str) -> Any:
    try:
        return sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return None


def _tree(message: Any) -> Any:
    """Return the syntax tree of an expression of a plan; parts without a meaning for the list become tuples."""
    kind = message.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        return exp.column(message.unresolved_attribute.unparsed_identifier.rpartition(".")[2].strip("`"))
    if kind == "literal":
        return _literal(message.literal)
    if kind == "cast":
        named = message.cast.type_str or str(message.cast.type.WhichOneof("kind"))
        return exp.cast(_tree(message.cast.expr), TYPE_NAMES.get(named, named), dialect="spark")
    if kind == "alias":
        return _tree(message.alias.expr)
    if kind == "unresolved_function":
        return _call(message.unresolved_function)
    if kind == "expression_string":
        return _parsed(message.expression_string.expression) or exp.Null()
    if kind == "window":
        return _window(message.window)
    below = (part for part in _walk(message, frozenset()) if part is not message)
    return exp.Tuple(expressions=[_tree(part) for part in below if part.DESCRIPTOR.name == "Expression"])


def _literal(literal: Any) -> Any:
    kind = str(literal.WhichOneof("literal_type"))
    if kind == "string":
        return exp.Literal.string(literal.string)
    if kind in ("byte", "short", "integer", "long"):
        return exp.Literal.number(getattr(literal, kind))
    typed = kind in ("double", "float", "decimal", "date", "timestamp", "binary", "boolean")
    return exp.cast(exp.Null(), kind) if typed else exp.Null()


def _call(function: Any) -> Any:
    """Return a call as the parser would have made it; `when` is a CASE."""
    name, parts = function.function_name.lower(), [_tree(part) for part in function.arguments]
    if name == "when":
        ifs = [exp.If(this=c, true=v) for c, v in zip(parts[::2], parts[1::2], strict=False)]
        return exp.Case(ifs=ifs, default=parts[-1] if len(parts) % 2 else None)
    if name == "in":
        return exp.In(this=parts[0], expressions=parts[1:])
    if name in OPERATORS and len(parts) == 2:
        return OPERATORS[name](this=parts[0], expression=parts[1])
    try:
        return exp.func(name, *parts, dialect="spark")
    except (SqlglotError, ValueError, TypeError, IndexError):  # not as many arguments as the parser knows
        return exp.Anonymous(this=name, expressions=parts)


def _window(window: Any) -> Any:
    order = [exp.Ordered(this=_tree(o.child)) for o in window.order_spec]
    frame = FRAMES.get(window.frame_spec.frame_type)
    return exp.Window(
        this=_tree(window.window_function), partition_by=[_tree(p) for p in window.partition_spec], over="OVER",
        order=exp.Order(expressions=order) if order else None,
        spec=exp.WindowSpec(kind=frame) if frame else None,
    )  # fmt: skip
