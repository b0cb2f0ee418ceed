"""What the second engine, Sail, is known to compute otherwise than Spark: names, and types for which that holds.

Lives here: the lists, and the rules that hold them against an expression. Does not live here: reading SQL
(`lake.second_engine`) or a DataFrame's plan (`load.second_engine`). The lists were made by asking both engines about
awkward values; a test asks Sail again: each answer that is not Spark's must be of something listed. All else runs;
`check-engine` computes days on both.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from backfill_assets.core.unsteady import ADDING, ANY_ROW, CHANCE, CLOCK, FLOATING, LISTS, PLACE, TIES

# How it says that its queries, which share one pool, need more memory: what sorts and groups goes to disk, what joins
# and writes cannot. It says so by the kinds of errors that speak of data.
OF_MEMORY = re.compile(r"remain available for the total memory pool|Resources exhausted|Failed to allocate additional")
ADVICE = 'Set [spark] engine = "embedded": Spark computes it'
DOUBLE, TIMESTAMP, STRING, ARRAY, BINARY = "DOUBLE", "TIMESTAMP", "STRING", "ARRAY", "BINARY"
WHOLE = frozenset({"INT", "BIGINT"})
# These take anything for a text, and DOUBLEs and times are written otherwise there; bytes that are no text are nothing.
OF_TEXTS = frozenset([
    "ascii", "btrim", "char_length", "character_length", "concat", "concat_ws", "contains", "crc32", "endswith",
    "hex", "instr", "lcase", "length", "len", "levenshtein", "lower", "lpad", "ltrim", "md5", "octet_length",
    "bit_length", "overlay", "position", "regexp_extract", "regexp_like", "regexp_replace", "repeat", "replace",
    "reverse", "rpad", "rtrim", "sha", "sha1", "sha2", "soundex", "split_part", "startswith", "substr",
    "substring_index", "translate", "trim", "ucase", "unhex", "upper", "url_decode", "url_encode",
])  # fmt: skip
OF_BYTES = frozenset({"hex", "length", "octet_length", "bit_length", "md5", "sha1", "sha2", "crc32"})  # as they are
# Functions of which it makes something else, whatever they are given.
DIFFERENT = frozenset([
    "array_contains", "bround", "conv", "date_part", "datepart", "encode", "extract", "format_number", "format_string",
    "from_json", "get_json_object", "hash", "ifnull", "initcap", "is_valid_utf8", "isnan", "locate", "nvl", "printf",
    "rint", "rlike", "shiftrightunsigned", "split", "timestamp_seconds", "timestampdiff", "to_json", "try_avg",
    "try_mod", "unix_millis", "unix_seconds", "weekday", "width_bucket", "zeroifnull",
])  # fmt: skip
# Their last digits are another's.
ROUNDED = frozenset([
    "atan2", "cbrt", "cosh", "exp", "hypot", "ln", "log", "log1p", "log2", "pow", "power", "sin",
])  # fmt: skip
# Spark's plan tells what depends on the clock, on chance, on which row comes first (`core.unsteady`); Sail has no such.
UNTOLD = CLOCK | CHANCE | PLACE | ANY_ROW | TIES | (ADDING - {"sum", "try_sum", "avg", "mean"}) | {"unix_timestamp"}
REFUSED = DIFFERENT | ROUNDED | UNTOLD
# What a cast to a type must not be given: times before 1970 are rounded the other way, texts are read otherwise,
# numbers too great wrap round, DOUBLEs, arrays and fractions of seconds are written otherwise, and bytes that are no
# text become NULL.
CASTS: Mapping[str, frozenset[str]] = {
    "INT": frozenset({TIMESTAMP}), "BIGINT": frozenset({TIMESTAMP}), "DECIMAL": frozenset({TIMESTAMP, STRING}),
    "STRING": frozenset({DOUBLE, ARRAY, TIMESTAMP, BINARY}), "TIMESTAMP": WHOLE | {DOUBLE, "DECIMAL"},
    "DOUBLE": frozenset(), "BOOLEAN": frozenset(), "DATE": frozenset(),
}  # fmt: skip
ORDERED = frozenset({"max", "min", "least"})  # NaN, -0.0, arrays and structs that hold a NULL have another place there
OF_DOUBLES = ORDERED | {"median", "nullif", "percentile", "pmod", "round"}
FROM_THE_END = frozenset({"left", "right", "substring", "substr"})
# Spark's plan tells whether what ties or the order of a set decides (`core.unsteady`); of Sail's nothing is known.
SORTING = frozenset({"sort_array", "array_sort", "size", "cardinality", "array_size", "array_max", "array_min"})
SUMS = frozenset({"sum", "avg", "mean"})
SIGNS = frozenset({"+", "-", "*", "negative"})
MIXED = frozenset({"coalesce", "greatest", "least", "if", "case", "when"})
PASSING = MIXED | SIGNS | OF_DOUBLES | {"", "abs"}  # give a value of the type that they are given
# Over windows: by the place of a row, which only a total order tells; by its rank; and sums over the rows beside it.
BY_PLACE = frozenset({"row_number", "ntile", "lag", "lead"})
OVER = BY_PLACE | {"rank", "dense_rank", "percent_rank", "cume_dist", "sum", "count", "count_if", "min", "max"}
ADVICE_FOR: Mapping[str, str] = {
    **dict.fromkeys(BY_PLACE, "Order by columns that hold the key, and the day, of one input, without a join"),
    "collect_set": "Write sort_array(collect_set(a))",
    "+": "Write try_add(a, b), both of one type, or cast to DECIMAL",
    "-": "Write try_subtract(a, b), or date_sub, or cast to DECIMAL",
    "*": "Write try_multiply(a, b), or cast to DECIMAL", "negative": "Write try_subtract(0, a)",
    "sum": "Write try_sum(a), or sum(cast(a AS DECIMAL(30,0)))", "avg": "Write avg(cast(a AS DECIMAL(24,4)))",
    "nvl": "Write coalesce", "ifnull": "Write coalesce", "substring": "Write substr from a position above 0",
    "||": "Write concat", "table": "Read frames that were given only: session.sql('… FROM {name}', name=frame)",
}  # fmt: skip


@dataclass(frozen=True)
class Term:
    """A part of an expression: a `call` of the function `name`, a `column`, a `literal` of the type `name`, or a `cast`
    to it; `parts` are what it is given."""

    what: str
    name: str
    parts: tuple["Term", ...] = ()

    def walk(self) -> Iterator["Term"]:
        """This part and all within."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True)
