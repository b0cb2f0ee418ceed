"""SQL freed of its session: what would bring the clock, an account, a path or a setting into rows
of landed values.

Two ways lead there without a function's name. A text that holds no day becomes a time of today
where it is cast, and `'now'` becomes one where it is a literal; a name that no column bears is a
function to the engine (`user`), or tells of the file (`_metadata`). Here: the casts and calls of a
text guarded, literals refused, and such names. Not here: the functions that have brackets
(`kernel.core.unsteady`), and what else `select` may hold (`select`).
"""

import itertools
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from backfill_assets.intake.expression_types import (
    DATE,
    TEXT,
    TIME,
    Kinds,
    Types,
    decode_results,
    typed_tree,
    value_kinds,
)
from backfill_assets.intake.select import NOT_PARSED, function_name

if TYPE_CHECKING:
    from pyspark.sql import Column

# What an engine makes of a bare name, in backticks too, where no column has it.
NAMES = frozenset(
    {
        "_metadata",
        "current_catalog",
        "current_database",
        "current_date",
        "current_path",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_user",
        "grouping__id",
        "localtimestamp",
        "session_user",
        "user",
    }
)
# A text that begins with no day (a time, or a word for a day), or has a character that no time has,
# such as a thin space, which one engine skips. No look-around and no backslash: engines differ in
# these.
NO_DAY = "^[^0-9A-Za-z]*([0-9]+:|[TtNnYy])|[^\t-~]"
CLOCK = re.compile(r"\W*(?:\d+:|T\d|(?:now|today|tomorrow|yesterday)\b)", re.IGNORECASE)
DAY_FIRST = re.compile(r"\s*[+-]?\d{4,}(?:-|\s*$)|\s*epoch\s*$", re.IGNORECASE)
CASTS = frozenset({"cast", "try_cast"})
TIMES = re.compile(r"(?:timestamp(?:_ltz)?|date)\s*", re.IGNORECASE)
NESTED_TIMES = re.compile(r"\w+\s*<.*timestamp", re.IGNORECASE | re.DOTALL)
# Functions that make a time of a text given to them, and those that make a date of it, which no
# time of a day gives.
TO_TIME = frozenset(
    {
        "date_diff",
        "date_format",
        "date_trunc",
        "dateadd",
        "datediff",
        "from_utc_timestamp",
        "months_between",
        "time_bucket",
        "timestamp",
        "timestampadd",
        "timestampdiff",
        "to_timestamp",
        "to_timestamp_ltz",
        "to_utc_timestamp",
        "try_to_timestamp",
        "unix_micros",
        "unix_millis",
        "unix_seconds",
    }
)
BEFORE_ANOTHER = {
    "date_format": 1,
    "from_utc_timestamp": 1,
    "months_between": 2,
    "to_utc_timestamp": 1,
}
TO_DATE = frozenset(
    {
        "add_months",
        "convert_timezone",
        "date",
        "date_add",
        "date_part",
        "date_sub",
        "datepart",
        "day",
        "dayname",
        "dayofmonth",
        "dayofweek",
        "dayofyear",
        "extract",
        "hour",
        "last_day",
        "minute",
        "month",
        "monthname",
        "next_day",
        "quarter",
        "second",
        "to_date",
        "to_timestamp_ntz",
        "trunc",
        "try_to_date",
        "unix_date",
        "weekday",
        "weekofyear",
        "year",
    }
)
# A call of its own, whose text is judged there.
MADE_TIMES = frozenset({"try_to_date", "try_to_timestamp"})
PARSERS = frozenset({"from_csv", "from_json", "from_xml", "try_variant_get", "variant_get"})
MEETING = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.Between,
    exp.In,
    exp.Coalesce,
    exp.Case,
    exp.If,
    exp.Greatest,
    exp.Least,
    exp.Nullif,
    exp.Nvl2,
    exp.Array,
    exp.EqualNull,
    exp.Lag,
    exp.Lead,
)
SHIFTING = (exp.Add, exp.Sub, exp.SafeAdd, exp.SafeSubtract)
FIELD = re.compile(r"\w+\s+from\s+", re.IGNORECASE)  # of `extract`
NO_RAISE, RAISE = "NULL", "raise_error('a time without a day')"
# Functions whose arguments, or the elements of these, become one type.
MERGING = re.compile(
    r"array_(?:append|prepend|insert|remove|position|contains|union|except|intersect)|arrays_overlap|concat|map_concat|"
    r"generate_series|stack|nanvl|map_contains_key"
)


