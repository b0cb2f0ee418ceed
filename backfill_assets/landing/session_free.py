"""SQL freed of its session: what would bring the clock, an account, a path or a setting into rows of landed values.

Two ways lead there without a function's name. A text that holds no day becomes a time of today where it is cast, and
`'now'` becomes one where it is a literal; a name that no column bears is a function to the engine (`user`), or tells of
the file (`_metadata`). Here: the casts and calls of a text guarded, literals refused, and such names. Not here: the
functions that have brackets (`core.unsteady`), and what else `select` may hold (`select`).
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from pyspark.sql import Column

# What an engine makes of a bare name, in backticks too, where no column has it.
NAMES = frozenset({
    "_metadata", "current_catalog", "current_database", "current_date", "current_path", "current_schema",
    "current_time", "current_timestamp", "current_user", "grouping__id", "localtimestamp", "session_user", "user",
})  # fmt: skip
# A text that begins with no day (a time, or a word for a day), or has a character that no time has, such as a thin
# space, which one engine skips. No look-around and no backslash: engines differ in these.
NO_DAY = "^[^0-9A-Za-z]*([0-9]+:|[TtNnYy])|[^\t-~]"
CLOCK = re.compile(r"\W*(?:\d+:|T\d|(?:now|today|tomorrow|yesterday)\b)", re.IGNORECASE)
DAY_FIRST = re.compile(r"\s*[+-]?\d{4,}(?:-|\s*$)|\s*epoch\s*$", re.IGNORECASE)
CASTS = frozenset({"cast", "try_cast"})
TIMES = re.compile(r"(?:timestamp(?:_ltz)?|date)\s*", re.IGNORECASE)
NESTED_TIMES = re.compile(r"\w+\s*<.*timestamp", re.IGNORECASE | re.DOTALL)
# Functions that make a time of a text given to them, and those that make a date of it, which no time of a day gives.
TO_TIME = frozenset({
    "date_diff", "date_format", "date_trunc", "dateadd", "datediff", "from_utc_timestamp", "months_between",
    "time_bucket", "timestamp", "timestampadd", "timestampdiff", "to_timestamp", "to_timestamp_ltz", "to_utc_timestamp",
    "try_to_timestamp", "unix_micros", "unix_millis", "unix_seconds",
})  # fmt: skip
BEFORE_ANOTHER = {"date_format": 1, "from_utc_timestamp": 1, "months_between": 2, "to_utc_timestamp": 1}
TO_DATE = frozenset({
    "add_months", "date", "date_add", "date_part", "date_sub", "datepart", "day", "dayname", "dayofmonth", "dayofweek",
    "dayofyear", "extract", "hour", "last_day", "minute", "month", "monthname", "next_day", "quarter", "second",
    "to_date", "to_timestamp_ntz", "trunc", "try_to_date", "unix_date", "weekday", "weekofyear", "year",
})  # fmt: skip
PARSERS = frozenset({"from_csv", "from_json", "from_xml", "try_variant_get", "variant_get"})
MEETING = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Between, exp.In, exp.Coalesce, exp.Case,
    exp.If, exp.Greatest, exp.Least, exp.Nullif, exp.Nvl2, exp.Array, exp.EqualNull,
)  # fmt: skip
SHIFTING = (exp.Add, exp.Sub, exp.SafeAdd, exp.SafeSubtract)
NO_RAISE, RAISE = "NULL", "raise_error('a time without a day')"
OF_TEXTS = re.compile(r"(?:array<|map<\w+,)string>")
NESTED = ("struct", "map", "array", "void")
Types = Mapping[str, str]


@lru_cache(maxsize=16)
def session_names(expressions: tuple[str, ...]) -> tuple[str, ...]:
    """The names of columns that an engine would make functions of, or find by itself, if no column had them."""
    names = []
    for parsed in (sqlglot.parse_one(e, read="spark") for e in expressions):
        names += [c.parts[0].name for c in parsed.find_all(exp.Column)]
    return tuple(name for name in dict.fromkeys(names) if name.lower() in NAMES)


def typed(text: str, types: Types) -> Any:
    """The tree of an expression or query with the types of its nodes, as far as they are known. `types` are of the
    columns by small letters. A text that cannot be parsed is a NULL."""
    try:
        parsed: Any = sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return exp.Null()
    for column in parsed.find_all(exp.Column):
        if (known := _known(column, types)) is not None:
            column.type = known
        if isinstance(column.parent, exp.Bracket) and OF_TEXTS.fullmatch(types.get(column.name.lower(), "")):
            column.parent.type = exp.DataType.build("string", dialect="spark")
    annotate_types(parsed, dialect="spark", overwrite_types=False)
    return parsed


def _known(column: Any, types: Types) -> Any:
    """The type of a column or of a field of a struct, as far as it is known and not nested itself."""
    first, *fields = (part.name.lower() for part in column.parts)
    if first not in types:  # fields are of a table's alias
        first, fields = column.name.lower(), []
    known = types.get(first, "")
    if not known or (known.lower().startswith(NESTED) and not fields):
        return None
    try:
        found: Any = exp.DataType.build(known, dialect="spark")
    except SqlglotError:  # a field has a name that only Spark can read there
        return None
    for name in fields:
        inner = (f for f in found.expressions if isinstance(f, exp.ColumnDef) and f.name.lower() == name)
        found = next((f.args["kind"] for f in inner), None)
        if found is None:
            return None
    return None if found.this in exp.DataType.NESTED_TYPES else found


def is_floating(node: Any) -> bool:
    """Whether a typed node is a floating-point number."""
    return node.type is not None and node.type.this in (exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE)


def has_no_day(text: "Column") -> "Column":
    """Whether a text would become a time of today; NULL for NULL."""
    return text.rlike(NO_DAY)


def fault(text: str, types: Types) -> str:
    """Why an expression or a query takes a date from the clock whatever the rows; empty if it does not, and for text
    that cannot be parsed. `types`: see `typed`."""
    parsed = typed(text, types)
    return next((why for node in parsed.walk() if (why := _met(node))), "") or next(_faults_of_calls(text), "")


def freed(text: str, types: Types, strict: bool = False) -> str:
    """The text with a guard around what it casts, or gives to functions, to be a time. A value without a day is NULL
    to `try_` forms (to all, unless `strict`), an error to others. What is known to be no text stays as written."""
    calls = [c for c in _calls(text) if c.name in CASTS | TO_TIME]
    for call in reversed([c for c in calls if not any(o.start < c.start < o.end for o in calls)]):
        otherwise = RAISE if strict and not call.name.startswith("try_") else NO_RAISE
        for start, end in reversed(call.guarded()):
            inner = freed(text[start:end], types, strict)
            if _may_be_text(text[start:end], types):
                timeless = f"regexp_like(try_cast({inner} AS string), '{NO_DAY}')"
                inner = f"CASE WHEN {timeless} THEN {otherwise} ELSE {inner} END"
            text = text[:start] + inner + text[end:]
    return text


@dataclass(frozen=True)
class _Call:
    """A call in a text: its name in small letters, its place, and the places of its arguments and of a cast's type."""

    name: str
    start: int
    end: int
    arguments: tuple[tuple[int, int], ...]
    type: str = ""

    def guarded(self) -> list[tuple[int, int]]:
        """The places of arguments that become times: no zone, pattern or unit, which may begin as `+02:00` or `year`
        do. A unit such as DAY is a bare word before two others."""
        given = [*self.arguments]
        if self.name in CASTS:
            return given if TIMES.fullmatch(self.type) else []
        if self.name in ("to_timestamp", "to_timestamp_ltz", "try_to_timestamp"):
            return given if len(given) == 1 else []
        if self.name in BEFORE_ANOTHER:
            return given[: BEFORE_ANOTHER[self.name]]
        return given[1:] if len(given) == 3 or self.name in ("date_trunc", "time_bucket") else given


