"""Keys made of landed numbers and moments: refused where the text of one value depends on the type
in the file.

A sender's file may have a column as INT today and as DOUBLE, DECIMAL or TIMESTAMP tomorrow: 1
becomes `1.0` or `1.00`, a day gets a time, and the key of an earlier file is not found again. Here:
which expression for `event_key` would take such a text as it comes, in place of a form that
`select` fixes. Not here: types (`expression_types`), payload columns of text (`casting`), and texts
of a sender, which are keys as written.
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

from backfill_assets.intake.casting import UnfitSelect
from backfill_assets.intake.expression_types import is_floating, typed_tree
from backfill_assets.intake.select import (
    function_name,
    select_expressions,
    selected_name,
    with_stars_expanded,
)

KEY_COLUMN = "event_key"
NUMBER, MOMENT = "number", "moment"
# What passes a value on, perhaps changed, in a type that follows that of the value.
PASSING = (
    exp.Paren,
    exp.Neg,
    exp.Abs,
    exp.Round,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.Coalesce,
    exp.Case,
    exp.If,
    exp.Greatest,
    exp.Least,
    exp.Nullif,
    exp.Nvl2,
    exp.SafeAdd,
    exp.SafeSubtract,
    exp.TimeStrToTime,
)
# What gives a text in a form that `select` spells out, or says whether something is so.
SPELLED_OUT = frozenset(
    {
        "time_to_str",
        "to_char",
        "format_number",
        "regexp_replace",
        "regexp_extract",
        "timestamp_trunc",
        "floor",
        "ceil",
        "isnull",
        "isnotnull",
    }
)
# What gives a number that depends on the text, or on the type, of its argument.
OF_THE_FORM = frozenset(
    {"hash", "xxhash64", "length", "crc32", "levenshtein", "ascii", "str_position"}
)
HASHES = OF_THE_FORM & {"hash", "xxhash64"}
# Types that a call has whatever the type of its argument.
DECIDED = (*exp.DataType.INTEGER_TYPES, exp.DataType.Type.DATE, exp.DataType.Type.BOOLEAN)
WIDTHS, DIGITS_BEFORE_SCALE = re.compile(r"\b(tinyint|smallint|int)\b"), re.compile(r"\(\d+,")
FIXES = {
    NUMBER: "write CAST(CAST({0} AS bigint) AS string), or DECIMAL(p,s) in place of bigint where "
    "it "
    "has a fraction",
    MOMENT: "write CAST(CAST({0} AS timestamp) AS string), or unix_micros({0})",
}
TAKING_APART = (exp.Dot, exp.Bracket)  # what gives a part of an array, a map or a struct
WITHIN = (
    "each number in it in a type of its own, as CAST(CAST(s.n AS DECIMAL(p,s)) AS string) of a "
    "struct s and transform(l, x -> CAST(x AS DECIMAL(p,s))) of an array l"
)
EXAMPLES = {NUMBER: "1, 1.0, 1.00", MOMENT: "a day with a time and without"}


def refuse_varying_keys(select: str, types: Mapping[str, str], numbers: Collection[str]) -> None:
    """Raise UnfitSelect where `select` would give one value other keys of files in which its column
    has another type.

    `types`: of the columns of landed files of one schema; `numbers`: those of text that hold
    numbers as a sender wrote them, such as 1.0 and 1e0.
    """
    known = {name.lower(): kind for name, kind in types.items()}
    known |= {name.lower(): "double" for name in types.keys() & {*numbers}}
    for expression in select_expressions(select):
        if selected_name(expression) != KEY_COLUMN:
            continue
        why = key_fault(expression, known, numbers)
        if why:
            raise UnfitSelect(why)


def key_fault(expression: str, types: Mapping[str, str], texts: Collection[str] = ()) -> str:
    """Why an expression for `event_key` gives one value several keys, and what to write; empty if
    it does not.

    `types`: of the file's columns, by small letters; `texts`: those of them that are texts to an
    engine. A column whose type is unknown is no fault.
    """
    for node in _typed_within(expression, types, exp.Func).walk():
        kind = _varying_kind(node)
        if kind and not _has_fixed_form(node):
            what, name = _shown_type(node), node.sql("spark")
            several = f"a {kind} has several texts then ({EXAMPLES[kind]})"
            # A column of texts has to become a number before its form can be fixed.
            fixed = f"CAST({name} AS double)" if name in texts else name
            return (
                f"{KEY_COLUMN} takes {name}, which is {what}, as it comes, and {several}: "
                f"{FIXES[kind].format(fixed)}"
            )
    return ""


def _typed_within(expression: str, types: Mapping[str, str], *kinds: type[Any]) -> Any:
    """The tree of an expression with the types of its nodes. They are found from the outside, and
    not within a cast, whose own type is known: so each node of these kinds is typed once more by
    itself, the innermost first, without changing known types."""
    parsed = typed_tree(expression, types).unalias()
    for node in reversed([*parsed.find_all(*kinds)]):
        annotate_types(node, dialect="spark", overwrite_types=False)
    return parsed


@lru_cache(maxsize=64)
def key_fault_of_types(select: str, name: str, before: str, after: str) -> str:
    """Why `select` gives a value of a column two keys if the column had another type before, and
    what to write; empty if it does not. Texts of whole numbers, and of decimals with as many digits
    behind the point, are the same; hashes are not."""
    for expression in select_expressions(select):
        if selected_name(expression) != KEY_COLUMN:
            continue
        expression = with_stars_expanded(expression, [name])
        why, told, of_hash = (
            key_fault(expression, {name.lower(): kind}) for kind in (after, before, "bigint")
        )
        if (why or told) and (of_hash or _without_widths(before) != _without_widths(after)):
            return why or told
        if "<" in before:  # an array, a map or a struct
            return _fault_within(expression, name.lower(), before, after)
    return ""


def _fault_within(expression: str, name: str, before: str, after: str) -> str:
    """The same for a value in an array, a map or a struct, whose text, or hash, the key takes with
    that of the whole, or by itself under a cast."""
    earlier, later = (
        _typed_within(expression, {name: kind}, exp.Func, *TAKING_APART) for kind in (before, after)
    )
    for one, other in zip(earlier.walk(), later.walk(), strict=False):
        if _has_several_texts(one, other):
            what = f"{one.sql('spark')}, whose type is {other.type.sql('spark').lower()} now"
            return f"{KEY_COLUMN} takes {what}, as it comes: write {WITHIN}"
    return ""


def _has_several_texts(one: Any, other: Any) -> bool:
    """Whether the key takes another text, or hash, of a part that has another type; `one`, `other`:
    the part before and after."""
    outer = getattr(one, "parent", None)
    if not (_is_typed(one) and _is_typed(other)):
        return False
    if isinstance(outer, exp.Cast) and not is_floating(outer):
        return _differ(one.type, other.type, outer.type)
    if isinstance(outer, exp.Transform) and outer.this is one:
        variable, *_ = outer.expression.expressions
        uses = [
            u for u in outer.expression.this.find_all(exp.Identifier) if u.name == variable.name
        ]
        return not all(map(_has_fixed_form, uses)) and _differ(one.type, other.type)
    if (isinstance(outer, TAKING_APART) and outer.this is one) or _has_fixed_form(one):
        return False
    if function_name(outer or one) in HASHES:
        return bool(one.type != other.type)
    return _differ(one.type, other.type)


def _is_typed(node: Any) -> bool:
    kind = getattr(node, "type", None)
    return kind is not None and not kind.is_type(exp.DataType.Type.UNKNOWN)


def _differ(before: Any, after: Any, target: Any = None) -> bool:
    """Whether the text of a value that lies in a type, cast to the `target` if there is one, shows
    that it had another type before: what both have, field by field, is compared."""
    parts, now = _parts_of_type(before), _parts_of_type(after)
    if target is not None and not target.is_type(*exp.DataType.TEXT_TYPES):
        targets = [*_parts_of_type(target).values()]
        held = zip(parts, targets, strict=False) if len(parts) == len(targets) else ()
        return any(name in now and _differ(parts[name], now[name], to) for name, to in held)
    if parts and now:
        return any(_differ(parts[name], now[name]) for name in parts.keys() & now.keys())
    return _text_form(before) != _text_form(after)


def _parts_of_type(kind: Any) -> dict[str, Any]:
    """The types that an array, a map or a struct holds, by the names of fields, or by numbers."""
    if kind.this not in exp.DataType.NESTED_TYPES:
        return {}
    return {
        part.name.lower() if isinstance(part, exp.ColumnDef) else str(number): part.args.get(
            "kind", part
        )
        for number, part in enumerate(kind.expressions)
    }


def _text_form(kind: Any) -> object:
    """What the text of a value shows of its type: of whole numbers, days and texts nothing."""
    if kind.is_type(*exp.DataType.INTEGER_TYPES, *exp.DataType.TEXT_TYPES, exp.DataType.Type.DATE):
        return 0
    return _decimal_scale(kind) if kind.is_type(exp.DataType.Type.DECIMAL) else kind.this


def _without_widths(kind: str) -> str:
    """A type of Spark's without what no text of a value shows."""
    return DIGITS_BEFORE_SCALE.sub("(", WIDTHS.sub("bigint", kind))


