"""Functions, types, casts and windows that Sail is known to compute otherwise than Spark, and the
check for them.

Not here: plans of DataFrames (`sail_plans`). What is not listed runs; a test puts 1,900 questions
to both engines.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from backfill_assets.engines.spark_functions import is_spark_function
from backfill_assets.kernel.core.unsteady import UNDECIDED

Types = Mapping[str, str]
Keys = Collection[frozenset[str]]
WHOLE, DOUBLE, DECIMAL, STRING, TIMESTAMP = "WHOLE", "DOUBLE", "DECIMAL", "STRING", "TIMESTAMP"
DATE, BOOLEAN, BINARY, ARRAY, STRUCT = "DATE", "BOOLEAN", "BINARY", "ARRAY", "STRUCT"
# Functions that give something else whatever they are given, by what is different.
DIFFERENT = frozenset(
    [
        *("ifnull", "nvl", "zeroifnull", "isnan", "array_contains"),  # NULL and NaN
        *(
            "atan2",
            "cbrt",
            "cosh",
            "exp",
            "hypot",
            "ln",
            "log",
            "log1p",
            "log2",
            "pow",
            "power",
            "sin",
        ),  # last digits
        *(
            "bround",
            "rint",
            "shiftrightunsigned",
            "try_avg",
            "try_mod",
            "width_bucket",
        ),  # rounding, and beyond 64 bits
        *(
            "conv",
            "format_number",
            "format_string",
            "initcap",
            "locate",
            "printf",
        ),  # how a text is written or searched
        *("encode", "is_valid_utf8"),  # bytes
        *("from_json", "get_json_object", "to_json"),  # numbers and times in JSON
        *("rlike", "regexp"),  # (?i) and \w beyond ASCII
        *(
            "date_part",
            "datepart",
            "extract",
            "timestamp_seconds",
            "timestampdiff",
            "unix_millis",
            "unix_seconds",
            "weekday",
        ),  # the first day of a week, and moments before 1970
    ]
)
ANY_ROW = frozenset({"first", "last", "first_value", "last_value", "any_value"})
TIES = frozenset(
    {"max_by", "min_by", "mode", "listagg", "string_agg", "percentile_approx", "approx_percentile"}
)
ADDING = frozenset(
    {
        "sum",
        "try_sum",
        "avg",
        "try_avg",
        "mean",
        "std",
        "stddev",
        "stddev_samp",
        "stddev_pop",
        "variance",
        "var_samp",
        "var_pop",
        "corr",
        "covar_samp",
        "covar_pop",
        "skewness",
        "kurtosis",
        "regr_avgx",
        "regr_avgy",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "product",
    }
)
# What depends on the clock, on chance or on the order of rows: Spark's plan shows it, Sail's does
# not.
UNSTEADY = UNDECIDED | ANY_ROW | TIES | (ADDING - {"sum", "try_sum", "avg", "mean"})
NAMES = DIFFERENT | UNSTEADY
CLAUSES = frozenset(
    ["limit", "offset", "tablesample", "lateral", "pivot", "unpivot", "qualify", "range"]
)
WORDS = CLAUSES | frozenset(
    [
        "rlike",
        "regexp",
        "current_date",
        "current_timestamp",
        "current_time",
        "current_user",
        "session_user",
        "localtimestamp",
        "localtime",
    ]
)
OF_BYTES = frozenset(
    ["hex", "length", "octet_length", "bit_length", "md5", "sha", "sha1", "sha2", "crc32"]
)
OF_TEXTS = OF_BYTES | frozenset(
    [
        "ascii",
        "btrim",
        "concat",
        "concat_ws",
        "contains",
        "dpipe",
        "endswith",
        "ends_with",
        "instr",
        "levenshtein",
        "lower",
        "lpad",
        "ltrim",
        "overlay",
        "pad",
        "position",
        "regexp_extract",
        "regexp_like",
        "regexp_replace",
        "repeat",
        "replace",
        "reverse",
        "rpad",
        "rtrim",
        "soundex",
        "split",
        "split_part",
        "startswith",
        "starts_with",
        "str_position",
        "substr",
        "substring",
        "substring_index",
        "translate",
        "trim",
        "unhex",
        "unicode",
        "upper",
        "url_decode",
        "url_encode",
    ]
)
# Functions and operators that give something else over values of these types.
TYPED: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (OF_TEXTS, frozenset({DOUBLE, TIMESTAMP})),  # how a number or a fraction of a second is written
    (OF_TEXTS - OF_BYTES, frozenset({BINARY})),  # bytes that are no text
    (
        frozenset({"max", "min", "least"}),
        frozenset({DOUBLE, ARRAY, STRUCT}),
    ),  # the place of NaN, -0.0 and NULL
    (
        frozenset({"nullif", "pmod", "round", "median", "percentile", "quantile"}),
        frozenset({DOUBLE}),
    ),
    (
        frozenset({"sum", "try_sum", "avg", "mean"}),
        frozenset({DOUBLE}),
    ),  # each order of rows rounds otherwise
    (frozenset({"div", "hash"}), frozenset({DECIMAL})),  # the digits of a quotient
)
SPELLED = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "dpipe": "||",
    "eq": "=",
    "neq": "<>",
    "nullsafeeq": "<=>",
    "quantile": "percentile",
    "array_slice": "slice",
}  # by the parser's names
# Casts from these types: moments before 1970 are rounded otherwise, exponents are read otherwise,
# great numbers wrap round, fractions and arrays are written otherwise, and bytes that are no text
# become NULL.
CASTS: Mapping[str, frozenset[str]] = {
    WHOLE: frozenset({TIMESTAMP}),
    DECIMAL: frozenset({TIMESTAMP, STRING}),
    TIMESTAMP: frozenset({WHOLE, DOUBLE, DECIMAL}),
    STRING: frozenset({DOUBLE, ARRAY, TIMESTAMP, BINARY}),
}
# Kinds of columns to which both engines convert landed values of a kind alike; of texts, those in a
# common form.
CONVERTED: Mapping[str, Collection[str]] = {
    STRING: (STRING, WHOLE, DOUBLE, DECIMAL, DATE, TIMESTAMP, BOOLEAN),
    DECIMAL: (DECIMAL, WHOLE),
    WHOLE: (WHOLE, DOUBLE, DECIMAL, BOOLEAN, STRING),
    DOUBLE: (DOUBLE, WHOLE, BOOLEAN),
    BOOLEAN: (BOOLEAN, WHOLE, STRING),
    DATE: (DATE, STRING, TIMESTAMP),
    TIMESTAMP: (TIMESTAMP, DATE),
    BINARY: (BINARY,),
}
OF_LANDED_TEXT = frozenset(
    {DATE, BOOLEAN}
)  # texts that a sender wrote have more forms than those of a table
FROM_THE_END = (exp.Left, exp.Right, exp.Substring, exp.ArraySlice)
SORTING = frozenset(
    {"sort_array", "array_sort", "size", "cardinality", "array_size", "array_max", "array_min"}
)
COMPARISONS = (exp.EQ, exp.NEQ, exp.In, exp.NullSafeEQ)
CHOICES = (exp.Coalesce, exp.Nullif, exp.Case, exp.If, exp.Greatest, exp.Least, *COMPARISONS)
NUMBERS, MOMENTS = (WHOLE, DOUBLE, DECIMAL), (DATE, TIMESTAMP)
FAMILIES = {**dict.fromkeys(NUMBERS, "number"), **dict.fromkeys(MOMENTS, "moment")}
PLAIN_DELIMITER = re.compile(r"[A-Za-z0-9 /,:;_-]+")  # which is no regular expression
BY_PLACE = frozenset(
    {"row_number", "ntile", "lag", "lead"}
)  # of rows in an order, which must be total
OVER = BY_PLACE | frozenset(
    ["rank", "dense_rank", "percent_rank", "cume_dist", "sum", "count", "count_if", "min", "max"]
)
MIXED = " of DECIMAL and DOUBLE"  # the end of the name of such a choice
INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(
        BY_PLACE, "Order by columns that hold the key, and the day, of one input, without a join"
    ),
    "+": "Write try_add(a, b), both of one type, or cast to DECIMAL",
    "-": "Write try_subtract(a, b), or date_sub, or cast to DECIMAL",
    "*": "Write try_multiply(a, b), or cast to DECIMAL",
    "sum": "Write try_sum(a), or sum(cast(a AS DECIMAL(30,0)))",
    "avg": "Write avg(cast(a AS DECIMAL(24,4)))",
    "nvl": "Write coalesce",
    "ifnull": "Write coalesce",
    "substring": "Write substr from a position above 0",
    "collect_set": "Write sort_array(collect_set(a))",
    "table": "Read frames that were given only: session.sql('… FROM {name}', name=frame)",
}


def sql_differences(
    text: str, types: Types, keys: Keys = (), landed: bool = False
) -> dict[str, str]:
    """Return what an expression or query holds that differs, as
    `abilities.Engine.differences` says; text that cannot be parsed counts as
    different."""
    try:
        tokens: Any = sqlglot.tokenize(text, read="spark")
        parsed: Any = sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return {" ".join(text.split())[:60]: ""}
    kept = () if multiplies_rows(parsed) else keys
    unknown = [
        a.name for a in parsed.find_all(exp.Anonymous) if not is_spark_function(a.name.lower())
    ]
    # An expression over one row has no clauses.
    columns = frozenset(types.keys() & CLAUSES) if landed else frozenset[str]()
    return with_advice(
        [
            *_listed_words(tokens, columns),
            *_differences_in_tree(parsed, types, kept, landed),
            *unknown,
        ]
    )


def aggregation_differences(agg: str, of: str, types: Types) -> dict[str, str]:
    """Return what differs in a declared aggregation of an expression ("": of the rows); sums are
    exact."""
    expression = of or "true"
    is_extreme = bool(of) and agg in ("min", "max")
    found = sql_differences(f"{agg}({of})" if is_extreme else expression, types)
    if agg == "distinct":
        found["distinct"] = ""
    with suppress(SqlglotError):
        parsed = sqlglot.parse_one(expression, read="spark")
        _annotate_types(parsed, types)
        kind = node_kind(parsed)
        is_rounded = kind == DOUBLE or (kind == DECIMAL and agg == "avg")
        if is_rounded:
            found[f"{agg} of {kind}"] = ""
    return found


def converts_alike(found: str, wanted: str) -> bool:
    """Return whether landed values of one type (`void`: all NULL) become the other as on Spark."""
    source, target = (type_kind(_type_named(t)) for t in (found, wanted))
    return found == "void" or target in CONVERTED.get(source, ())


def _differences_in_tree(parsed: Any, types: Types, keys: Keys, landed: bool) -> Iterator[str]:
    known = _annotate_types(parsed, types)
    for node in parsed.walk():
        if isinstance(node, exp.Window):
            yield from _window_differences(node, known, keys)
        elif isinstance(node, exp.Cast):
            if _casts_otherwise(node_kind(node.this), type_kind(node.to), landed):
                yield f"cast as {node.to.sql('spark').lower()}"
        else:
            yield from _node_differences(node)


def _casts_otherwise(source: str, target: str, landed: bool) -> bool:
    """Return whether a cast from one kind to another differs; more of them do on values that
    landed."""
    if source in CASTS.get(target, ()):
        return True
    of_text = source == STRING and target in OF_LANDED_TEXT
    return landed and (of_text or (source, target) == (DOUBLE, DECIMAL))


def with_advice(names: Iterable[str]) -> dict[str, str]:
    """Return each name once, in order, with what to write instead ("": nothing)."""
    return {name: _advice(name) for name in names}


def _advice(name: str) -> str:
    if name.endswith(MIXED):
        return "Write numbers of DOUBLE with a D (1.5D), or cast all values to one type"
    return "" if " of " in name else INSTEAD.get(name.partition(" ")[0], "")


def multiplies_rows(parsed: Any) -> bool:
    """Return whether a query may give a row of an input more than once."""
    return bool(parsed.find(exp.Join, exp.Lateral, exp.Explode, exp.Posexplode, exp.SetOperation))


def tables_read(parsed: Any) -> list[str]:
    """Return the tables, in small letters, that a query reads and does not define itself."""
    small = parsed.transform(_in_small_letters)
    return sorted(".".join(part.name for part in table.parts) for table in exp.find_tables(small))


def _in_small_letters(node: Any) -> Any:
    if not isinstance(node, exp.Identifier):
        return node
    return exp.to_identifier(node.name.lower(), quoted=True)


def node_kind(node: Any) -> str:
    """Return the kind of a node's type, as `TYPED` and `CASTS` name them; empty if unknown."""
    if isinstance(node, exp.Div) and DECIMAL not in map(node_kind, node.iter_expressions()):
        return DOUBLE
    is_typed = isinstance(node, exp.Expression) and node.type is not None
    return type_kind(node.type) if is_typed else ""