def _calls(text: str) -> Iterator[_Call]:
    """Yield the calls of a text in order."""
    tokens = list(Spark().tokenize(text))
    for index, (token, following) in enumerate(itertools.pairwise(tokens)):
        if following.token_type is TokenType.L_PAREN and text[token.start].isalpha():
            yield _call(text, token, tokens[index + 1 :])


def _call(text: str, token: Token, rest: list[Token]) -> _Call:
    """The call whose bracket opens with the first token of the `rest`."""
    depth, start, found, kind = 0, rest[0].end + 1, [], ""
    for inner in rest:
        opens = inner.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)
        closes = inner.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET)
        depth += opens - closes
        if depth == 0 or (depth == 1 and inner.token_type in (TokenType.COMMA, TokenType.ALIAS)):
            place = start, start + len(text[start : inner.start].rstrip())
            if kind:
                kind = text[place[0] : place[1]].strip()
            elif text[place[0] : place[1]].strip():
                found.append(place)
            kind = kind or (" " if inner.token_type is TokenType.ALIAS else "")
            start = inner.end + 1
        if depth == 0:
            return _Call(token.text.lower(), token.start, inner.end, tuple(found), kind.strip())
    return _Call(token.text.lower(), token.start, len(text), ())


def _may_be_text(text: str, types: Types) -> bool:
    """Whether an argument may be a text; a literal is judged by `fault`."""
    parsed = typed(text, types)
    return not isinstance(parsed, exp.Literal) and _kind(parsed) in ("", "text")