class Window:
    """A function over a window: what it is given, the parts and the order of rows, and whether its frame counts `rows`
    ("rows") or is the one that Spark takes by itself (""); anything else is not known."""

    call: Term
    partition: tuple[Term, ...]
    order: tuple[Term, ...]
    frame: str = ""


def unequal_window(window: Window, types: Mapping[str, str], keys: Iterable[frozenset[str]]) -> Iterator[str]:
    """What of a window differs, or may be another time; `keys` are sets of columns, each of which tells rows apart."""
    name, spread = window.call.name, (*window.partition, *window.order)
    plain = {p.name for p in spread if p.what == "column" and p.name in types}
    if name not in OVER:
        yield f"{name or window.call.what} over"
    elif window.frame not in ("", "rows"):
        yield f"{name} over {window.frame}"
    elif (name in BY_PLACE or window.frame) and not any(key <= plain for key in keys):
        yield f"{name} over an order that may not be total"
    if name in BY_PLACE and any(p.what != "literal" for p in window.call.parts[1:]):
        yield f"{name} with a default that is no literal"
    if any(_may_be(p, ARRAY, types) for p in spread):
        yield "order of ARRAY"


def advised(names: Iterable[str]) -> dict[str, str]:
    """Each name once, in order, with what to write instead ("": nothing)."""
    return {name: ADVICE_FOR.get(name.partition(" ")[0], "") for name in names}


def kind_of(type_name: str) -> str:
    """The kind of a type as Spark writes it: DECIMAL(18,2) is a DECIMAL."""
    kind = type_name.upper().partition("(")[0].partition("<")[0].strip()
    return {"INTEGER": "INT", "LONG": "BIGINT"}.get(kind, kind)


