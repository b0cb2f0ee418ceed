"""Before a user's transform runs on the second engine: what it asks for is read from its plan, and refused by name.

Lives here: walking the plan that a Spark Connect client keeps of a DataFrame, down to the frames of the inputs, which
are ours. Does not live here: the lists (`core.second_engine`) and reading SQL (`lake.second_engine`). What this
package's own tables do is held to Spark by its tests instead.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.second_engine import (
    REFUSED,
    Term,
    Window,
    advised,
    kind_of,
    unequal,
    unequal_window,
)
from backfill_assets.core.unsteady import keys_of
from backfill_assets.engine.confs import SAIL
from backfill_assets.lake.model import Table
from backfill_assets.lake.second_engine import advice, multiplies, tables_read, told, unequal_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What a plan may be made of; what takes any of several rows, runs Python or reads by itself is not among it.
RELATIONS = frozenset([
    "project", "filter", "join", "set_op", "aggregate", "sql", "local_relation", "sort", "subquery_alias",
    "to_df", "with_columns_renamed", "with_columns", "with_relations", "drop", "repartition",
    "repartition_by_expression", "hint", "range",
])  # fmt: skip
EXPRESSIONS = frozenset([
    "literal", "unresolved_attribute", "unresolved_function", "expression_string", "unresolved_star", "alias",
    "cast", "sort_order", "lambda_function", "unresolved_named_lambda_variable", "call_function",
    "unresolved_extract_value", "window",
])  # fmt: skip
MULTIPLYING = frozenset({"join", "set_op"})  # and functions that make rows of a row
ROW_MAKERS = frozenset({"explode", "explode_outer", "posexplode"})
FRAMES = {0: "", 1: "rows", 2: "ranges"}
LITERALS = {"string": "STRING", "double": "DOUBLE", "float": "DOUBLE", "decimal": "DECIMAL", "null": "NULL"}


def refuse_unequal(
    table: Table, frame: "DataFrame", inputs: Mapping[str, "DataFrame"], contracts: Mapping[str, Contract], engine: str
) -> None:
    """Raise ContractBroken where the engine is the second one and a user's frame asks for what it is known to
    compute otherwise than Spark; names all of it. Nothing is computed."""
    if engine != SAIL or not table.brings_code:
        return
    names = unequal_in_plan(frame, inputs, [contracts[name] for name in inputs])
    if names:
        raise ContractBroken(
            f"the transform of {table.name}", told(names), "It was not run, and nothing was written", advice(names)
        )


def unequal_in_plan(frame: "DataFrame", inputs: Mapping[str, "DataFrame"], contracts: list[Contract]) -> dict[str, str]:
    """What a frame asks for that is known to differ, above its input frames: each name with what to write
    instead ("": nothing)."""
    plan: Any = frame
    root = plan._plan.to_proto(plan._session.client).root
    known = frozenset(_plan_id(f) for f in inputs.values())
    types = {c.name.lower(): str(c.type).upper() for contract in contracts for c in contract.columns}
    anew = set(_named_anew(root, known))
    types = {n: t for n, t in types.items() if n not in anew}
    whole = not _multiplies(root, known)
    keys = tuple(k for k in keys_of(contracts) if whole and k <= types.keys())
    return advised(_of_message(root, known, _Known(types, keys, frozenset(_given(root, known)))))


def _plan_id(frame: Any) -> int:
    return int(frame._plan._plan_id)


def _within(message: Any, known: frozenset[int]) -> Iterator[Any]:
    """The parts right below a part of a plan; input frames are not looked into."""
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        many = value.values() if field.message_type.GetOptions().map_entry else value
        for part in many if field.is_repeated else [value]:
            ours = getattr(part, "DESCRIPTOR", None)
            if ours is not None and not (ours.name == "Relation" and part.common.plan_id in known):
                yield part


@dataclass(frozen=True)
class _Known:
    """Types of columns that are as an input has them, sets of them that tell its rows apart, what queries may read."""

    types: Mapping[str, str]
    keys: tuple[frozenset[str], ...]
    given: frozenset[str]  # names by which a query reads the frames that it was given; any other is a view, or a file


def _multiplies(message: Any, known: frozenset[int]) -> bool:
    """Whether a plan may have a row of an input more than once, or cannot be told not to."""
    kind = message.DESCRIPTOR.name
    if kind == "SQL":
        return multiplies(message.query)
    if kind == "Relation" and message.WhichOneof("rel_type") in MULTIPLYING:
        return True
    if kind == "ExpressionString" and multiplies(message.expression):
        return True
    if kind == "UnresolvedFunction" and message.function_name.lower() in ROW_MAKERS:
        return True
    return any(_multiplies(part, known) for part in _within(message, known))


def _of_message(message: Any, known: frozenset[int], of: _Known) -> Iterator[str]:
    """What a part of a plan and all parts below it ask for."""
    kind = message.DESCRIPTOR.name
    if kind == "Relation":
        chosen = str(message.WhichOneof("rel_type"))
        is_distinct = chosen == "deduplicate" and message.deduplicate.all_columns_as_keys
        if chosen not in RELATIONS and not is_distinct:
            yield chosen
    elif kind == "SQL":
        yield from (f"table {name}" for name in tables_read(message.query) if name not in of.given)
        yield from unequal_names(message.query, of.types, of.keys)
    elif kind == "Expression":
        yield from _of_expression(message, of)
        return
    for part in _within(message, known):
        yield from _of_message(part, known, of)


def _of_expression(message: Any, of: _Known) -> Iterator[str]:
    yield from unequal(_term(message), of.types)
    for part in _all(message):
        kind = str(part.WhichOneof("expr_type"))
        if kind not in EXPRESSIONS:
            yield kind
        elif kind == "unresolved_function":
            called = part.unresolved_function
            name = called.function_name.lower()
            if called.is_user_defined_function or name in REFUSED:
                yield name
        elif kind == "window":
            yield from unequal_window(_window(part.window), of.types, of.keys)
        elif kind == "call_function":
            yield part.call_function.function_name
        elif kind == "expression_string":
            yield from unequal_names(part.expression_string.expression, of.types, of.keys)


def _all(message: Any) -> Iterator[Any]:
    """An expression and all within it."""
    if message.DESCRIPTOR.name == "Expression":
        yield message
    for part in _within(message, frozenset()):
        yield from _all(part)


def _named_anew(message: Any, known: frozenset[int]) -> Iterator[str]:
    """Names that a plan gives to something else than the column of that name, wherever it does."""
    if message.DESCRIPTOR.name == "Alias":
        named = [n.lower() for n in message.name]
        if named != [_column(message.expr)]:
            yield from named
    elif message.DESCRIPTOR.name in ("ToDF", "WithColumnsRenamed"):
        yield from (n.lower() for n in getattr(message, "column_names", ()))
        yield from (r.new_col_name.lower() for r in getattr(message, "renames", ()))
    for part in _within(message, known):
        yield from _named_anew(part, known)


def _given(message: Any, known: frozenset[int]) -> Iterator[str]:
    if message.DESCRIPTOR.name == "WithRelations":
        yield from (r.subquery_alias.alias for r in message.references)
    for part in _within(message, known):
        yield from _given(part, known)


def _column(expression: Any) -> str:
    if expression.WhichOneof("expr_type") != "unresolved_attribute":
        return ""
    return str(expression.unresolved_attribute.unparsed_identifier).rpartition(".")[2].strip("`").lower()


def _term(message: Any) -> Term:
    """The neutral form of an expression of a plan."""
    kind = message.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        return Term("column", _column(message))
    if kind == "literal":
        named = str(message.literal.WhichOneof("literal_type"))
        return Term("literal", LITERALS.get(named, "INTERVAL" if "interval" in named else "INT"))
    if kind == "cast":
        return Term("cast", _cast_to(message.cast), (_term(message.cast.expr),))
    if kind == "alias":
        return _term(message.alias.expr)
    if kind == "unresolved_function":
        called = message.unresolved_function
        name, parts = called.function_name.lower(), tuple(map(_term, called.arguments))
        if name in ("when", "if"):
            conditions = parts[0 : len(parts) // 2 * 2 : 2] if name == "when" else parts[:1]
            branches = (*parts[1::2], *parts[-1:]) if len(parts) % 2 else parts[1::2]
            return Term("call", "", (Term("call", name, branches if name == "when" else parts[1:]), *conditions))
        return Term("call", name, parts)
    if kind == "expression_string":
        return Term("column", "?")  # read as SQL besides; here of no known type
    return Term("call", "", tuple(_term(p) for p in _expressions_below(message)))


def _expressions_below(message: Any) -> Iterator[Any]:
    for part in _within(message, frozenset()):
        if part.DESCRIPTOR.name == "Expression":
            yield part
        else:
            yield from _expressions_below(part)


def _window(window: Any) -> Window:
    order = tuple(_term(o.child) for o in window.order_spec)
    frame = FRAMES.get(window.frame_spec.frame_type, "ranges")
    return Window(_term(window.window_function), tuple(map(_term, window.partition_spec)), order, frame)


def _cast_to(cast: Any) -> str:
    """The kind of type that a cast names."""
    if cast.WhichOneof("cast_to_type") == "type_str":
        return kind_of(cast.type_str)
    return kind_of(str(cast.type.WhichOneof("kind")))
