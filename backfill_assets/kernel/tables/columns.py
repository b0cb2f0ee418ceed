"""Columns of a table: types by engine, statistics of a data file, and a schema whose contract
changed.

Not here: the types themselves (`kernel.core.column_types`), their canonical texts (`fingerprints`),
a day's figures (`audit`).

A table gets, keeps or may lack columns by one commit of metadata, which touches no row: older days
read a new column as NULL and are `outdated` until they are rebuilt. A column that the contract no
longer has stays in the schema, so that older days can be restored. A type may become a wider one
(`ColumnType.holds`): older files keep the narrower one until their days are written again, and
readers cast. Spark 4, delta-rs and DuckDB do so by themselves, without Delta's feature
`typeWidening`, which delta-rs 1.6 neither opens nor writes. Any other type is refused.
"""

import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake

from backfill_assets.kernel.core.column_types import ARRAY, DECIMAL, PLAIN_KINDS, ColumnType
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import OTHER_TYPE, ContractBroken
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.place.port import Place

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

BATCH_ROWS = 65_536  # of a file, decoded at once
SMALL_FILE = 65_536  # bytes; the rows of a hundred of them may stay in memory
COLUMNS_REASON = "columns"
KEEPS_LOG = {  # the log is the truth, and is kept
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 36500 days",
}


def duckdb_name(kind: ColumnType) -> str:
    """The name in DuckDB's SQL. Instants have a zone there, as DuckDB reads them from the files of
    a table."""
    if kind.element is not None:
        return f"{duckdb_name(kind.element)}[]"
    return "TIMESTAMPTZ" if kind.kind == "TIMESTAMP" else str(kind)


def arrow_type(kind: ColumnType) -> Any:
    """The type in memory and in the Parquet files of a table."""
    import pyarrow as pa

    if kind.element is not None:
        return pa.list_(arrow_type(kind.element))
    if kind.kind == DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    constructors = {
        "BOOLEAN": pa.bool_,
        "INT": pa.int32,
        "BIGINT": pa.int64,
        "DOUBLE": pa.float64,
        "STRING": pa.string,
        "DATE": pa.date32,
        "BINARY": pa.binary,
    }
    return pa.timestamp("us", "UTC") if kind.kind == "TIMESTAMP" else constructors[kind.kind]()


def type_of_arrow(arrow: Any) -> ColumnType | None:
    """The type by its Arrow type; None for one that no column of a contract has."""
    import pyarrow as pa

    if pa.types.is_list(arrow):
        element = type_of_arrow(arrow.value_type)
        if element is None or element.element is not None:
            return None
        return ColumnType(ARRAY, element=element)
    if pa.types.is_decimal(arrow):
        return ColumnType(DECIMAL, arrow.precision, arrow.scale)
    return next((k for k in map(ColumnType, PLAIN_KINDS) if arrow_type(k) == arrow), None)


def arrow_name(arrow: Any) -> str:
    """The name of an Arrow type, whatever a writer calls the elements of a list."""
    import pyarrow as pa

    return f"list<{arrow_name(arrow.value_type)}>" if pa.types.is_list(arrow) else str(arrow)


def delta_schema(columns: Iterable[Column]) -> "Schema":
    """The schema of a Delta table with these columns."""
    import pyarrow as pa

    fields = (
        pa.field(c.name, arrow_type(c.kind), c.nullable, {"comment": c.description})
        for c in columns
    )
    return Schema.from_arrow(pa.schema(fields))


def column_types(opened: "DeltaTable") -> dict[str, ColumnType | None]:
    """The types of a table's columns; None for one that no column of a contract has."""
    import pyarrow as pa

    return {f.name: type_of_arrow(f.type) for f in pa.schema(opened.schema().to_arrow())}


def column_types_by_day(opened: "DeltaTable", day_column: str) -> dict[str, ColumnType | None]:
    """The types of a table's columns; None for one that no column of a contract has. A day that
    files are laid out by is a DATE, also where the schema of an adopted table has a STRING: folders
    name both alike."""
    kinds = column_types(opened)
    is_by_day = opened.metadata().partition_columns == [day_column]
    if is_by_day and kinds[day_column] == ColumnType("STRING"):
        kinds[day_column] = ColumnType("DATE")
    return kinds


