"""The types of the parts of Spark SQL, as far as they are known before an engine sees it.

Here: a parsed text whose nodes have types, and what kinds of values a part holds. Not here: what
follows from it for casts and comparisons (`session_free`, `casting`). sqlglot types most functions;
here are columns, their fields, what a lambda gets, and functions that pass their arguments on.
"""

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from backfill_assets.intake.select import NOT_PARSED, function_name

Types = Mapping[str, str]  # of columns, by small letters
# Of the values in a part: `text`, `time`, `date`, `other`; several for a struct; none: unknown.
Kinds = tuple[str, ...]
TEXT, TIME, DATE, OTHER = "text", "time", "date", "other"
# Functions of arrays and maps, and choices, that give what an argument of theirs holds: the first
# that is known.
PASSING = re.compile(
    r"(?:array|map)_(?!size|position|contains|join|keys)\w+|get|concat|flatten|generate_series|reverse|decode_case|nvl2|"
    r"case|coalesce|lag|lead|safe_(?:add|subtract)|bracket|any_value"
)
MADE_BY_LAMBDAS = re.compile(r"transform(?:_values)?|zip_with|map_zip_with")
OF_KINDS = {TEXT: "string", TIME: "timestamp", DATE: "date"}


def typed_tree(text: str, types: Types) -> Any:
    """The tree of an expression or query with the types of its nodes, as far as they are known. A
    text that cannot be parsed or typed, which an engine refuses, is a NULL."""
    try:
        parsed: Any = sqlglot.parse_one(text, read="spark")
        for column in parsed.find_all(exp.Column):
            known = _column_type(column, types)
            if known is not None:
                column.type = known
        for function in parsed.find_all(exp.Lambda):
            _type_variables(function)
        for alias in reversed([*parsed.find_all(exp.Alias)]):
            _type_alias(alias, parsed)
        annotate_types(parsed, dialect="spark", overwrite_types=False)
    except NOT_PARSED:
        return exp.Null()
    return parsed


def is_floating(node: Any) -> bool:
    """Whether a typed node is a floating-point number."""
    return node.type is not None and node.type.this in (
        exp.DataType.Type.FLOAT,
        exp.DataType.Type.DOUBLE,
    )


def value_kinds(node: Any) -> Kinds:
    """The kinds of values that a typed part is, or holds: the elements of an array, the values of a
    map, the fields of a struct. Empty if unknown."""
    if isinstance(node, exp.Lambda):
        return value_kinds(node.this)
    known = _kinds_of_type(getattr(node, "type", None))
    if known or not isinstance(node, exp.Expr):
        return known
    for part in _passed_on(node):
        found = value_kinds(part)
        if found:
            return found
    return ()


def _passed_on(node: exp.Expr) -> list[Any]:
    """The parts of a call or choice whose values it gives, or holds."""
    parts: list[Any] = [p for p in node.iter_expressions() if not isinstance(p, exp.Lambda)]
    if isinstance(node, exp.Bracket | exp.Map | exp.VarMap):  # not its index or keys
        return [node.args["values"]] if "values" in node.args else parts[:1]
    if MADE_BY_LAMBDAS.fullmatch(function_name(node)):
        return list(node.find_all(exp.Lambda))[:1]
    if isinstance(node, exp.DecodeCase):
        return decode_results(node)
    if isinstance(node, exp.Reduce):
        return [node.args["initial"]]
    return parts if PASSING.fullmatch(function_name(node)) else []


def decode_results(node: exp.DecodeCase) -> list[Any]:
    """The results of `decode(value, one, result, …, otherwise)`."""
    has_otherwise = len(node.expressions) % 2 == 0
    otherwise = node.expressions[-1:] if has_otherwise else []
    return [*node.expressions[2::2], *otherwise]


def _column_type(column: Any, types: Types) -> Any:
    """The type of a column or of a field of a struct, as far as it is known."""
    first, *fields = (part.name.lower() for part in column.parts)
    if first not in types:  # fields are of a table's alias
        first, fields = column.name.lower(), []
    try:
        found: Any = exp.DataType.build(types[first], dialect="spark") if types.get(first) else None
    except SqlglotError:  # a field has a name that only Spark can read there
        return None
    for name in fields:
        inner = {f.name.lower(): f for f in found.expressions if isinstance(f, exp.ColumnDef)}
        if name not in inner:
            return None
        found = inner[name].args["kind"]
    return found


def _type_variables(function: Any) -> None:
    """Give the variables of a lambda the types of what its call hands to it."""
    call = function.parent
    given = [p for p in call.iter_expressions() if not isinstance(p, exp.Lambda)]
    for part in given:
        annotate_types(part, dialect="spark", overwrite_types=False)
    variables = [variable.name for variable in function.expressions]
    handed = _handed_to_variables(
        function_name(call), [value_kinds(p) for p in given], len(variables)
    )
    for variable, kinds in zip(variables, handed, strict=False):
        if len(kinds) == 1 and kinds[0] in OF_KINDS:
            for use in function.this.find_all(exp.Identifier):
                is_name_of_other = isinstance(use.parent, exp.Column | exp.Dot)
                if use.name == variable and not is_name_of_other:
                    use.type = exp.DataType.build(OF_KINDS[kinds[0]], dialect="spark")


def _handed_to_variables(call: str, held: list[Kinds], variables: int) -> list[Kinds]:
    """The kinds that a function hands to the variables of its lambda; `held`: of its other
    arguments."""
    if call == "reduce":
        return [held[1], held[0]]
    if call == "array_sort":
        return held * 2
    if call == "zip_with":
        return held
    has_keys = call.startswith(("map_", "transform_")) or variables == 3
    if has_keys:
        return [(), *held]
    return held[:1]  # the second is an index


def _type_alias(alias: Any, parsed: Any) -> None:
    """Give the columns that a query names by an alias of its own the type of what the alias stands
    for."""
    annotate_types(alias.this, dialect="spark", overwrite_types=False)
    if not _kinds_of_type(alias.this.type):
        return
    for column in parsed.find_all(exp.Column):
        is_alias = column.name.lower() == alias.alias.lower()
        if is_alias and column.type is None:
            column.type = alias.this.type.copy()


def _kinds_of_type(found: Any) -> Kinds:
    """The kinds of values that a type of sqlglot's holds: of an array its elements', of a map its
    values', of a struct those of its fields in order; none of an unknown one."""
    kind, of = found.this if isinstance(found, exp.DataType) else None, exp.DataType
    if kind is None or kind in (of.Type.UNKNOWN, of.Type.NULL):
        return ()
    if kind in of.NESTED_TYPES:
        inner = list[Any]()
        for part in found.expressions:
            inner.append(part.args.get("kind") if isinstance(part, exp.ColumnDef) else part)
        held = inner[-1:] if kind == of.Type.MAP else inner
        return tuple(chain.from_iterable(_kinds_of_type(one) for one in held))
    if kind in of.TEXT_TYPES:
        return (TEXT,)
    if kind in of.TEMPORAL_TYPES:
        return (DATE if kind == of.Type.DATE else TIME,)
    return (OTHER,)
