"""Expressions that may give other rows from the same inputs: clock, chance, ties of an order, sums of DOUBLEs, Python.

Here: the lists of functions that the row does not decide, for every search for them, and the search of Spark's plans.
An order is total if its columns hold a key: of an input (with its day), or of the grouped or deduplicated rows just
below; any other order is refused. Not here: parsing the plan's text (`plan_text`), asking Spark for it and refusing
(`load.steadiness`), and the search of a text (`landing.select`, `backfill.preflight`).
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain

from backfill_assets.core.contracts import Contract
from backfill_assets.core.plan_text import (
    COLUMN,
    Call,
    Node,
    PlanColumns,
    brackets,
    calls,
    items,
    names_in,
    outputs,
    parse_plan,
)
from backfill_assets.core.texts import shortened

# What the row does not decide: the clock, chance, and where and by whom it is computed.
CLOCK = frozenset({"current_timestamp", "now", "current_date", "curdate", "localtimestamp", "current_time"})
CHANCE = frozenset(
    {"rand", "random", "randn", "uuid", "shuffle", "randstr", "uniform", "aes_encrypt", "try_aes_encrypt"}
)
PLACE = frozenset({
    "monotonically_increasing_id", "spark_partition_id", "input_file_name", "input_file_block_start",
    "input_file_block_length", "current_user", "user", "session_user", "reflect", "java_method", "try_reflect",
    "version", "current_catalog", "current_database", "current_path", "current_schema", "current_timezone",
})  # fmt: skip
UNDECIDED = CLOCK | CHANCE | PLACE | {"unix_timestamp"}  # the last reads the clock where it has no argument
BARE = UNDECIDED & {
    "current_timestamp", "current_date", "current_time", "localtimestamp", "session_user", "current_user",
    "current_path",
}  # fmt: skip  # without brackets, too
# Window functions that are no aggregates to the parser, and aggregates that it knows as plain functions.
OF_MANY_ROWS = frozenset([
    "any", "every", "some", "mean", "std", "try_avg", "try_sum", "measure", "histogram_numeric", "count_min_sketch",
    "bitmap_and_agg", "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead",
    "nth_value", "window", "session_window", "inline_outer", "stack", "json_tuple", "explode_outer",
    "posexplode_outer",
])  # fmt: skip
# Functions of Spark that the parser has no name for, and that give the same for the same row. Any other may be one's
# own (a Python UDF), which no receipt records.
KNOWN = frozenset([
    "array_repeat", "array_union", "arrays_overlap", "get", "nullifzero", "zeroifnull", "bin", "bround", "conv", "e",
    "expm1", "hypot", "log1p", "positive", "try_mod", "btrim", "find_in_set", "format_number", "is_valid_utf8",
    "luhn_check", "make_valid_utf8", "mask", "octet_length", "printf", "quote", "sentences", "try_to_binary",
    "try_to_number", "cardinality", "crc32", "hash", "xxhash64", "date_part", "datepart", "timestamp_micros",
    "timestamp_millis", "timestamp_seconds", "try_make_timestamp", "try_to_date", "try_to_timestamp", "weekday",
    "forall", "map_filter", "map_zip_with", "transform_keys", "transform_values", "zip_with", "json_array_length",
    "isnotnull", "isnull", "regexp", "map_concat", "map_entries", "map_values", "shiftrightunsigned", "try_parse_url",
    "try_url_decode", "try_validate_utf8", "url_encode", "try_element_at",
])  # fmt: skip
# Further ones that are so, but may raise: `select` sets such a row aside.
RAISING_TOO = frozenset([
    "aes_decrypt", "assert_true", "from_csv", "from_xml", "is_valid_variant", "is_variant_null", "make_date",
    "make_dt_interval", "make_time", "make_timestamp_ltz", "make_timestamp_ntz", "make_ym_interval", "pmod",
    "raise_error", "schema_of_csv", "schema_of_json", "schema_of_variant", "schema_of_xml", "to_csv",
    "to_timestamp_ltz", "to_timestamp_ntz", "to_varchar", "to_variant_object", "to_xml", "try_aes_decrypt",
    "try_make_interval", "try_make_timestamp_ltz", "try_make_timestamp_ntz", "try_parse_json", "try_to_time",
    "try_variant_get", "url_decode", "validate_utf8", "variant_get",
])  # fmt: skip
# Sketches, places, times of a day and XPath; those of many rows aside.
FAMILIES = re.compile(
    r"(?:hll|kll|theta|tuple)_(?!\w*agg)\w+|(?:st|time|xpath)_\w+|xpath|to_time|vector_(?!avg$|sum$)\w+"
)


def is_sparks(name: str) -> bool:
    """Whether a name that the parser does not know is a function of Spark's that gives the same for the same rows."""
    return name in KNOWN | RAISING_TOO | OF_MANY_ROWS or FAMILIES.fullmatch(name) is not None