def _varying_kind(node: Any) -> str:
    """The kind of a part whose text depends on its type in the file; empty for others."""
    is_typed = isinstance(node, exp.Expression) and node.type is not None
    if not is_typed or isinstance(node, exp.Literal | exp.DataType):
        return ""
    # To a call of `round` the parser gives no other type.
    if is_floating(node) and not isinstance(node, exp.Round):
        return NUMBER
    if not isinstance(node, exp.Column | exp.Dot | exp.Bracket):
        return ""
    if node.is_type(*exp.DataType.INTEGER_TYPES):  # its text is one, a hash of it is not
        return NUMBER if function_name(node.parent or node) in HASHES else ""
    if node.is_type(exp.DataType.Type.DECIMAL):
        return NUMBER if _decimal_scale(node.type) else ""
    if node.is_type(exp.DataType.Type.DATE):
        return ""
    return MOMENT if node.is_type(*exp.DataType.TEMPORAL_TYPES) else ""


def _has_fixed_form(node: Any) -> bool:
    """Whether what stands around a part gives it a form of its own, or asks only whether something
    is so."""
    inner, outer = node, node.parent
    while isinstance(outer, PASSING) or (isinstance(outer, exp.Cast) and is_floating(outer)):
        is_choice = isinstance(outer, exp.If | exp.Case) and outer.args.get("ifs", True)
        if is_choice and outer.this is inner:
            return True  # it is the condition of the choice, not a value of it
        inner, outer = outer, outer.parent
    if isinstance(outer, exp.Cast):
        return not outer.is_type(*exp.DataType.TEXT_TYPES)
    if isinstance(outer, exp.Predicate | exp.Connector | exp.Not | exp.IntDiv):
        return True
    if function_name(outer) in SPELLED_OUT:
        return True
    if outer is None or function_name(outer) in OF_THE_FORM:
        return False
    return isinstance(outer, exp.Func) and outer.is_type(*DECIDED)


def _decimal_scale(kind: Any) -> int:
    """The digits behind the point of a DECIMAL."""
    parameters = [int(p.name) for p in kind.expressions]
    return parameters[1] if len(parameters) > 1 else 0


def _shown_type(node: Any) -> str:
    """The type of a part, for people."""
    return "a timestamp" if _varying_kind(node) == MOMENT else str(node.type.sql("spark")).lower()