def evolve_schema(opened: "DeltaTable", path: Place, contract: Contract) -> bool:
    """Add the columns of its contract that a table lacks, give columns the wider types that it has,
    and allow NULL in columns that it no longer requires.

    Returns whether it wrote. Raises ContractBroken if a column has another type that is not wider,
    or a new one the name of another but for its case. The caller holds the lock.
    """
    present = {field.name: field for field in opened.schema().fields}
    types = column_types_by_day(opened, contract.day_column)
    wider = {c.name: c.kind for c in contract.columns if c.kind.is_wider_than(types.get(c.name))}
    _refuse_other_types(path, contract, {n: kind for n, kind in types.items() if n not in wider})
    absent = [c for c in contract.columns if c.name not in present]
    _refuse_other_case(path, absent, present)
    if absent:
        note = f"gets {', '.join(f'{c.name} {c.type}' for c in absent)}"
        fields = delta_schema(replace(c, nullable=True) for c in absent).fields
        opened.alter.add_columns(fields, commit_properties=_commit_properties(contract, note))
    no_longer_read = present.keys() - set(contract.column_names)
    may_be_null = {*contract.nullable_columns, *no_longer_read}
    loosened = sorted(name for name in may_be_null & present.keys() if not present[name].nullable)
    for name in loosened:
        opened.alter.drop_column_not_null(
            name, commit_properties=_commit_properties(contract, f"{name} may be NULL")
        )
    if wider:
        _widen_types(opened, contract, wider)
    keeps_log = keep_log(opened, contract)
    return keeps_log or bool(absent or loosened or wider)


def keep_log(opened: "DeltaTable", contract: Contract) -> bool:
    """Give a table back the properties by which no program cleans its log, where others took them,
    as a RESTORE to before its adoption does. Returns whether it wrote. The caller holds the
    lock."""
    present = opened.metadata().configuration
    lost = {name: value for name, value in KEEPS_LOG.items() if present.get(name) != value}
    if lost:
        noted = _commit_properties(contract, "keeps its log")
        opened.alter.set_table_properties(lost, raise_if_not_exists=False, commit_properties=noted)
    return bool(lost)


def _widen_types(opened: "DeltaTable", contract: Contract, wider: Mapping[str, ColumnType]) -> None:
    """Commit a schema with these types; no file changes, because no row meets the predicate."""
    import pyarrow as pa

    opened.update_incremental()

    def widened(field: Any) -> Any:
        """The field of a column in its new type."""
        if field.name not in wider:
            return field
        comment = (field.metadata or {}).get("comment", "")
        return delta_schema(
            [Column(field.name, str(wider[field.name]), comment, field.nullable)]
        ).fields[0]

    schema = pa.schema(Schema([widened(f) for f in opened.schema().fields]).to_arrow())
    note = ", ".join(f"{name} {kind}" for name, kind in wider.items())
    write_deltalake(
        opened,
        schema.empty_table(),
        mode="overwrite",
        schema_mode="overwrite",
        predicate="false",
        commit_properties=_commit_properties(contract, f"widens to {note}"),
    )


def schema_contract(contract: Contract, opened: "DeltaTable") -> Contract:
    """Contract with the columns of the table's schema, which files of earlier versions fit. Columns
    of types that contracts do not know are left out."""
    kinds, columns = column_types_by_day(opened, contract.day_column), []
    for field in opened.schema().fields:
        if (kind := kinds[field.name]) is not None:
            columns.append(Column(field.name, str(kind), "", field.nullable))
    return replace(contract, columns=tuple(columns), key=(), inputs=(), rules=())


def _commit_properties(contract: Contract, note: str) -> "CommitProperties":
    """Commit properties with a receipt of no days, which marks the commit as ours."""
    receipt = Receipt(
        write_id=uuid.uuid4().hex, table=contract.name, reason=COLUMNS_REASON, days={}, note=note
    )
    return CommitProperties(
        custom_metadata={"userMetadata": receipt.to_json()}, max_commit_retries=0
    )


def _refuse_other_types(
    path: Place, contract: Contract, types: "dict[str, ColumnType | None]"
) -> None:
    """Raise ContractBroken where columns have other types than the contract; `types`: those in the
    table (None: of a type that no contract has)."""
    other = [c for c in contract.columns if c.name in types and types[c.name] != c.kind]
    if not other:
        return
    first, wrong = other[0].name, []
    for column in other:
        kind = types[column.name] or "of a type that is none of ours"
        wrong.append(f"{column.name} is {kind}, not {column.type}")
    fix = (
        "INT may become BIGINT, and a DECIMAL have more digits. Else give the column its type "
        f"back, and the new type to a column of another name (e.g. {first}_2, in `select` too): "
        f"only what reads that one is made again; or move {path} away, as `backfill-assets "
        "status` says, and make it again with `backfill-assets catch-up`"
    )
    if contract.external:
        fix = (
            f"Have its owner give the column its type back in {contract.external}, or give the "
            "table a new name"
        )
    culprit = f"{', '.join(wrong)}: {OTHER_TYPE}"
    raise ContractBroken(f"the table {path.name}", culprit, "Nothing was written", fix)


def _refuse_other_case(path: Place, absent: Iterable[Column], present: Iterable[str]) -> None:
    """Raise ContractBroken where an absent column has the name of one present but for its case."""
    by_lower = {name.lower(): name for name in present}
    for column in absent:
        present_name = by_lower.get(column.name.lower())
        if present_name is None:
            continue
        raise ContractBroken(
            f"the table {path.name}",
            f"its files have the column {present_name}, the contract {column.name}: for SQL, names "
            "that differ by case are one column",
            "Nothing was written",
            f"Call it {present_name} again, or give it another name",
        )


