"""The content fingerprint and the histograms of a day as Spark SQL, equal to `fingerprints` to the
last bit.

Not here: running them (`auditor`), what they mean (`fingerprints`). What one engine does otherwise
(a cast of a decimal may round, Spark's `isnan(NULL)` is false, no engine gives the bits of a DOUBLE
alike) is spelled out here, so that one text serves all.
"""

from collections.abc import Iterable

from backfill_assets.intake.mapping import quoted
from backfill_assets.kernel.core.column_types import DECIMAL, ColumnType
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.readings import Sets
from backfill_assets.kernel.tables.fingerprints import (
    BEYOND_BUCKETS,
    BITS_PER_DIGIT,
    NAN_BITS,
    PIECE_BITS,
    PIECES,
)

MANTISSA, SIGN = 1 << 52, -(1 << 63)  # of the 64 bits of a DOUBLE
EXPONENT_OF_ONE, INFINITY_BITS = 1023, 0x7FF0000000000000
LEAST_NORMAL = "2.2250738585072014E-308D"
_TEXTS = {
    "STRING": "concat(CAST(octet_length({0}) AS STRING), ':', {0})",
    "TIMESTAMP": "CAST(unix_micros({0}) AS STRING)",
    "DATE": "CAST(unix_date({0}) AS STRING)",
    "BINARY": "hex({0})",
}


def row_hash(columns: Iterable[Column]) -> str:
    """`fingerprints.row_hash` in Spark SQL."""
    cells = (_cell(quoted(c.name), c.kind) for c in sorted(columns, key=lambda c: c.name))
    return f"md5(CAST(concat_ws('|', {', '.join(cells)}) AS BINARY))"


def part_hashes(contract: Contract, parts: Sets) -> dict[str, str]:
    """`fingerprints.part_hashes` in Spark SQL."""
    return {f"__part_{i}": row_hash(map(contract.column, c)) for i, c in enumerate(parts.values())}


def _cell(value: str, kind: ColumnType) -> str:
    """The expression of the text of a value, NULL included."""
    if kind.element is not None:
        text = (
            f"concat('[', array_join(transform({value}, e -> {_cell('e', kind.element)}), ','), "
            "']')"
        )
    elif kind.kind == "DOUBLE":
        text = _bits(value)
    else:
        text = _TEXTS.get(kind.kind, "CAST({0} AS STRING)").format(value)
    if kind.scale:
        text = f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM {text}))"
    return f"CASE WHEN {value} IS NULL THEN '-' ELSE {text} END"


def _bits(value: str) -> str:
    """The expression of the whole number that the 64 bits of a DOUBLE are, by exact arithmetic."""
    size = f"abs({value})"
    rounded = f"CAST(floor(log2({size})) AS INT)"  # off by one where log2 rounds
    scaled = f"{size} / pow(2D, {rounded})"
    power = f"({rounded} + CASE WHEN {scaled} >= 2 THEN 1 WHEN {scaled} < 1 THEN -1 ELSE 0 END)"
    fraction = f"CAST(({size} / pow(2D, {power}) - 1) * {MANTISSA}D AS BIGINT)"
    normal = f"{fraction} + CAST({power} + {EXPONENT_OF_ONE} AS BIGINT) * {MANTISSA}L"
    subnormal = f"CAST({size} * pow(2D, 537) * pow(2D, 537) AS BIGINT)"
    sign = f"CASE WHEN {value} < 0 THEN {SIGN + 1}L - 1L ELSE 0L END"
    return (
        f"CASE WHEN {value} = 0 THEN '0' WHEN isnan({value}) THEN '{NAN_BITS}' "
        f"WHEN {size} = double('Infinity') THEN CAST({INFINITY_BITS}L + {sign} AS STRING) "
        f"WHEN {size} < {LEAST_NORMAL} THEN CAST({subnormal} + {sign} AS STRING) "
        f"ELSE CAST({normal} + {sign} AS STRING) END"
    )


def comparable(column: Column) -> str:
    """A column as a key of groups: engines differ on -0.0, which has the text of 0.0, and on
    NaN."""
    kind, value = column.kind, quoted(column.name)
    is_plain = kind.kind != "DOUBLE" and kind.element is None
    return value if is_plain else _cell(value, kind)


def bucket(column: Column) -> str:
    """`fingerprints.bucket` in Spark SQL."""
    n, kind = quoted(column.name), column.kind.kind
    if kind == "DOUBLE":  # NULL is named: `isnan` says no of it, and `least` passes it over
        most = f"{BEYOND_BUCKETS!r}D".replace("+", "")
        n = (
            f"CASE WHEN {n} IS NOT NULL AND NOT isnan({n}) THEN greatest(least({n}, {most}), "
            f"-{most}) END"
        )
    elif kind == DECIMAL:  # toward 0, which a cast does in Spark only
        n = f"CASE WHEN {n} < 0 THEN ceil({n}) ELSE floor({n}) END"
    n = f"CAST({n} AS BIGINT)"
    below = f"WHEN {n} < 0 THEN -1 - length(bin(-({n} + 1)))"
    return f"CASE WHEN {n} = 0 THEN 0 WHEN {n} > 0 THEN length(bin({n})) {below} END"


def pieces(hashes: Iterable[str]) -> dict[str, str]:
    """The whole numbers of `fingerprints.pieces`, by the names of their columns."""
    digits = PIECE_BITS // BITS_PER_DIGIT
    return {
        f"{h}_{i}": f"CAST(conv(substr({h}, {1 + i * digits}, {digits}), 16, 10) AS BIGINT)"
        for h in hashes
        for i in range(PIECES)
    }