@lru_cache(maxsize=16)
def session_names(expressions: tuple[str, ...]) -> tuple[str, ...]:
    """The names of columns that an engine would make functions of, or find by itself, if no column
    had them."""
    names = []
    for expression in expressions:
        columns = sqlglot.parse_one(expression, read="spark").find_all(exp.Column)
        names += [column.parts[0].name for column in columns]
    return tuple(name for name in dict.fromkeys(names) if name.lower() in NAMES)


def unknown_session_names(query: str, columns: Collection[str]) -> tuple[str, ...]:
    """Those of `session_names` that neither the inputs of a query (`columns`, by small letters) nor
    the query gives; none of a query that only Spark can read."""
    try:
        named = session_names((query,))
        parsed = sqlglot.parse_one(query, read="spark")
    except NOT_PARSED:
        return ()
    tables = {table.alias_or_name.lower() for table in parsed.find_all(exp.Table, exp.Subquery)}
    bare = set[str]()
    for column in parsed.find_all(exp.Column):
        first = column.parts[0].name.lower()
        is_field_of_table = len(column.parts) > 1 and first in tables
        if not is_field_of_table:
            bare.add(first)
    given = {*columns, *_own_aliases(parsed)}
    return tuple(name for name in named if name.lower() in bare - given)


def _own_aliases(parsed: exp.Expr) -> Iterator[str]:
    """The names, in small letters, that a query gives to what no column of that name is part
    of."""
    for alias in parsed.find_all(exp.Alias):
        name = alias.alias.lower()
        inner = {column.name.lower() for column in alias.this.find_all(exp.Column)}
        if name not in inner:
            yield name


def has_no_day(text: "Column") -> "Column":
    """Whether a text would become a time of today; NULL for NULL."""
    return text.rlike(NO_DAY)


def clock_fault(text: str, types: Types) -> str:
    """Why an expression or a query takes a date from the clock whatever the rows; empty if it does
    not, and for text that cannot be parsed. `types`: see `typed`."""
    for node in typed_tree(text, types).walk():
        why = _meeting_fault(node)
        if why:
            return why
    return next(_faults_of_calls(text), "")


def guarded_text(text: str, types: Types, strict: bool = False) -> str:
    """The text with a guard around what it casts, or gives to functions, to be a time. A value
    without a day is NULL to `try_` forms (to all, unless `strict`), an error to others. What is
    known to be no text stays as written."""
    calls = [call for call in _function_calls(text) if call.name in CASTS | TO_TIME]
    outermost = [call for call in calls if not any(call.is_within(other) for other in calls)]
    for call in reversed(outermost):
        is_forgiving = call.name.startswith("try_")
        otherwise = RAISE if strict and not is_forgiving else NO_RAISE
        for start, end in reversed(call.guarded()):
            inner = guarded_text(text[start:end], types, strict)
            if _may_be_text(text[start:end], types):
                timeless = f"regexp_like(try_cast({inner} AS string), '{NO_DAY}')"
                inner = f"CASE WHEN {timeless} THEN {otherwise} ELSE {inner} END"
            text = text[:start] + inner + text[end:]
    return text


@dataclass(frozen=True)
class _Call:
    """A call in a text."""

    name: str  # in small letters
    start: int  # its place in the text, `end` not included
    end: int
    arguments: tuple[tuple[int, int], ...]  # the place of each
    type: str = ""  # of a cast

    def is_within(self, other: "_Call") -> bool:
        """Whether it is part of an argument of another call."""
        return other.start < self.start < other.end

    def has_literal_type(self, text: str) -> bool:
        """Whether a parser's type is written out: no function finds it, as `schema_of_csv` does in
        a sample."""
        place = 2 if self.name.endswith("variant_get") else 1
        if len(self.arguments) <= place:
            return True
        return text[slice(*self.arguments[place])].strip()[:1] in "'\""

    def guarded(self) -> list[tuple[int, int]]:
        """The places of arguments that become times: no zone, pattern or unit, which may begin as
        `+02:00` or `year` do. A unit such as DAY is a bare word before two others."""
        given = [*self.arguments]
        if self.name in CASTS:
            return given if TIMES.fullmatch(self.type) else []
        if self.name in ("to_timestamp", "to_timestamp_ltz", "try_to_timestamp"):
            return given if len(given) == 1 else []
        if self.name in BEFORE_ANOTHER:
            return given[: BEFORE_ANOTHER[self.name]]
        begins_with_unit = len(given) == 3 or self.name in ("date_trunc", "time_bucket")
        return given[1:] if begins_with_unit else given