def type_kind(found: Any) -> str:
    """Return the kind of a type; empty if no rule speaks of it."""
    kind, datatype = found.this, exp.DataType
    if kind in datatype.INTEGER_TYPES:
        return WHOLE
    if kind in datatype.TEXT_TYPES:
        return STRING
    if kind in datatype.TEMPORAL_TYPES:
        return DATE if kind == datatype.Type.DATE else TIMESTAMP
    name = {"FLOAT": DOUBLE, "VARBINARY": BINARY, "LIST": ARRAY}.get(kind.name, kind.name)
    return name if name in (DOUBLE, DECIMAL, BOOLEAN, BINARY, ARRAY, STRUCT) else ""


def _type_named(text: str) -> Any:
    """The type that Spark writes so; one that cannot be parsed (fields that Spark does not quote)
    by its first word."""
    with suppress(SqlglotError):
        found = exp.DataType.build("null" if text == "void" else text, dialect="spark")
        if isinstance(found, exp.DataType):  # an interval is none
            return found
    word = text.partition("<")[0].upper()
    known = word if word in (ARRAY, STRUCT) else "UNKNOWN"
    return exp.DataType(this=exp.DataType.Type[known])


def _annotate_types(parsed: Any, types: Types) -> Types:
    """Set the type of each node; returns the types of columns by name. A name that the text gives
    to something else than the column has the type of that."""
    aliases = [a for a in parsed.find_all(exp.Alias) if a.this.name.lower() != a.alias.lower()]
    renamed = {c.name.lower() for t in parsed.find_all(exp.TableAlias) for c in t.columns}
    renamed |= {alias.alias.lower() for alias in aliases}
    known = {name: kind for name, kind in types.items() if name not in renamed}
    for literal in parsed.find_all(exp.Literal):
        if _is_decimal(literal):
            literal.type = exp.DataType.build("DECIMAL(38,18)")
    for _ in range(2):  # of columns of an inner query, too
        for column in parsed.find_all(exp.Column):
            if column.name.lower() in known:
                column.type = _type_named(known[column.name.lower()])
        for node in parsed.find_all(
            exp.Alias, exp.Func, exp.Binary, exp.Unary, exp.Paren, exp.Window
        ):
            node.type = None
        annotate_types(parsed, dialect="spark", overwrite_types=False)
        known |= {a.alias.lower(): a.this.type.sql("spark") for a in aliases if node_kind(a.this)}
    return known


