"""What the second engine, Sail, is known to compute as Spark does: names, and the types for which that holds.

Lives here: the lists, and the rules that hold them against an expression. Does not live here: reading SQL
(`lake.second_engine`) or a DataFrame's plan (`load.second_engine`). The lists were made by asking both engines about
awkward values; a test asks Sail again and holds its answers to those that Spark gave. What is not listed is refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

# How it says that its queries, which share one pool, need more memory: what sorts and groups goes to disk, what joins
# and writes cannot. It says so by the kinds of errors that speak of data.
OF_MEMORY = re.compile(r"remain available for the total memory pool|Resources exhausted|Failed to allocate additional")
ADVICE = 'Set [spark] engine = "embedded": Spark computes it'
DOUBLE, TIMESTAMP, STRING, ARRAY, BINARY = "DOUBLE", "TIMESTAMP", "STRING", "ARRAY", "BINARY"
UNKNOWN = "?"  # a column whose type is not told: it may be any
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
FUNCTIONS = OF_TEXTS | frozenset([
    "count", "count_if", "any", "some", "every", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "max",
    "min", "sum", "try_sum", "avg", "mean", "collect_set", "explode", "explode_outer",
    "posexplode", "array", "array_append", "array_compact", "array_distinct", "array_intersect", "array_join",
    "array_max", "array_min", "array_position", "array_prepend", "array_remove", "array_repeat", "array_size",
    "array_sort", "array_union", "arrays_overlap", "sort_array", "size", "cardinality", "flatten", "get",
    "slice", "sequence", "try_element_at", "element_at", "exists", "forall", "filter", "transform", "aggregate",
    "reduce", "map_keys", "map_values", "isnull", "isnotnull", "coalesce", "greatest", "least", "nanvl", "in",
    "and", "or", "not", "if", "case", "when", "abs", "ceil", "ceiling", "floor", "sign", "signum", "positive",
    "negative", "mod", "+", "-", "*", "%", "try_add", "try_subtract", "try_multiply", "try_divide", "shiftleft",
    "shiftright", "bin", "bit_count", "xxhash64", "year", "quarter", "month", "day", "dayofmonth", "dayofweek",
    "dayofyear", "hour", "minute", "second", "last_day", "date_add", "date_sub", "add_months", "date",
    "to_date", "make_date", "unix_date", "date_from_unix_date", "to_timestamp", "try_to_timestamp",
    "timestamp_micros", "timestamp_millis", "unix_micros", "from_utc_timestamp", "to_utc_timestamp",
])  # fmt: skip
# What a cast to a type must not be given: times before 1970 are rounded the other way, texts are read otherwise,
# numbers too great wrap round, DOUBLEs, arrays and fractions of seconds are written otherwise, and bytes that are no
# text become NULL.
CASTS: Mapping[str, frozenset[str]] = {
    "INT": frozenset({TIMESTAMP}), "BIGINT": frozenset({TIMESTAMP}), "DECIMAL": frozenset({TIMESTAMP, STRING}),
    "STRING": frozenset({DOUBLE, ARRAY, TIMESTAMP, BINARY}), "TIMESTAMP": WHOLE | {DOUBLE, "DECIMAL"},
    "DOUBLE": frozenset(), "BOOLEAN": frozenset(), "DATE": frozenset(),
}  # fmt: skip
ORDERED = frozenset({"max", "min", "least"})  # NaN, -0.0, and arrays that hold a NULL, have another place there
# Spark's plan tells whether what ties or the order of a set decides (`core.unsteady`); of Sail's nothing is known.
SORTING = frozenset({"sort_array", "array_sort", "size", "cardinality", "array_size", "array_max", "array_min"})
SUMS = frozenset({"sum", "avg", "mean"})
SIGNS = frozenset({"+", "-", "*", "negative"})
MIXED = frozenset({"coalesce", "greatest", "least", "if", "case", "when"})
TRIED = frozenset({"try_add", "try_subtract", "try_multiply", "try_divide"})  # of whole numbers only, and days
GIVE_INT = frozenset([
    "length", "char_length", "character_length", "len", "octet_length", "bit_length", "ascii", "instr", "year",
    "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "hour", "minute", "second", "size",
    "cardinality", "unix_date",
])  # fmt: skip
GIVE_BIGINT = frozenset({"count", "count_if", "xxhash64", "unix_micros"})
# Over windows: by the place of a row, which only a total order tells; by its rank; and sums over the rows beside it.
BY_PLACE = frozenset({"row_number", "ntile", "lag", "lead"})
OVER = BY_PLACE | {"rank", "dense_rank", "percent_rank", "cume_dist", "sum", "count", "count_if", "min", "max"}
ADVICE_FOR: Mapping[str, str] = {
    **dict.fromkeys(BY_PLACE, "Order by columns that hold the key, and the day, of one input, without a join"),
    "collect_set": "Write sort_array(collect_set(a))",
    "try_add": "Cast both to one type, e.g. try_add(n, cast(1 AS BIGINT)); of DECIMALs write a + b",
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
    """What of a window is not known to be equal; `keys` are sets of columns, each of which tells the rows apart."""
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
    """What in an expression over columns of these types (by name, small letters) is not known to be equal."""
    yield from _unsorted(term)
    for part in term.walk():
        if part.what == "cast":
            forbidden = CASTS.get(part.name)
            if forbidden is None or any(_may_be(p, kind, types) for kind in forbidden for p in part.parts):
                yield f"cast as {part.name.lower()}"
        elif part.what == "call":
            yield from _of_call(part, types)


def _of_call(call: Term, types: Mapping[str, str]) -> Iterator[str]:
    name = call.name
    if name in SIGNS and not (name == "negative" and all(p.what == "literal" for p in call.parts)):
        if not any(_is_exact(p, types) for p in call.parts):
            yield name
    elif name in SUMS:
        if not all(_is_exact(p, types) and not _may_be(p, DOUBLE, types) for p in call.parts):
            yield "avg" if name == "mean" else name
    elif name in ("case", "if", "when") and _are_mixed(call.parts):
        yield f"{name} of several types"
    elif name in MIXED and sum(p.what != "literal" for p in call.parts) > 1 and _may_be_any(call, DOUBLE, types):
        yield f"{name} of DOUBLE"
    if name in TRIED:
        yield from _of_tried(call, types)
    elif name in OF_TEXTS:
        otherwise = (DOUBLE, TIMESTAMP) if name in OF_BYTES else (DOUBLE, TIMESTAMP, BINARY)
        yield from (f"{name} of {kind}" for kind in otherwise if _may_be_any(call, kind, types))
    elif name in ORDERED:
        yield from (f"{name} of {kind}" for kind in (DOUBLE, ARRAY) if _may_be_any(call, kind, types))


def _unsorted(term: Term, within: str = "") -> Iterator[str]:
    if term.what == "call" and term.name == "collect_set" and within not in SORTING:
        yield "collect_set unsorted"
    for part in term.parts:
        yield from _unsorted(part, term.name)


def _of_tried(call: Term, types: Mapping[str, str]) -> Iterator[str]:
    """Sail has these for whole numbers, and adds two of one type or days to a date; else it raises when it runs."""
    kinds = {_known(p, types) for p in call.parts} - {""}
    yield from (f"{call.name} of {kind}" for kind in ("DECIMAL", DOUBLE) if kind in kinds)
    if call.name == "try_add" and kinds == WHOLE:
        yield f"{call.name} of several types"


def _known(term: Term, types: Mapping[str, str]) -> str:
    """The kind of a value where it is plain; else the empty text."""
    if term.what == "column":
        return kind_of(types.get(term.name, ""))
    if term.what in ("cast", "literal"):
        return term.name
    if term.name in GIVE_INT | GIVE_BIGINT:
        return "INT" if term.name in GIVE_INT else "BIGINT"
    kinds = {_known(p, types) for p in term.parts} if term.name in TRIED | MIXED | {"abs", "mod", "%"} else {""}
    return "BIGINT" if kinds == WHOLE else kinds.pop() if len(kinds) == 1 else ""


def _may_be_any(call: Term, kind: str, types: Mapping[str, str]) -> bool:
    return any(_may_be(p, kind, types) for p in call.parts)


def _may_be(term: Term, kind: str, types: Mapping[str, str]) -> bool:
    """Whether a value may be of that type: what is cast is of its own, a column of the type that is known."""
    if term.what in ("cast", "literal"):
        return term.name == kind
    if term.what == "column":
        return kind_of(_type(term, types)) in (kind, UNKNOWN)
    if kind == BINARY and term.name == "unhex":
        return True
    return term.name not in OF_BYTES | {"count", "count_if"} and any(_may_be(p, kind, types) for p in term.parts)


def _type(column: Term, types: Mapping[str, str]) -> str:
    return types.get(column.name, UNKNOWN)


def _is_exact(term: Term, types: Mapping[str, str]) -> bool:
    """Whether a number is a DECIMAL, DOUBLE or interval, none of which overflows without a word."""
    if term.what == "column":
        return _type(term, types).startswith(("DECIMAL", DOUBLE))
    if term.what in ("cast", "literal"):
        return term.name in ("DECIMAL", DOUBLE, "INTERVAL")
    return term.what == "call" and term.name in (*SIGNS, "") and any(_is_exact(p, types) for p in term.parts)


def _are_mixed(branches: tuple[Term, ...]) -> bool:
    """Whether what a choice gives is not plainly of one type: its type, and so its value, may be another there."""
    kinds = {b.name if b.what in ("cast", "literal") else f"{b.what} {b.name} {b.parts}" for b in branches}
    return len(kinds - {"NULL"}) > 1