def _function_calls(text: str) -> Iterator[_Call]:
    """Yield the calls of a text in order."""
    tokens = list(Spark().tokenize(text))
    for index, (token, following) in enumerate(itertools.pairwise(tokens)):
        if following.token_type is TokenType.L_PAREN and text[token.start].isalpha():
            yield _call_at(text, token, tokens[index + 1 :])


def _call_at(text: str, token: Token, rest: list[Token]) -> _Call:
    """The call whose bracket opens with the first token of the `rest`; one without a closing
    bracket goes to the end of the text, and has no arguments."""
    depth, start = 0, rest[0].end + 1  # of brackets; where the next argument begins
    arguments, kind, is_type_next = list[tuple[int, int]](), "", False
    for inner in rest:
        opens = inner.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)
        closes = inner.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET)
        depth += opens - closes
        separates = depth == 1 and inner.token_type in (TokenType.COMMA, TokenType.ALIAS)
        if depth == 0 or separates:
            written = text[start : inner.start].rstrip()
            if is_type_next:
                kind = written.strip()
            elif written.strip():
                arguments.append((start, start + len(written)))
            # Behind AS stands the type of a cast.
            is_type_next = bool(kind) or inner.token_type is TokenType.ALIAS
            start = inner.end + 1
        if depth == 0:
            name = token.text.lower()
            if name == "date_add" and len(arguments) == 3:
                name = "dateadd"  # of times, too
            return _Call(name, token.start, inner.end, tuple(arguments), kind)
    return _Call(name=token.text.lower(), start=token.start, end=len(text), arguments=())


def _may_be_text(text: str, types: Types) -> bool:
    """Whether an argument may be a text; a literal is judged by `clock_fault`."""
    parsed = typed_tree(text, types)
    return not isinstance(parsed, exp.Literal) and value_kinds(parsed) in ((), (TEXT,))


def _faults_of_calls(text: str) -> Iterator[str]:
    """Yield why calls of a text take a date from the clock, or may, whatever the rows."""
    for call in _function_calls(text):
        shown = " ".join(text[call.start : call.end + 1].split())[:80]
        if call.name in PARSERS and _names_a_timestamp(text[call.start : call.end]):
            yield (
                f"{shown} makes times of texts without a day: read them as string, and cast what "
                "comes out"
            )
        elif call.name in PARSERS and not call.has_literal_type(text):
            yield (
                f"{shown} may make times of texts without a day: write the type as a text in quotes"
            )
        if call.name in CASTS and NESTED_TIMES.match(call.type):
            yield f"{shown} makes times of texts without a day: cast each value"
        if _takes_the_clock(call, text):
            yield f"{shown} takes its date from the clock"


def _names_a_timestamp(text: str) -> bool:
    """Whether a literal in the text, such as the type of a parser, names a timestamp."""
    for token in Spark().tokenize(text):
        is_literal = token.token_type is TokenType.STRING
        if is_literal and re.search(r"\btimestamp\b", token.text, re.IGNORECASE):
            return True
    return False


def _takes_the_clock(call: _Call, text: str) -> bool:
    """Whether a cast or a function makes a time of a text that no row decides, such as `'now'`."""
    is_cast_to_time = call.name in CASTS and TIMES.match(call.type) is not None
    if not is_cast_to_time and call.name not in TO_TIME | TO_DATE:
        return False
    places = call.guarded() if call.name in TO_TIME else call.arguments
    for start, end in places:
        argument = text[start:end].strip()
        if argument[:1] in ("'", '"') and CLOCK.match(argument[1:-1]):
            return True
        if call.name in TO_DATE and is_day_word(typed_tree(FIELD.sub("", argument), {})):
            return True
    return False


