"""The check of a user's DataFrame for parts that Sail is known to compute otherwise, down to the frames of its inputs.

Not here: what differs (`sail_differences`). Spark Connect keeps a plan as a message, which is read here.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from backfill_assets.core.contracts import Contract
from backfill_assets.core.unsteady import keys_of
from backfill_assets.engine.sail_differences import (
    NAMES,
    Keys,
    Types,
    advised,
    differences,
    differences_in,
    multiplies,
    tables_read,
)

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


def plan_differences(frame: Any, inputs: Mapping[str, Any], contracts: Sequence[Contract]) -> dict[str, str]:
    """Return what a frame asks for, above its input frames, that is known to differ, with what to write instead."""
    known = frozenset(int(f._plan._plan_id) for f in inputs.values())
    parts = [*_walk(frame._plan.to_proto(frame._session.client).root, known)]
    renamed = {name.lower() for part in parts for name in _renamed(part)}
    types = {c.name.lower(): str(c.type) for contract in contracts for c in contract.columns}
    types = {name: kind for name, kind in types.items() if name not in renamed}
    keys = () if any(map(_multiplies, parts)) else keys_of(contracts)
    return advised(name for part in parts for name in _of_part(part, parts, types, keys))


def _walk(message: Any, known: Collection[int] = ()) -> Iterator[Any]:
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
            found = value.values() if is_map else value if field.is_repeated else [value]
            yield from (part for part in found if hasattr(part, "DESCRIPTOR"))


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
        return multiplies(_parsed(message.query if kind == "SQL" else message.expression))
    name = message.WhichOneof("rel_type") if kind == "Relation" else getattr(message, "function_name", "")
    return str(name).lower() in MULTIPLYING


def _of_part(message: Any, parts: Sequence[Any], types: Types, keys: Keys) -> Iterator[str]:
    kind = message.DESCRIPTOR.name
    if kind == "Relation":
        relation = str(message.WhichOneof("rel_type"))
        if relation in RELATIONS or (relation == "deduplicate" and not message.deduplicate.all_columns_as_keys):
            yield relation
    elif kind == "SQL":
        given = {p.subquery_alias.alias for p in parts if p.DESCRIPTOR.name == "Relation"}
        yield from (f"table {name}" for name in tables_read(_parsed(message.query)) if name not in given)
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
    """Return the syntax tree of a text; of NULL where it cannot be parsed, which `differences` names."""
    try:
        return sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return exp.Null()


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
        return _parsed(message.expression_string.expression)
    if kind == "window":
        return _window(message.window)
    below = (part for part in _walk(message) if part is not message)
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
