"""The content fingerprint, as SQL that Spark and DuckDB compute alike: any cell noticed, any order of rows the same.

Lives here: the canonical text of a row, its hash as two whole numbers, and their sum as text. Does not live here: which
engine computes it (`audit`, `profile`), and what follows from a difference (`replace`).

A row's text is its cells in the order of their names, each as `-` (NULL) or as its bytes' count, `:` and its text, so
that no cell can be mistaken for another. Times are microseconds and dates days since 1970 (UTC), numbers their decimal
text (of a DECIMAL without zeros at its end, so that another scale of the same number is the same), bytes are hex. A
DOUBLE is the whole number that its 64 bits are; -0.0 is 0.0 and every NaN the same, as both engines compare them.
An array is its elements, each told in the same way, within brackets. Of its MD5, two pieces of 60 bits are summed per
day (AdHash: order-free, mergeable). It finds accidents, not an attacker. Tried on 1.8 M rows: equal in both engines on
all days (facts: committer), 1.5 CPU seconds in DuckDB.

Whoever changes any of it raises `core.profiles.SCHEME`. A new scheme by itself makes no day stale: input digests hold
the fingerprints as receipts tell them, by whatever scheme. What is rebuilt is written again, because nothing can say
that it is equal, and tells a new fingerprint; so the tables made from it follow once, as after a change.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from backfill_assets.core.column_types import ColumnType
from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.profiles import EMPTY_FINGERPRINT
from backfill_assets.core.readings import Sets

PIECE_BITS = 60
PIECES = 2
NAN_BITS = 0x7FF8000000000000  # the one that Java makes of all
BITS_PER_DIGIT = 4  # of MD5 as hexadecimal text
BEYOND_BUCKETS = float(1 << 62)  # greater doubles share its bucket


class Dialect(StrEnum):
    """Whose SQL."""

    SPARK = "spark"
    DUCKDB = "duckdb"


def _end_of(kind: str, bits: int) -> str:
    """The number that DuckDB's infinite date or time is in a file."""
    greatest = (1 << bits - 1) - 1
    return f"CASE WHEN {{0}} > {kind} '1970-01-01' THEN {greatest} ELSE {-greatest} END"


_TEXTS = {
    ("STRING", Dialect.SPARK): "concat(octet_length({0}), ':', {0})",
    ("STRING", Dialect.DUCKDB): "concat(strlen({0}), ':', {0})",
    ("TIMESTAMP", Dialect.SPARK): "cast(unix_micros({0}) as string)",
    # DuckDB takes the numbers at the ends for infinities and gives NULL for theirs, which would make both one.
    ("TIMESTAMP", Dialect.DUCKDB): f"cast(coalesce(epoch_us({{0}}), {_end_of('TIMESTAMP', 64)}) as varchar)",
    ("DATE", Dialect.SPARK): "cast(unix_date({0}) as string)",
    ("DATE", Dialect.DUCKDB): (
        f"cast(coalesce(date_diff('day', DATE '1970-01-01', {{0}}), {_end_of('DATE', 32)}) as varchar)"
    ),
    # Spark has no other expression for the bits of a double; digits differ between engines, and between Java 17 and 21.
    ("DOUBLE", Dialect.SPARK): (
        "CASE WHEN {0} = 0 THEN '0' ELSE java_method('java.lang.Double', 'doubleToLongBits', {0}) END"
    ),
    ("DOUBLE", Dialect.DUCKDB): (
        f"CASE WHEN {{0}} = 0 THEN '0' WHEN isnan({{0}}) THEN '{NAN_BITS}' "
        "ELSE cast(cast(cast({0} as bit) as bigint) as varchar) END"
    ),
    ("BINARY", Dialect.SPARK): "hex({0})",
    ("BINARY", Dialect.DUCKDB): "hex({0})",
}
_NUMBERS = {Dialect.SPARK: "cast({0} as string)", Dialect.DUCKDB: "cast({0} as varchar)"}
_TRIMMED = {
    Dialect.SPARK: "rtrim('.', rtrim('0', {0}))",
    Dialect.DUCKDB: "rtrim(rtrim({0}, '0'), '.')",
}
_ARRAYS = {
    Dialect.SPARK: "concat('[', array_join(transform({0}, e -> {1}), ','), ']')",
    Dialect.DUCKDB: "concat('[', array_to_string(list_transform({0}, lambda e: {1}), ','), ']')",
}


