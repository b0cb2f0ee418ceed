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
from backfill_assets.intake.select import function_name, select_expressions, selected_name

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
    parsed = typed_tree(expression, types).unalias()
    # Types are found from the outside, and not within a cast, whose own type is known: so each
    # function is typed once more by itself, the innermost first, without changing known types.
    for function in reversed([*parsed.find_all(exp.Func)]):
        annotate_types(function, dialect="spark", overwrite_types=False)
    for node in parsed.walk():
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


@lru_cache(maxsize=64)
def key_fault_of_types(select: str, name: str, before: str, after: str) -> str:
    """Why `select` gives a value of a column two keys if the column had another type before, and
    what to write; empty if it does not. Texts of whole numbers, and of decimals with as many digits
    behind the point, are the same; hashes are not."""
    for expression in select_expressions(select):
        if selected_name(expression) != KEY_COLUMN:
            continue
        why, told, of_hash = (
            key_fault(expression, {name.lower(): kind}) for kind in (after, before, "bigint")
        )
        if of_hash or _without_widths(before) != _without_widths(after):
            return why or told
    return ""


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