def _faults_of_calls(text: str) -> Iterator[str]:
    for call in _calls(text):
        literals = [t.text for t in Spark().tokenize(text[call.start : call.end]) if t.token_type is TokenType.STRING]
        shown = " ".join(text[call.start : call.end + 1].split())[:80]
        if call.name in PARSERS and any(re.search(r"\btimestamp\b", one, re.IGNORECASE) for one in literals):
            yield f"{shown} makes times of texts without a day: read them as string, and cast what comes out"
        if call.name in CASTS and NESTED_TIMES.match(call.type):
            yield f"{shown} makes times of texts without a day: cast each value"
        if call.name in CASTS | TO_TIME | TO_DATE and (call.name not in CASTS or TIMES.match(call.type)):
            places = call.guarded() if call.name in TO_TIME else call.arguments
            given = (text[a:b].strip() for a, b in places)
            if any(g[:1] in "'\"" and CLOCK.match(g[1:-1]) for g in given if g):
                yield f"{shown} takes its date from the clock"


def _met(node: Any) -> str:
    """Why a part of a tree makes a text a time without a cast; empty if it does not."""
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        clock = node.to.this in exp.DataType.TEMPORAL_TYPES and CLOCK.match(node.this.name)
        return f"{node.sql('spark')} takes its date from the clock" if clock else ""
    if isinstance(node, SHIFTING) and isinstance(node.expression, exp.Interval):
        one, kinds = [node.this], {"time"}
    elif isinstance(node, MEETING):
        one = _met_parts(node)
        kinds = {_kind(p) for p in one}
    else:
        return ""
    texts = [p for p in one if _kind(p) == "text" and not (isinstance(p, exp.Literal) and DAY_FIRST.match(p.name))]
    if "date" in kinds and "time" not in kinds:
        texts = [p for p in texts if isinstance(p, exp.Literal) and CLOCK.match(p.name)]
    if not texts or not kinds & {"time", "date"}:
        return ""
    return f"{node.sql('spark')} makes a time of the text {texts[0].sql('spark')}: cast it, as timestamp or as string"


def _met_parts(node: Any) -> list[Any]:
    """The parts of a comparison or choice that become one type."""
    if isinstance(node, exp.Case):
        return [p for p in (*(i.args["true"] for i in node.args["ifs"]), node.args.get("default")) if p is not None]
    if isinstance(node, exp.If | exp.Nvl2):
        return [] if isinstance(node.parent, exp.Case) else [*node.iter_expressions()][1:]
    return [*node.iter_expressions()]


def _kind(node: Any) -> str:
    """`text`, `time`, `date`, `other`; empty if unknown."""
    found = getattr(node, "type", None)
    kind, datatype = found.this if found is not None else None, exp.DataType
    if kind is None or kind in (datatype.Type.UNKNOWN, datatype.Type.NULL):
        return ""
    if kind in datatype.TEXT_TYPES:
        return "text"
    if kind in datatype.TEMPORAL_TYPES:
        return "date" if kind == datatype.Type.DATE else "time"
    return "other"