def quoted(name: str, dialect: Dialect) -> str:
    """A column's name as the dialect quotes it."""
    sign = "`" if dialect is Dialect.SPARK else '"'
    return sign + name.replace(sign, 2 * sign) + sign


def row_hash(columns: Iterable[Column], dialect: Dialect) -> str:
    """The expression of the MD5 (hex) of a row's canonical text. The order of `columns` does not matter."""
    cells = []
    for column in sorted(columns, key=lambda c: c.name):
        cells.append(_cell(quoted(column.name, dialect), column.kind, dialect))
    return f"md5(concat_ws('|', {', '.join(cells)}))"


def part_hashes(contract: Contract, parts: Sets, dialect: Dialect) -> dict[str, str]:
    """By a column's name the expression of the MD5 of each of these sets of columns, in their order."""
    return {f"__part_{i}": row_hash(map(contract.column, c), dialect) for i, c in enumerate(parts.values())}


def part_texts(names: Sequence[str], sums: Sequence[Any]) -> dict[str, str]:
    """The fingerprints of these sets, from the sums of their pieces one after the other."""
    return {n: fingerprint_text([int(s or 0) for s in sums[PIECES * i :][:PIECES]]) for i, n in enumerate(names)}


def _cell(value: str, kind: ColumnType, dialect: Dialect) -> str:
    """The expression of the text of a value, NULL included."""
    if kind.element is not None:
        text = _ARRAYS[dialect].format(value, _cell("e", kind.element, dialect))
    else:
        text = _TEXTS.get((kind.kind, dialect), _NUMBERS[dialect]).format(value)
    if kind.scale:
        text = _TRIMMED[dialect].format(text)
    return f"CASE WHEN {value} IS NULL THEN '-' ELSE {text} END"


def pieces(hashed: str, dialect: Dialect) -> list[str]:
    """The expressions of the two whole numbers (0 .. 2^60 - 1) that stand for a row, of its hash's name."""
    digits = PIECE_BITS // BITS_PER_DIGIT
    parts = [f"substr({hashed}, {1 + i * digits}, {digits})" for i in range(PIECES)]
    if dialect is Dialect.SPARK:
        return [f"cast(conv({part}, 16, 10) as bigint)" for part in parts]
    return [f"cast(concat('0x', {part}) as bigint)" for part in parts]


def fingerprint_text(sums: Sequence[int]) -> str:
    """The fingerprint as text: the sums of the pieces over a day's rows, in hex; of no rows `0`."""
    return ".".join(f"{s:X}" for s in sums) if any(sums) else EMPTY_FINGERPRINT


def bucket(column: Column, dialect: Dialect) -> str:
    """The bucket of a number (`core.profiles`): its whole part's length in bits, negative below 0; NULL of NULL."""
    n = _whole(column, dialect)
    below = f"WHEN {n} < 0 THEN -1 - length(bin(-({n} + 1)))"  # the least number has no opposite
    return f"CASE WHEN {n} = 0 THEN 0 WHEN {n} > 0 THEN length(bin({n})) {below} END"


def _whole(column: Column, dialect: Dialect) -> str:
    """The number without its fraction, as a whole number of 64 bits; NULL of NaN."""
    n, kind = quoted(column.name, dialect), column.kind.kind
    if kind == "BOOLEAN":
        return f"CAST({n} AS INT)"
    if kind in ("INT", "BIGINT"):
        return n
    if kind == "DOUBLE":
        n = f"CASE WHEN NOT isnan({n}) THEN greatest(least({n}, {BEYOND_BUCKETS!r}), -{BEYOND_BUCKETS!r}) END"
    return f"CAST({n} AS BIGINT)" if dialect is Dialect.SPARK else f"CAST(trunc({n}) AS BIGINT)"