def _is_decimal(literal: Any) -> bool:
    """Return whether Spark takes a number, as a text of SQL has it, for a DECIMAL: 1.5, not 1 and
    not 1e3."""
    return literal.is_number and "." in literal.name and "e" not in literal.name.lower()


def _listed_names(node: Any) -> frozenset[str]:
    if isinstance(node, exp.Anonymous):
        return frozenset({node.name.lower()})
    if isinstance(node, exp.Func):
        return frozenset({node.key, *(name.lower() for name in node.sql_names())})
    return frozenset({node.key})


def _node_differences(node: Any) -> Iterator[str]:
    """Yield what a node of a query does otherwise in Sail than in Spark: the function or operator
    as Spark writes it, and what of it differs, e.g. `split`, `max of DOUBLE`,
    `collect_set unsorted`. Yields nothing for a node that both compute alike."""
    yield from _type_differences(node)
    yield from _value_differences(node)
    yield from _order_differences(node)


def _type_differences(node: Any) -> Iterator[str]:
    """Yield what differs by the types of a node's values: functions that are listed with them in
    `TYPED`, and choices and comparisons."""
    names = _listed_names(node)
    part_kinds = dict.fromkeys(map(node_kind, node.iter_expressions()))
    for listed, kinds in TYPED:
        if names & listed:
            yield from (f"{_spelled_name(node)} of {kind}" for kind in part_kinds if kind in kinds)
    if isinstance(node, CHOICES):
        yield from _choice_differences(node)