def columns_misfit(
    schema: "pa.Schema", contract: Contract, optional_columns: Collection[str] = ()
) -> str:
    """Describe how a file's columns differ from the contract's; "" if they do not. The file may
    lack `optional_columns`, and have narrower types, which readers cast."""
    found, columns, expected = dict[str, Any](), dict[str, str](), dict[str, str]()
    for field in schema:
        if field.name != contract.partition_column:
            found[field.name] = field.type
            columns[field.name] = arrow_name(field.type)
    for column in contract.columns:
        name = column.name
        is_left_out = name not in found and name in optional_columns
        if name == contract.partition_column or is_left_out:
            continue
        is_narrower = name in found and column.kind.is_wider_than(type_of_arrow(found[name]))
        expected[name] = arrow_name(found[name] if is_narrower else arrow_type(column.kind))
    return "" if columns == expected else f"{columns}, not {expected}"


@dataclass(frozen=True)
class Footer:
    """Footer of a Parquet file: pyarrow's metadata, and the columns as Arrow types.

    Read columns from `schema`, never from `metadata.schema`: metadata and schema refer to each
    other, so that the 20 KiB of a footer would stay until Python collects garbage: 70 MiB for 3,650
    files.
    """

    metadata: Any
    schema: "pa.Schema"


def read_footer(source: Path | BinaryIO) -> Footer:
    """The footer of a file; raises OSError or pyarrow's ArrowInvalid where it cannot be read."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(source) as file:
        return Footer(file.metadata, _with_instants(file.schema_arrow))


def footer_in(place: Place, name: str, *, at_hand: bool = False) -> Footer:
    """The footer of a file of a place, of which a store sends the end alone, if any; raises as
    `read_footer` does."""
    with place.open(name, at_end=True, at_hand=at_hand) as opened:
        return read_footer(opened)


def _with_instants(schema: "pa.Schema") -> "pa.Schema":
    """The columns of a file, INT96 as the instants that Spark writes so: Arrow sees nanoseconds
    without a zone."""
    import pyarrow as pa

    instant = arrow_type(ColumnType("TIMESTAMP"))
    return pa.schema([f.with_type(instant) if f.type == pa.timestamp("ns") else f for f in schema])


def file_statistics(footer: Footer) -> str:
    """The `stats` of Delta's `add` action: rows and NULLs. Least and greatest values are left out:
    a log is never changed, and they may name an entity that is to be forgotten. Readers find them
    in the file's own footer."""
    import pyarrow as pa

    metadata, nulls = footer.metadata, Counter[str]()
    # Of an array's elements, which have longer paths, statistics say nothing of the column.
    flat = {field.name for field in footer.schema if not pa.types.is_nested(field.type)}
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if column.path_in_schema not in flat:
                continue
            if column.statistics is None or not column.statistics.has_null_count:
                flat.remove(column.path_in_schema)
            else:
                nulls[column.path_in_schema] += column.statistics.null_count
    counts = {name: nulls[name] for name in sorted(flat & nulls.keys())}
    statistics = {"numRecords": metadata.num_rows, "nullCount": counts}
    return json.dumps(statistics, separators=(",", ":"))


def rows_where(table: Place, files: Iterable[str], where: "pc.Expression") -> list[dict[str, Any]]:
    """The rows of files for which `where` holds; of a store's by copies that this machine keeps. Of
    large files, no more than some batches of the others are in memory at once."""
    import pyarrow.dataset as ds

    rows: list[dict[str, Any]] = []
    for name in files:
        path = table.local(name)
        status = path.stat()
        if status.st_size <= SMALL_FILE:
            found = _small_file(str(path), status.st_size, status.st_mtime_ns).filter(where)
        else:
            dataset = ds.dataset(str(path), format="parquet")
            found = dataset.to_table(filter=where, batch_size=BATCH_ROWS, batch_readahead=1)
        rows += found.to_pylist()
    return rows


@lru_cache(maxsize=128)
def _small_file(path: str, _size: int, _changed_ns: int) -> "pa.Table":
    """All rows of a file, while it stays as it is: a load asks each file of a ledger six times."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path).read()


def rows_of_files(
    table: Place, files: Iterable[str], names: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The rows of small files, of a store's by copies that this machine keeps: delta-rs would ask
    for each three times at each look. `names`: columns (none: all of each file); one that a file
    lacks is NULL."""
    import pyarrow.parquet as pq

    rows = []
    for name in files:
        for row in pq.ParquetFile(table.local(name)).read().to_pylist():
            rows.append({column: row.get(column) for column in names} if names else row)
    return rows
