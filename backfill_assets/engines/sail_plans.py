"""The check of a user's DataFrame for parts that Sail is known to compute otherwise, down to the
frames of its inputs.

Not here: what differs (`sail_differences`). Spark Connect keeps a plan as a message; its
expressions are judged as SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from backfill_assets.engines.abilities import identifying_columns
from backfill_assets.engines.frames import message_parts, plan_messages
from backfill_assets.engines.sail_differences import (
    Keys,
    Types,
    multiplies_rows,
    sql_differences,
    tables_read,
    with_advice,
)
from backfill_assets.kernel.core.contracts import Contract

# Parts of a plan that take any of several rows, run Python or read by themselves.
RELATIONS = frozenset(
    [
        "limit",
        "offset",
        "tail",
        "sample",
        "read",
        "unpivot",
        "map_partitions",
        "group_map",
        "co_group_map",
        "common_inline_user_defined_table_function",
    ]
)
MULTIPLYING = frozenset(
    ["join", "set_op", "lateral_join", "explode", "explode_outer", "posexplode"]
)
TYPE_NAMES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "bool": "boolean",
}
FRAMES = {1: " ROWS UNBOUNDED PRECEDING", 2: " RANGE UNBOUNDED PRECEDING"}


def plan_differences(
    frame: Any, inputs: Mapping[str, Any], contracts: Sequence[Contract]
) -> dict[str, str]:
    """Return what a frame asks for, above its input frames, that is known to differ, with what to
    write instead."""
    found = [*plan_messages(frame, inputs)]
    renamed = {name.lower() for part in found for name in _new_names(part)}
    types = {c.name.lower(): str(c.type) for contract in contracts for c in contract.columns}
    types = {name: kind for name, kind in types.items() if name not in renamed}
    keys = () if any(map(_multiplies_rows, found)) else identifying_columns(contracts)
    return with_advice(
        name for part in found for name in _differences_in_part(part, found, types, keys)
    )


def _new_names(message: Any) -> Iterator[str]:
    """Yield the names that a message gives to something else than the column of that name."""
    kind = message.DESCRIPTOR.name
    if kind == "Alias":
        column = _expression_sql(message.expr).strip("`").lower()
        if [name.lower() for name in message.name] != [column]:
            yield from message.name
    elif kind == "ToDF":
        yield from message.column_names
    elif kind == "WithColumnsRenamed":
        yield from (r.new_col_name for r in message.renames)


def _multiplies_rows(message: Any) -> bool:
    """Return whether this message of a plan, without those below it, may give a row of an input
    more than once; then the keys of inputs identify no row any more."""
    kind = message.DESCRIPTOR.name
    if kind == "SQL":
        return multiplies_rows(_syntax_tree(message.query))
    if kind == "ExpressionString":
        return multiplies_rows(_syntax_tree(message.expression))
    if kind == "Relation":
        return message.WhichOneof("rel_type") in MULTIPLYING
    return getattr(message, "function_name", "").lower() in MULTIPLYING


def _differences_in_part(
    message: Any, every: Sequence[Any], types: Types, keys: Keys
) -> Iterator[str]:
    kind = message.DESCRIPTOR.name
    if kind == "Relation":
        relation = str(message.WhichOneof("rel_type"))
        takes_any_row = relation == "deduplicate" and not message.deduplicate.all_columns_as_keys
        if relation in RELATIONS or takes_any_row:
            yield relation
        for expression in _whole_expressions(message):
            yield from sql_differences(_expression_sql(expression), types, keys)
    elif kind == "SQL":
        given = {p.subquery_alias.alias for p in every if p.DESCRIPTOR.name == "Relation"}
        read = tables_read(_syntax_tree(message.query))
        yield from (f"table {name}" for name in read if name not in given)
        yield from sql_differences(message.query, types, keys)
    elif kind == "UnresolvedFunction" and message.is_user_defined_function:
        yield message.function_name.lower()
    elif kind == "CommonInlineUserDefinedFunction":
        yield "a function in Python"


def _whole_expressions(message: Any) -> Iterator[Any]:
    """Yield the expressions of a relation itself, each as a whole."""
    for part in message_parts(message):
        if part.DESCRIPTOR.name == "Expression":
            yield part
        elif part.DESCRIPTOR.name != "Relation":
            yield from _whole_expressions(part)


def _syntax_tree(text: str) -> Any:
    """Return the syntax tree of a text; of NULL where it cannot be parsed: `differences` reports
    such a text itself."""
    try:
        return sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return exp.Null()


def _expression_sql(message: Any) -> str:
    """Return an expression of a plan as SQL; one without such a form as a list of its parts."""
    kind = str(message.WhichOneof("expr_type"))
    value: Any = getattr(message, kind, None)
    if kind == "unresolved_attribute":
        return "`{}`".format(value.unparsed_identifier.rpartition(".")[2].strip("`"))
    if kind == "expression_string":
        return str(value.expression)
    if kind == "literal":
        return _literal_sql(value)
    if kind == "alias":
        return _expression_sql(value.expr)
    if kind == "cast":
        named = value.type_str or str(value.type.WhichOneof("kind"))
        return f"CAST({_expression_sql(value.expr)} AS {TYPE_NAMES.get(named, named)})"
    if kind == "unresolved_function":
        return _call_sql(value.function_name, [_expression_sql(part) for part in value.arguments])
    if kind == "window":
        spread = map(_expression_sql, value.partition_spec)
        order = (_expression_sql(o.child) for o in value.order_spec)
        clauses = (("PARTITION BY ", ", ".join(spread)), (" ORDER BY ", ", ".join(order)))
        spec = "".join(clause + columns for clause, columns in clauses if columns)
        return (
            f"{_expression_sql(value.window_function)} OVER "
            f"({spec}{FRAMES.get(value.frame_spec.frame_type, '')})"
        )
    return f"struct({', '.join(map(_expression_sql, _whole_expressions(message)))})"


def _literal_sql(literal: Any) -> str:
    kind = str(literal.WhichOneof("literal_type"))
    if kind == "string":
        return exp.Literal.string(literal.string).sql("spark")
    if kind in ("byte", "short", "integer", "long"):
        return str(getattr(literal, kind))
    typed = kind in ("double", "float", "decimal", "date", "timestamp", "binary", "boolean")
    return f"CAST(NULL AS {kind})" if typed else "NULL"


def _call_sql(name: str, parts: Sequence[str]) -> str:
    """Return a call as Spark writes it: an operator stands between its operands, `when` is a
    CASE."""
    if name.lower() == "when":
        return _sql_of_case(parts)
    if name.lower() == "in":
        return f"({parts[0]}) IN ({', '.join(parts[1:])})"
    is_operator = name.lower() in ("and", "or") or not name.isidentifier()
    if is_operator and len(parts) == 2:
        return f"({parts[0]}) {name} ({parts[1]})"
    return f"{name}({', '.join(parts)})"


def _sql_of_case(parts: Sequence[str]) -> str:
    """Return a CASE of conditions, each with its value behind it, and perhaps a default."""
    pairs = zip(parts[::2], parts[1::2], strict=False)
    words = [f"WHEN {condition} THEN {value}" for condition, value in pairs]
    if len(parts) % 2:
        words.append(f"ELSE {parts[-1]}")
    return " ".join(["CASE", *words, "END"])