def _value_differences(node: Any) -> Iterator[str]:
    """Yield what differs for some values of the right types: delimiters that are regular
    expressions, whole numbers that overflow, parts that are counted from the end."""
    if isinstance(node, exp.RegexpSplit) and not _splits_plainly(node):
        yield "split"
    if _may_overflow(node):
        yield _spelled_name(node)
    if isinstance(node, FROM_THE_END) and _is_from_end(node):
        yield f"{_spelled_name(node)} from the end"


def _order_differences(node: Any) -> Iterator[str]:
    """Yield arrays that are collected in the order in which an engine meets the rows, where that
    order shows."""
    is_collected = isinstance(node, exp.ArrayUniqueAgg | exp.ArrayAgg)
    if is_collected and not _is_sorted(node):
        is_set = isinstance(node, exp.ArrayUniqueAgg)
        yield f"{'collect_set' if is_set else 'collect_list'} unsorted"


def _splits_plainly(node: Any) -> bool:
    """Return whether a text is split at a delimiter that is no regular expression, without a
    limit."""
    delimiter = node.expression
    is_plain = delimiter.is_string and PLAIN_DELIMITER.fullmatch(delimiter.name)
    return bool(is_plain) and node.args.get("limit") is None


def _is_from_end(node: Any) -> bool:
    """Return whether the place where a part begins is counted from the end, or is the 0 of an
    array."""
    _, *places = node.iter_expressions()
    if not places:
        return False
    start = places[0]
    is_zero_of_array = isinstance(node, exp.ArraySlice) and start.name == "0"
    return isinstance(start, exp.Neg) or is_zero_of_array