PYTHON = frozenset({
    "MapInPandas", "MapInArrow", "PythonMapInArrow", "FlatMapGroupsInPandas", "FlatMapGroupsInArrow",
    "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow", "BatchEvalPython", "ArrowEvalPython", "PythonUDTF",
})  # fmt: skip
ANY_ROW = frozenset({"first", "last", "first_value", "last_value", "any_value"})
LISTS = frozenset({"collect_list", "collect_set", "array_agg"})
SORTED = frozenset({"sort_array", "array_sort", "size", "cardinality", "array_size", "array_max", "array_min"})
TIES = frozenset({"max_by", "min_by", "mode", "listagg", "string_agg", "percentile_approx", "approx_percentile"})
ADDING = frozenset({
    "sum", "try_sum", "avg", "try_avg", "mean", "std", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp",
    "var_pop", "corr", "covar_samp", "covar_pop", "skewness", "kurtosis", "regr_avgx", "regr_avgy", "regr_intercept",
    "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "product",
})  # fmt: skip
SUMS = frozenset({"sum", "try_sum", "avg", "try_avg", "mean"})
BY_BINS = "histogram_numeric"  # joins the nearest bins as rows come, whatever the type
FLOATING = frozenset({
    "sqrt", "cbrt", "exp", "expm1", "ln", "log", "log10", "log2", "log1p", "pow", "power", "sin", "cos", "tan", "cot",
    "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "degrees", "radians", "hypot", "e", "pi", "rint", "double",
    "float", "cume_dist", "percent_rank",
})  # fmt: skip
WHOLE = frozenset({"count", "floor", "ceil", "ceiling", "isnan", "isnull", "isnotnull", "hash", "xxhash64"})
CASTS, FLOATS = frozenset({"cast", "try_cast", "ansi_cast"}), frozenset({"double", "float"})
CONDITION = re.compile(r"\bWHEN .*? THEN\b")
WHOLE_RESULT = re.compile(r" AS [^#]*#\d+L")  # only a BIGINT has that letter
BY_POSITION = frozenset({"row_number", "ntile", "lead", "lag", "nth_value"})
BY_RANK = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})  # the same for rows that tie
WHOLE_FRAME = "unboundedpreceding$(), unboundedfollowing$()"
LIMITS = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Tail"})
ONE_TO_ONE = frozenset({"Project", "Filter", "Window", "SubqueryAlias", "View", "Sort", *LIMITS})
SHOWN_CHARS = 160
TAKE = "take days and times from the chunk or from columns"
SEED = "choose by a hash of the key and a seed that is a parameter, such as xxhash64(key, 7)"
ORDER = "order by columns that hold the key, and the day, of what is ordered"
SQL = "write it with Spark's own functions"


@dataclass(frozen=True)
class Unsteady:
    """An expression that may give other rows from the same inputs, the reason, and the advice."""

    expression: str
    why: str
    fix: str

    def __str__(self) -> str:
        return f"`{shortened(self.expression, SHOWN_CHARS)}` {self.why}"


Key = frozenset[str]