def _meeting_fault(node: Any) -> str:
    """Why a part of a tree makes a text a time without a cast; empty if it does not."""
    is_cast = isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)
    if is_cast and node.this.is_string:
        is_to_time = node.to.this in exp.DataType.TEMPORAL_TYPES
        is_clock = is_to_time and CLOCK.match(node.this.name)
        return f"{node.sql('spark')} takes its date from the clock" if is_clock else ""
    for parts in _merged_parts(node):
        text = _text_made_time(node, parts)
        if text is not None:
            return (
                f"{node.sql('spark')} makes a time of the text {text.sql('spark')}: cast it, as "
                "timestamp or as string"
            )
    return ""


def _text_made_time(node: Any, parts: list[Any]) -> Any:
    """The first of these parts of a comparison or choice that is a text, and becomes a time as
    others are one; None without any."""
    held = [value_kinds(part) for part in parts]
    if isinstance(node, SHIFTING) and isinstance(node.expression, exp.Interval):
        held[1] = (TIME,)
    kinds = set(itertools.chain.from_iterable(held))
    if not kinds & {TIME, DATE} or _have_same_kinds(held):
        return None
    for part, of_part in zip(parts, held, strict=True):
        may_need_clock = TIME in kinds or is_day_word(part)
        if TEXT in of_part and may_need_clock and not _names_a_day(part):
            return part
    return None


def _have_same_kinds(held: list[Kinds]) -> bool:
    """Whether no part becomes another type than its own: each holds the same kinds in the same
    order."""
    return len({kinds for kinds in held if {*kinds} & {TEXT, TIME, DATE}}) < 2


def _names_a_day(part: Any) -> bool:
    """Whether a part is a text that begins with a day."""
    return isinstance(part, exp.Literal) and DAY_FIRST.match(part.name) is not None


def is_day_word(part: Any) -> bool:
    """Whether a part is a text that no row decides, which Spark may read as a word for a day, such
    as `now`."""
    if isinstance(part, exp.Literal):
        return CLOCK.match(part.name) is not None
    if function_name(part) in MADE_TIMES:
        return False
    of_rows = (exp.Column, exp.Identifier, exp.Query)
    texts = any(one.is_string for one in part.find_all(exp.Literal))
    return texts and value_kinds(part) in ((), (TEXT,)) and part.find(*of_rows) is None


def _merged_parts(node: Any) -> Iterator[list[Any]]:
    """Yield the groups of parts of a comparison, choice or function that each become one type."""
    parts = [p for p in node.iter_expressions() if not isinstance(p, exp.Lambda)]
    if isinstance(node, exp.Case):
        chosen, otherwise = [i.args["true"] for i in node.args["ifs"]], node.args.get("default")
        yield chosen if otherwise is None else [*chosen, otherwise]
        if node.this is not None:
            yield [node.this, *(i.this for i in node.args["ifs"])]
    elif isinstance(node, exp.If | exp.Nvl2):
        yield [] if isinstance(node.parent, exp.Case) else parts[1:]
    elif isinstance(node, exp.DecodeCase):
        yield decode_results(node)
        yield [node.expressions[0], *node.expressions[1:-1:2]]
    elif isinstance(node, exp.Reduce):
        yield [node.args["initial"], node.args["merge"]]
    elif isinstance(node, exp.SetOperation):
        yield from map(list, zip(node.left.selects, node.right.selects, strict=False))
    elif isinstance(node, exp.In) and node.args.get("query"):
        yield [node.this, *node.args["query"].selects]
    elif isinstance(node, exp.Concat) and any(_is_plain_value(part) for part in parts):
        return  # a text of texts
    elif isinstance(node, (*MEETING, *SHIFTING)) or MERGING.fullmatch(function_name(node)):
        yield parts


def _is_plain_value(part: Any) -> bool:
    """Whether a part is known to be no array, map or struct."""
    return bool(part.type) and not part.is_type(*exp.DataType.NESTED_TYPES)