def _is_sorted(node: Any) -> bool:
    """Return whether the order of a collected array does not show: it is sorted, or counted."""
    return bool(_listed_names(node.parent) & SORTING)


def _may_overflow(node: Any) -> bool:
    """Return whether whole numbers of columns are summed up, which wraps round; or one day is taken
    from another."""
    if isinstance(node, exp.Sum):
        return node_kind(node.this) == WHOLE and _has_column(node.this, "BIGINT")
    is_of_moment = isinstance(node.parent, exp.TsOrDsAdd)
    if not isinstance(node, exp.Add | exp.Sub | exp.Mul) or is_of_moment:
        return False
    if isinstance(node, exp.Sub) and node_kind(node.this) == node_kind(node.expression) == DATE:
        return True
    return node_kind(node) == WHOLE and _has_column(node, "INT", "BIGINT")


def _has_column(node: Any, *kinds: str) -> bool:
    """Return whether a column, or a cast, of one of these types is in a number; arguments of counts
    are not."""
    for found in node.find_all(exp.Column, exp.Cast):
        has_kind = found.type is not None and found.type.this.name in kinds
        if has_kind and found.find_ancestor(exp.Count, exp.CountIf) is None:
            return True
    return False


def _choice_differences(node: Any) -> Iterator[str]:
    """Yield a choice, or a comparison, of values that the engines do not convert to the same type:
    values of several families (numbers, moments, texts), and DECIMAL beside DOUBLE in a choice.
    Values of an unknown type are left out."""
    parts = _choices(node)
    families = {FAMILIES.get(kind, kind) for kind in map(node_kind, parts) if kind}
    is_comparison = isinstance(node, COMPARISONS)
    # A day may be compared with its text. Beside a number Sail takes a day for the days since 1970,
    # and Spark refuses.
    compares_moment_with_text = is_comparison and families == {"moment", STRING}
    if len(families) > 1 and not compares_moment_with_text:
        yield f"{_spelled_name(node)} of {' and '.join(sorted(families))}"
        return
    # A comparison gives none of its values. Sail compares at 15 digits behind the point, so only
    # values that are closer together than that come out otherwise.
    if {DECIMAL, DOUBLE} <= {*map(node_kind, parts)} and not is_comparison:
        yield f"{_spelled_name(node)}{MIXED}"


