"""Columns of a table: the names of their types in Spark, DuckDB, Delta and Arrow, and a schema whose contract changed.

Not here: the types themselves (`core.column_types`) and their canonical texts (`fingerprints`).

A table gets, keeps or may lack columns by one commit of metadata, which touches no row: older days read a new column as
NULL and are `outdated` until they are rebuilt. A column that the contract no longer has stays in the schema, so that
older days can be restored. Another type is refused, a wider one too: files of the narrower type need Delta's feature
`typeWidening`, and delta-rs 1.6 neither opens nor writes a table that has it (a test holds that it is still so).
"""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.core.column_types import ARRAY, DECIMAL, PLAIN_KINDS, ColumnType, read_type
from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.receipts import Receipt

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, Field
    from deltalake.schema import ArrayType, PrimitiveType

DELTA = {
    "BOOLEAN": "boolean", "INT": "integer", "BIGINT": "long", "DOUBLE": "double", "STRING": "string",
    "DATE": "date", "TIMESTAMP": "timestamp", "BINARY": "binary",
}  # fmt: skip
OF_DELTA = {name: kind for kind, name in DELTA.items()}
EIGHT_BYTES = ("BIGINT", "DOUBLE", "TIMESTAMP")  # of each value in a file without a dictionary
REASON = "columns"


def spark_name(kind: ColumnType) -> str:
    """The name in `DataFrame.dtypes`, such as decimal(18,2)."""
    return str(kind).lower()


def duckdb_name(kind: ColumnType) -> str:
    """The name in DuckDB's SQL. Instants have a zone there, as DuckDB reads them from the files of a table."""
    if kind.element is not None:
        return f"{duckdb_name(kind.element)}[]"
    return "TIMESTAMPTZ" if kind.kind == "TIMESTAMP" else str(kind)


def delta_type(kind: ColumnType) -> "PrimitiveType | ArrayType":
    """The type of a field in a Delta table's schema."""
    from deltalake.schema import ArrayType, PrimitiveType

    if kind.element is not None:
        return ArrayType(delta_type(kind.element), contains_null=True)
    return PrimitiveType(str(kind).lower() if kind.kind == DECIMAL else DELTA[kind.kind])


def delta_field(column: Column, *, nullable: bool) -> "Field":
    """The field of a column in a Delta table's schema."""
    from deltalake import Field

    return Field(column.name, delta_type(column.kind), nullable=nullable, metadata={"comment": column.description})


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


def evolve(opened: "DeltaTable", path: Path, contract: Contract) -> bool:
    """Add the columns of its contract that a table lacks, and allow NULL in those that the contract no longer requires.

    Returns whether it wrote. Raises ContractBroken if a column has another type. The caller holds the lock.
    """
    there = {f.name: f for f in opened.schema().fields}
    _refuse_other_types(path, contract, {n: type_of_delta(f.type) for n, f in there.items()})
    absent = [c for c in contract.columns if c.name not in there]
    may_lack = {*contract.nullable_columns, *(there.keys() - set(contract.column_names))}
    if absent:
        note = f"gets {', '.join(f'{c.name} {c.type}' for c in absent)}"
        fields = [delta_field(c, nullable=True) for c in absent]
        opened.alter.add_columns(fields, commit_properties=_properties(contract, note))
    loosened = sorted(n for n, f in there.items() if not f.nullable and n in may_lack)
    for name in loosened:
        opened.alter.drop_column_not_null(name, commit_properties=_properties(contract, f"{name} may be NULL"))
    return bool(absent or loosened)


def schema_contract(contract: Contract, opened: "DeltaTable") -> Contract:
    """The columns of the table's schema as a contract, which files of earlier versions fit. Columns of types that
    contracts do not know are left out."""
    kinds = ((f, type_of_delta(f.type)) for f in opened.schema().fields)
    columns = tuple(Column(f.name, str(kind), "", f.nullable) for f, kind in kinds if kind is not None)
    return replace(contract, columns=columns, key=(), inputs=(), rules=())


def _properties(contract: Contract, note: str) -> "CommitProperties":
    """A receipt of no days, which marks the commit as ours."""
    from deltalake import CommitProperties

    receipt = Receipt(uuid.uuid4().hex, contract.name, REASON, {}, note=note)
    return CommitProperties(custom_metadata={"userMetadata": receipt.to_json()}, max_commit_retries=0)


def _refuse_other_types(path: Path, contract: Contract, there: "dict[str, ColumnType | None]") -> None:
    other = [(c, there[c.name]) for c in contract.columns if c.name in there and there[c.name] != c.kind]
    if other:
        told = ", ".join(f"{c.name} is {kind or 'of a type that is none of ours'}, not {c.type}" for c, kind in other)
        raise ContractBroken(
            f"the table {path.name}",
            f"{told}: a column's type cannot change, nor widen, in a table that has rows of it",
            "Nothing was written",
            "Give the column its type back, and the new type to a column of another name (e.g. "
            f"{other[0][0].name}_2, in `select` too): only what reads that one is made again; or move "
            f"{path.parent} away and load everything again with `backfill-assets catch-up`",
        )