def unsteady(explained: str, inputs: Collection[Contract]) -> list[Unsteady]:
    """The unsteady expressions in the text of `EXPLAIN EXTENDED` for a frame computed from these tables."""
    root = parse_plan(explained)
    if root is None:
        return []
    keys = keys_of(inputs)
    names = names_in(root)
    doubles = _doubles_in(root, frozenset(k.name for c in inputs for k in c.columns if k.type == "DOUBLE"))
    found = chain.from_iterable(chain(_of_node(node, keys, names), _of_doubles(node, doubles)) for node in root.walk())
    return list({str(u): u for u in found}.values())


def keys_of(inputs: Collection[Contract]) -> list[Key]:
    """Sets of columns that identify a row of one of these tables: its key, and the column of its day."""
    return [frozenset((*c.key, day)) for c in inputs for day in _days_by(c)]


def _days_by(contract: Contract) -> Iterator[str]:
    """The columns that give a row's day: the day itself, and the time that decides it (`x_ts` for `x_date`)."""
    yield contract.day_column
    time = f"{contract.day_column.removesuffix('_date')}_ts"
    if time in contract.column_names:
        yield time


def _of_node(node: Node, keys: list[Key], names: PlanColumns) -> Iterator[Unsteady]:
    if node.operator == "Sample":
        yield Unsteady(node.line, "takes rows by chance, and by how they are spread over tasks", SEED)
    if node.operator in PYTHON:
        yield Unsteady(node.line, "runs Python on rows", SQL)
        return
    known = [*keys, *_grouped_below(node, names)]
    for call in calls(node.line):
        yield from _of_call(call)
        if node.operator == "Aggregate":
            yield from _of_aggregate(call, node, known, names)
        if node.operator == "Window":
            yield from _of_window(call, known, names)
    if node.operator in LIMITS and node.operator != "LocalLimit":  # that one stands below another
        yield from _of_limit(node, known, names)
    if node.operator == "Deduplicate":
        yield from _of_deduplicate(node, known, names)


def _of_doubles(node: Node, doubles: Key) -> Iterator[Unsteady]:
    """Sums of floating-point numbers: each order of rows rounds differently. `doubles`: the numbers of such columns."""
    if node.operator not in ("Aggregate", "Window"):
        return
    for call in calls(node.line):
        if call.is_numbered or WHOLE_RESULT.match(call.after):
            continue
        if call.name == BY_BINS or (call.name in ADDING and _is_double(call.arguments, doubles)):
            fix = "cast them to DECIMAL first" if call.name in SUMS else "make it of sums of DECIMALs and counts"
            yield Unsteady(call.text, "adds DOUBLEs in any order, and each rounds otherwise", fix)


def _doubles_in(root: Node, named: Key) -> Key:
    """The numbers of the floating-point columns of a plan: those of inputs by name, and the computed ones."""
    found, computed, before = set[str](), set(named), -1
    while len(found) > before:  # a query's WITH stands beside what refers to it
        before = len(found)
        for node in reversed([*root.walk()]):
            known = computed if node.operator == "CTERelationRef" else named
            if not node.children:
                found |= {number for name, number in COLUMN.findall(node.line) if name in known}
            for item in (i for n in range(2) for i in items(brackets(node.line, n)) if " AS " in i):
                expression, _, alias = item.rpartition(" AS ")
                name, _, number = alias.rpartition("#")
                if number.isdigit() and _is_double(expression, frozenset(found)):
                    found.add(number)
                    computed.add(name)
    return frozenset(found)


def _is_double(text: str, doubles: Key) -> bool:
    """Whether an expression computes with floating-point numbers, apart from conditions and casts to other types."""
    text, done, kept = CONDITION.sub("", text), 0, ""
    for call in calls(text):
        if call.start < done or call.is_numbered:
            continue
        kind = call.arguments.rpartition(" as ")[2] if call.name in CASTS else ""
        averages = call.name in ("avg", "mean", "try_avg") and re.search(r"#\d+L", call.arguments)
        if kind in FLOATS or call.name in FLOATING or averages:
            return True
        if kind or call.name in WHOLE:
            kept, done = kept + text[done : call.start], call.start + len(call.text)
    return not doubles.isdisjoint(re.findall(r"#(\d+)", kept + text[done:]))


