"""The names of a column's type in Spark, DuckDB, Delta and Arrow, one function per vocabulary.

Not here: the types themselves (`core.column_types`) and their canonical texts (`fingerprints`).
"""

from typing import TYPE_CHECKING, Any

from backfill_assets.core.column_types import ARRAY, DECIMAL, PLAIN_KINDS, ColumnType, read_type

if TYPE_CHECKING:
    from deltalake.schema import ArrayType, PrimitiveType

DUCKDB = {
    "BOOLEAN": "BOOLEAN", "INT": "INTEGER", "BIGINT": "BIGINT", "DOUBLE": "DOUBLE", "STRING": "VARCHAR",
    "DATE": "DATE", "TIMESTAMP": "TIMESTAMPTZ", "BINARY": "BLOB",
}  # fmt: skip
DELTA = {
    "BOOLEAN": "boolean", "INT": "integer", "BIGINT": "long", "DOUBLE": "double", "STRING": "string",
    "DATE": "date", "TIMESTAMP": "timestamp", "BINARY": "binary",
}  # fmt: skip
EIGHT_BYTES = ("BIGINT", "DOUBLE", "TIMESTAMP")  # that each value takes in a file without a dictionary
OF_DELTA = {name: kind for kind, name in DELTA.items()}


def spark_name(kind: ColumnType) -> str:
    """The name in `DataFrame.dtypes`, such as decimal(18,2)."""
    return str(kind).lower()


def duckdb_name(kind: ColumnType) -> str:
    """The name in DuckDB's SQL. Instants have a zone there, as DuckDB reads them from the files of a table."""
    if kind.element is not None:
        return f"{duckdb_name(kind.element)}[]"
    return str(kind) if kind.kind == DECIMAL else DUCKDB[kind.kind]


def delta_type(kind: ColumnType) -> "PrimitiveType | ArrayType":
    """The type of a field in a Delta table's schema."""
    from deltalake.schema import ArrayType, PrimitiveType

    if kind.element is not None:
        return ArrayType(delta_type(kind.element), contains_null=True)
    return PrimitiveType(str(kind).lower() if kind.kind == DECIMAL else DELTA[kind.kind])


def type_of_delta(named: Any) -> ColumnType | None:
    """The type of a field of a Delta table's schema; None for one that no column of a contract has."""
    if hasattr(named, "element_type"):
        inner = type_of_delta(named.element_type)
        return ColumnType(ARRAY, element=inner) if inner is not None and inner.element is None else None
    name = str(getattr(named, "type", ""))
    if name.startswith("decimal("):
        return read_type(name)
    return ColumnType(OF_DELTA[name]) if name in OF_DELTA else None


def arrow_type(kind: ColumnType) -> Any:
    """The type in memory and in the Parquet files of a table."""
    import pyarrow as pa

    if kind.element is not None:
        return pa.list_(arrow_type(kind.element))
    if kind.kind == DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    made = {
        "BOOLEAN": pa.bool_, "INT": pa.int32, "BIGINT": pa.int64, "DOUBLE": pa.float64, "STRING": pa.string,
        "DATE": pa.date32, "BINARY": pa.binary,
    }  # fmt: skip
    return pa.timestamp("us", "UTC") if kind.kind == "TIMESTAMP" else made[kind.kind]()


def type_of_arrow(found: Any) -> ColumnType | None:
    """The type of a column of a table's Parquet file; None for one that no column of a contract has."""
    import pyarrow as pa

    if pa.types.is_list(found):
        inner = type_of_arrow(found.value_type)
        return ColumnType(ARRAY, element=inner) if inner is not None else None
    if pa.types.is_decimal(found):
        return ColumnType(DECIMAL, found.precision, found.scale)
    return next((k for k in map(ColumnType, PLAIN_KINDS) if arrow_type(k) == found), None)


def arrow_name(found: Any) -> str:
    """The name of an Arrow type, whatever a writer calls the elements of a list."""
    import pyarrow as pa

    return f"list<{arrow_name(found.value_type)}>" if pa.types.is_list(found) else str(found)