def unequal(term: Term, types: Mapping[str, str]) -> Iterator[str]:
    """What in an expression over columns of these types (by name, small letters) is known to differ."""
    yield from _unsorted(term)
    for part in term.walk():
        if part.what == "cast":
            if any(_may_be(p, kind, types) for kind in CASTS.get(part.name, ()) for p in part.parts):
                yield f"cast as {part.name.lower()}"
        elif part.what == "call":
            yield from _of_call(part, types)


def _of_call(call: Term, types: Mapping[str, str]) -> Iterator[str]:
    name = call.name
    if name in SIGNS | SUMS and _may_wrap(call, types):
        yield "avg" if name == "mean" else name
    elif name in ("case", "if", "when") and _are_mixed(call.parts):
        yield f"{name} of several types"
    elif name in MIXED and sum(p.what != "literal" for p in call.parts) > 1 and _may_be_any(call, DOUBLE, types):
        yield f"{name} of DOUBLE"
    if name in FROM_THE_END and any(p.name == "negative" for p in call.parts):
        yield f"{name} from the end"
    yield from (f"{name} of {kind}" for kind in _otherwise(name) if _may_be_any(call, kind, types))
    if name in ORDERED and any(p.name in ("struct", "named_struct") for p in call.parts):
        yield f"{name} of STRUCT"


def _otherwise(name: str) -> tuple[str, ...]:
    """The types over which a function gives something else."""
    if name in OF_TEXTS:
        return (DOUBLE, TIMESTAMP) if name in OF_BYTES else (DOUBLE, TIMESTAMP, BINARY)
    if name in OF_DOUBLES:
        return (DOUBLE, ARRAY) if name in ORDERED else (DOUBLE,)
    return ("DECIMAL",) if name == "/" else ()


def _may_wrap(call: Term, types: Mapping[str, str]) -> bool:
    """Whether a sum is of whole numbers, which wrap round there; or of DOUBLEs or days, of which it makes another."""
    if call.name in SUMS:
        of_whole = call.name == "sum" and all(_is_whole(p, types) for p in call.parts)
        return of_whole or any(is_floating(p, types) for p in call.parts)
    days = call.name == "-" and all(_may_be(p, "DATE", types) for p in call.parts)
    return days or (_is_whole(call, types) and any(p.what != "literal" for p in call.parts))


def _unsorted(term: Term, within: str = "") -> Iterator[str]:
    if term.what == "call" and term.name in LISTS and within not in SORTING:
        yield f"{term.name} unsorted"
    for part in term.parts:
        yield from _unsorted(part, term.name)


def _may_be_any(call: Term, kind: str, types: Mapping[str, str]) -> bool:
    return any(_may_be(p, kind, types) for p in call.parts)


def _may_be(term: Term, kind: str, types: Mapping[str, str]) -> bool:
    """Whether a value may be of that type: what is cast is of its own, a column of the type that is known."""
    if term.what in ("cast", "literal"):
        return term.name == kind
    if term.what == "column":
        return kind_of(types.get(term.name, "")) == kind
    if kind == BINARY and term.name == "unhex":
        return True
    return term.name in PASSING and any(_may_be(p, kind, types) for p in term.parts)


def is_floating(term: Term, types: Mapping[str, str]) -> bool:
    """Whether a value is computed with floating-point numbers, whose sums depend on the order of rows."""
    if term.what == "call" and term.name in FLOATING | {"/"}:
        return True
    return _may_be(term, DOUBLE, types) or (term.name in PASSING and any(is_floating(p, types) for p in term.parts))


def _is_whole(term: Term, types: Mapping[str, str]) -> bool:
    """Whether it is known to be a whole number, which wraps round there without a word."""
    if term.what == "column":
        return kind_of(types.get(term.name, "")) in WHOLE
    if term.what in ("cast", "literal"):
        return term.name in WHOLE
    return term.name in SIGNS and all(_is_whole(p, types) for p in term.parts)


def _are_mixed(branches: tuple[Term, ...]) -> bool:
    """Whether what a choice gives is not plainly of one type: its type, and so its value, may be another there."""
    kinds = {b.name if b.what in ("cast", "literal") else f"{b.what} {b.name} {b.parts}" for b in branches}
    return len(kinds - {"NULL"}) > 1
