"""The content fingerprint and the histograms of a day as SQL of DuckDB, which `engines.engine_sql`
translates for other engines: any changed cell is noticed, order is not.

Not here: running them (`audit`), what follows from a difference (`replace`), and comparing
histograms (`kernel.core.profiles`). The frequent texts of a column with many values cost an
approximate count of a sample, because only days with few are grouped by value.

A row's text is its cells in the order of their names, each as `-` (NULL) or as its bytes' count,
`:` and its text, so that no cell can be mistaken for another. Times are microseconds and dates days
since 1970 (UTC), numbers their decimal text (of a DECIMAL without zeros at its end, so that another
scale of the same number is the same), bytes are hex. A DOUBLE is the whole number that its 64 bits
are; -0.0 is 0.0 and every NaN the same, as engines compare them. An array is its elements, each
written in the same way, within brackets. Of its MD5, two pieces of 60 bits are summed per day
(AdHash: order-free, mergeable). It finds accidents, not an attacker. 1.5 CPU seconds for 1.8 M
rows.

Whoever changes any of it raises `kernel.core.profiles.SCHEME`. A new scheme by itself makes no day
stale: input digests hold the fingerprints as receipts name them, by whatever scheme. A rebuilt day
is written again, because nothing can say that it is equal, and gets a new fingerprint; so the
tables made from it follow once, as after a change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.column_types import DECIMAL, ColumnType
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.profiles import EMPTY_FINGERPRINT, REST, VALUES_KEPT, Bucket
from backfill_assets.kernel.core.readings import Sets

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PIECE_BITS = 60
PIECES = 2
NAN_BITS = 0x7FF8000000000000  # as Java has every NaN
BITS_PER_DIGIT = 4  # of MD5 as hexadecimal text
BEYOND_BUCKETS = float(1 << 62)  # greater doubles share its bucket
VALUE_CHARS = 24  # a longer text is no category, and receipts stay small
ROWS_PER_VALUE = 4  # of a day with fewer rows a value, nothing can be said
Found = dict[date | None, dict[Bucket, int]]
Counted = Mapping[str, Mapping[date | None, tuple[int, int]]]
Few = Mapping[str, Sequence[date]]  # days per column


def _infinite_number(kind: str, bits: int) -> str:
    """Expression of the number that stands in a file for an infinite date or time, for which DuckDB
    gives NULL."""
    greatest = (1 << bits - 1) - 1
    return f"CASE WHEN {{0}} > {kind} '1970-01-01' THEN {greatest} ELSE {-greatest} END"


_TEXTS = {
    "STRING": "concat(cast(strlen({0}) as varchar), ':', {0})",
    "TIMESTAMP": (
        f"cast(coalesce(epoch_us({{0}}), {_infinite_number('TIMESTAMPTZ', 64)}) as varchar)"
    ),
    "DATE": (
        "cast(coalesce(date_diff('day', DATE '1970-01-01', {0}), "
        f"{_infinite_number('DATE', 32)}) as varchar)"
    ),
    "DOUBLE": (
        f"CASE WHEN {{0}} = 0 THEN '0' WHEN isnan({{0}}) THEN '{NAN_BITS}' "
        "ELSE cast(cast(cast({0} as bit) as bigint) as varchar) END"
    ),
    "BINARY": "hex({0})",
}


def quoted_name(name: str) -> str:
    """A column's name as DuckDB quotes it."""
    return '"' + name.replace('"', '""') + '"'


def quoted_list(names: Iterable[str]) -> str:
    """Columns' names as a list in SQL."""
    return ", ".join(map(quoted_name, names))


def on_days(column: str, days: Iterable[date]) -> str:
    """The condition that a row's day is one of these."""
    listed = ", ".join(f"DATE '{d}'" for d in days)
    return f"{quoted_name(column)} IN ({listed})"


def row_hash(columns: Iterable[Column]) -> str:
    """The expression of the MD5 (hex) of a row's canonical text. The order of `columns` does not
    matter."""
    cells = (_cell_text(quoted_name(c.name), c.kind) for c in sorted(columns, key=lambda c: c.name))
    return f"md5(concat_ws('|', {', '.join(cells)}))"


def part_hashes(contract: Contract, parts: Sets) -> dict[str, str]:
    """By a column's name the expression of the MD5 of each of these sets of columns, in their
    order."""
    return {f"__part_{i}": row_hash(map(contract.column, c)) for i, c in enumerate(parts.values())}


def _cell_text(value: str, kind: ColumnType) -> str:
    """The expression of the text of a value, NULL included."""
    if kind.element is not None:
        text = (
            f"concat('[', array_to_string(list_transform({value}, lambda e: "
            f"{_cell_text('e', kind.element)}), ','), ']')"
        )
    else:
        text = _TEXTS.get(kind.kind, "cast({0} as varchar)").format(value)
    if kind.scale:
        text = f"rtrim(rtrim({text}, '0'), '.')"
    return f"CASE WHEN {value} IS NULL THEN '-' ELSE {text} END"


def hash_pieces(hashed: str) -> list[str]:
    """The expressions of the two whole numbers (0 .. 2^60 - 1) that stand for a row, of its hash's
    name."""
    digits = PIECE_BITS // BITS_PER_DIGIT
    return [
        f"cast(concat('0x', substr({hashed}, {1 + i * digits}, {digits})) as bigint)"
        for i in range(PIECES)
    ]