def _of_call(call: Call) -> Iterator[Unsteady]:
    if call.is_numbered:
        if "#" in call.arguments:  # a column's own name has no numbers in it: this is a call of Python
            yield Unsteady(call.text, "is a function of Python", SQL)
    elif call.name in CLOCK:
        yield Unsteady(call.text, "reads the clock", TAKE)
    elif call.name in CHANCE and call.arguments:  # Spark gives each a seed; without one it is a text
        yield Unsteady(call.text, "is chance, with a seed too: it depends on how rows are spread over tasks", SEED)
    elif call.name in PLACE:
        yield Unsteady(call.text, "depends on where and by whom rows are computed", TAKE)


def _of_aggregate(call: Call, node: Node, keys: list[Key], names: PlanColumns) -> Iterator[Unsteady]:
    if call.is_numbered or "windowspecdefinition" in call.within:
        return
    arguments = names.of(call.arguments) | names.of(brackets(node.line, 0))
    if call.name in ANY_ROW:
        yield Unsteady(
            call.text, "takes any row of its group", "use min, max, or max_by over columns that hold the key"
        )
    elif call.name in LISTS and not SORTED.intersection(call.within):
        yield Unsteady(call.text, "lists rows as they come", "put sort_array around it, in the same expression")
    elif call.name in TIES and not _covers(arguments, keys) and not re.search(r" (ASC|DESC) ", call.arguments):
        yield Unsteady(call.text, "takes any of the rows that tie", ORDER)


def _of_window(call: Call, keys: list[Key], names: PlanColumns) -> Iterator[Unsteady]:
    """A call right before `windowspecdefinition(…)` is computed over the rows in that order."""
    after = call.after.lstrip()
    if call.is_numbered or not after.startswith("windowspecdefinition(") or call.name in BY_RANK:
        return
    spec = next(calls(after)).arguments
    order, by_rows = names.of(spec), "RowFrame" in spec
    needs_order = call.name in ANY_ROW | LISTS | BY_POSITION or (by_rows and WHOLE_FRAME not in spec)
    own = names.of(call.arguments)
    of_what_it_orders_by = bool(own) and own <= order and call.name not in LISTS
    if needs_order and not of_what_it_orders_by and not _covers(order, keys):
        shown = f"{call.text} OVER ({spec.partition(', specifiedwindowframe')[0]})"
        yield Unsteady(shown, "depends on the order of rows that tie", ORDER)


def _of_limit(node: Node, keys: list[Key], names: PlanColumns) -> Iterator[Unsteady]:
    if node.line.split()[1:2] == ["0"]:
        return
    below = node
    while len(below.children) == 1 and below.operator in {*LIMITS, "Project", "SubqueryAlias", "View"}:
        below = below.children[0]
    if below.operator != "Sort" or not _covers(names.of(brackets(below.line, 0)), keys):
        yield Unsteady(node.line, "takes any rows, or any of those that tie", ORDER)


def _of_deduplicate(node: Node, keys: list[Key], names: PlanColumns) -> Iterator[Unsteady]:
    chosen, every = brackets(node.line, 0), frozenset[str]().union(*map(outputs, node.children))
    if not (every <= set(re.findall(r"#(\d+)", chosen)) or _covers(names.of(chosen), keys)):
        fix = "use max_by or a window that orders by the key, or deduplicate by all columns"
        yield Unsteady(node.line, "keeps any row of those that it takes for the same", fix)


def _covers(columns: Key, keys: list[Key]) -> bool:
    return any(key <= columns for key in keys)


def _grouped_below(node: Node, names: PlanColumns) -> list[Key]:
    """The keys of the rows that the node reads, if they were grouped or deduplicated and not multiplied since."""
    found, below = [], node
    while len(below.children) == 1:
        below = below.children[0]
        if below.operator in ("Aggregate", "Deduplicate"):
            found.append(names.of(brackets(below.line, 0)))
        if below.operator not in ONE_TO_ONE:
            break
    return found