def _choices(node: Any) -> list[Any]:
    """Return the values of which a node gives one, or which it compares."""
    parts = [*node.iter_expressions()]
    if isinstance(node, exp.Case):
        return [*(i.args["true"] for i in node.args["ifs"]), node.args.get("default")]
    if isinstance(node, exp.If):
        return [] if isinstance(node.parent, exp.Case) else parts[1:]
    return parts


def _spelled_name(node: Any) -> str:
    """Return a function's or operator's name as Spark writes it."""
    name = str(node.key)
    if isinstance(node, exp.Anonymous):
        name = node.name
    elif isinstance(node, exp.Func):
        name = node.sql_name()
    return SPELLED.get(name.lower(), name.lower())


def _listed_words(tokens: Any, columns: frozenset[str]) -> Iterator[str]:
    """Yield the calls of functions, and the words, of a text that are listed, in order; words that
    name one of these columns are that column."""
    kinds = ["", *(token.token_type.name for token in tokens), ""]
    for index, token in enumerate(tokens):
        before, kind, after = kinds[index : index + 3]
        if kind in ("STRING", "NUMBER", "IDENTIFIER"):
            continue
        name = token.text.lower()
        names_columns = before == "ALIAS" or (kind == "VAR" and before == "R_PAREN")  # AS t(a, b)
        is_call = after == "L_PAREN" and not names_columns
        is_listed_call = is_call and name.split()[-1] in NAMES
        is_listed_word = name in WORDS - columns and before != "DOT"
        if is_listed_call or is_listed_word:
            yield name


def _window_differences(node: Any, types: Types, keys: Keys) -> Iterator[str]:
    """Yield how a function over a window differs, or may give other rows each time."""
    order, spec, name = node.args.get("order"), node.args.get("spec"), _spelled_name(node.this)
    spread = [*(node.args.get("partition_by") or ())]
    if order:
        spread += [one.this for one in order.expressions]
    plain = {p.name.lower() for p in spread if isinstance(p, exp.Column)} & types.keys()
    frame = str(spec.args.get("kind")).lower() if spec is not None else ""
    needs_order = name in BY_PLACE or frame != ""
    if node.args.get("alias") is not None or not node.args.get("over"):
        yield "a window that is named"
    elif name not in OVER:
        yield f"{name} over"
    elif frame not in ("", "rows"):
        yield f"{name} over {frame}"
    elif needs_order and not any(key <= plain for key in keys):
        yield f"{name} over an order that may not be total"
    default = node.this.args.get("default")
    if default is not None and not isinstance(default, exp.Literal | exp.Null | exp.Neg):
        yield f"{name} with a default that is no literal"
    if ARRAY in map(node_kind, spread):
        yield "order of ARRAY"