def fingerprint_text(sums: Sequence[int]) -> str:
    """The fingerprint as text: the sums of the pieces over a day's rows, in hex; of no rows `0`."""
    return ".".join(f"{s:X}" for s in sums) if any(sums) else EMPTY_FINGERPRINT


def number_bucket(column: Column) -> str:
    """The bucket of a number (`kernel.core.profiles`): its whole part's length in bits, negative
    below 0; NULL of NULL."""
    n = _whole_number(column)
    below = f"WHEN {n} < 0 THEN -1 - length(bin(-({n} + 1)))"  # the least number has no opposite
    return f"CASE WHEN {n} = 0 THEN 0 WHEN {n} > 0 THEN length(bin({n})) {below} END"


def _whole_number(column: Column) -> str:
    """The number without its fraction, as a whole number of 64 bits; NULL of NaN."""
    n, kind = quoted_name(column.name), column.kind.kind
    if kind == "DOUBLE":  # NULL is named: an engine's `isnan` says no of it
        n = (
            f"trunc(CASE WHEN {n} IS NOT NULL AND NOT isnan({n}) "
            f"THEN greatest(least({n}, {BEYOND_BUCKETS!r}), -{BEYOND_BUCKETS!r}) END)"
        )
    if kind == DECIMAL:  # toward 0, which a cast does in some engines only
        n = f"CASE WHEN {n} < 0 THEN ceil({n}) ELSE floor({n}) END"
    return f"CAST({n} AS BIGINT)"


def grouping_key(column: Column) -> str:
    """A column as a key of groups: engines differ on -0.0, which has the text of 0.0, and on
    NaN."""
    kind, value = column.kind, quoted_name(column.name)
    is_plain = kind.kind != "DOUBLE" and kind.element is None
    return value if is_plain else _cell_text(value, kind)


def approximate_distinct(column: str, row_hash: str) -> str:
    """Return the expression of the approximate number of texts among a sixteenth of the rows,
    chosen by their hash."""
    return f"approx_count_distinct({quoted_name(column)}) FILTER (WHERE {row_hash} < '1')"


def frequent_texts(
    engine: "DuckDBPyConnection", by_text: Callable[[Few], str], counted: Counted
) -> dict[str, Found]:
    """Return, per column and day, the rows of each frequent text and of the others as `REST`; days
    with too few rows to say anything are left out, and rows without a day. `counted`: per column
    and day, the rows that are not NULL and their `approximate_distinct` texts. `by_text` gives the
    query of day, column (its place in `counted`), text and rows (`n`) of columns on some days.
    """
    columns, frequent, few = [*counted], dict[str, Found](), dict[str, list[date]]()
    for column, days in counted.items():
        frequent[column], few[column] = {}, []
        for day, (rows, texts) in days.items():
            if day is None:
                continue
            if texts > 2 * VALUES_KEPT:
                frequent[column][day] = {REST: rows}
            elif rows:
                few[column].append(day)
    if not any(few.values()):
        return frequent
    asked = {column: {*days} for column, days in few.items()}
    for day, which, text, n in engine.execute(_ranked_texts(by_text(few))).fetchall():
        column = columns[which]
        if day in asked[column]:
            frequent[column].setdefault(day, {})[REST if text is None else text] = int(n)
    return frequent


def texts_of_rows(rows: str, day_column: str, few: Few) -> str:
    """The rows per day, column (its place in `few`) and text, from one reading of the files."""
    read_days = set[date]().union(*few.values())
    names, texts, which = [], [], []
    for place, (column, days) in enumerate(few.items()):
        if not days:
            continue
        text = quoted_name(column)
        if len(days) < len(read_days):  # on other days that are read it is NULL
            text = f"CASE WHEN {on_days(day_column, days)} THEN {text} END"
        names.append(f"c{place}")
        texts.append(f"{text} AS c{place}")
        which.append(f"WHEN grouping(c{place}) = 0 THEN {place}")
    sets = ", ".join(f"(day, {name})" for name in names)
    return (
        f"WITH narrow AS (SELECT {quoted_name(day_column)} AS day, {', '.join(texts)} FROM "
        f"({rows}) "
        f"WHERE {on_days(day_column, read_days)}) "
        f"SELECT day, CASE {' '.join(which)} END AS which, coalesce({', '.join(names)}) AS text, "
        f"count(*) AS n FROM narrow GROUP BY GROUPING SETS ({sets})"
    )


def _ranked_texts(by_text: str) -> str:
    """The rows per day, column and frequent text, of the others together with NULL as their
    text."""
    named = (
        f"rank <= {VALUES_KEPT} AND texts <= {2 * VALUES_KEPT} AND length(text) <= {VALUE_CHARS}"
    )
    return (
        "WITH ranked AS (SELECT *, row_number() OVER (of_day ORDER BY n DESC, text) AS rank, "
        "count(*) OVER of_day AS "
        f"texts, sum(n) OVER of_day AS all_rows FROM ({by_text}) WHERE text IS NOT NULL "
        f"WINDOW of_day AS (PARTITION BY day, which)) SELECT day, which, CASE WHEN {named} THEN "
        "text END, sum(n) "
        f"FROM ranked WHERE texts > {2 * VALUES_KEPT} OR all_rows >= {ROWS_PER_VALUE} * texts "
        "GROUP BY ALL"
    )
