"""Rows that DuckDB writes to a staging: of a query, of Arrow batches, and published rows merged
with new ones.

Not here: the rows of a frame, which an engine writes (`engines.frame_files`), the life of a staging
(`staging`), whether an upsert is allowed (`kernel.write.derived`), and publishing.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.errors import ContractBroken
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.log.log import LiveFile
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.columns import duckdb_name, footer_in
from backfill_assets.kernel.tables.data_files import (
    files_of_version,
    local_paths,
    refuse_altered_files,
)
from backfill_assets.kernel.tables.embedded import (
    duckdb_cursor,
    explaining_unreadable,
    rows_query,
    sql_literal,
)
from backfill_assets.kernel.tables.fingerprints import on_days, quoted_list, quoted_name
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.staging import Staged, StagedFile, fill_staging

if TYPE_CHECKING:
    import pyarrow as pa

GIVEN_ROWS = "given_rows"  # the name of rows that come by Arrow in a query


def stage_query(lake: LakeFolder, contract: Contract, query: str) -> Staged:
    """Write the rows of a DuckDB query, whose columns have the contract's names and types, without
    a JVM.

    The caller owns the staging. Raises what DuckDB raises, after dropping the files.
    """
    with fill_staging(lake, contract) as staged:
        _copy_query(lake, contract, query, staged)
        staged.files = staged.found(contract.partition_column)
    return staged


def fill_by_batches(
    lake: LakeFolder,
    contract: Contract,
    batches: "pa.RecordBatchReader",
    staged: Staged,
    below: str = "",
) -> None:
    """Make rows that come by Arrow, with columns of the contract's names, the only files of a
    staging. `below`: a folder of the staging from which they stream ("": none); it is deleted
    afterwards. Raises ContractBroken where a value cannot become one of its column's type."""
    cast = ", ".join(
        f"CAST({quoted_name(c.name)} AS {duckdb_name(c.kind)}) AS {quoted_name(c.name)}"
        for c in contract.columns
    )
    with explaining_unreadable(contract):
        _copy_query(lake, contract, f"SELECT {cast} FROM {GIVEN_ROWS}", staged, batches)
    if below:
        staged.table.delete_below(f"{staged.name}/{below}")
    staged.files = staged.found(contract.partition_column)


def lay_out_files(lake: LakeFolder, contract: Contract, staged: Staged, below: str) -> None:
    """Make the rows of the Parquet files in a folder `below` a staging its only files, laid out by
    the partition column; deletes the folder. Raises ContractBroken if they cannot be read back."""
    listed = ", ".join(sql_literal(f.path) for f in staged.found("", below))
    with explaining_unreadable(contract):
        rows = f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false)"
        _copy_query(lake, contract, rows, staged)
    staged.table.delete_below(f"{staged.name}/{below}")
    staged.files = staged.found(contract.partition_column)


def _copy_query(
    lake: LakeFolder,
    contract: Contract,
    query: str,
    staged: Staged,
    given: "pa.RecordBatchReader | None" = None,
) -> None:
    """Write the rows of a query, which may read the rows `given` by the name `GIVEN_ROWS`, to the
    folder of a staging, whose files they are not yet (`Staged.found`)."""
    column = contract.partition_column
    layout = f", PARTITION_BY ({quoted_name(column)}), OVERWRITE_OR_IGNORE" if column else ""
    names = quoted_list(contract.column_names)
    target = sql_literal(str(staged.folder if column else staged.folder / "part-0.parquet"))
    with duckdb_cursor(lake) as engine:
        if given is not None:
            engine.register(GIVEN_ROWS, given)
        engine.execute(f"COPY (SELECT {names} FROM ({query})) TO {target} (FORMAT parquet{layout})")


def merge_days(
    lake: LakeFolder,
    contract: Contract,
    staged: Staged | None,
    live: Sequence[LiveFile],
    days: Collection[date],
) -> tuple[list[StagedFile], list[LiveFile]]:
    """The new files and the live ones they replace, for a table whose files hold several days:
    afterwards it holds the staged rows for `days`. The new files lie in the staging's folder and
    are dropped with it.
    """
    if staged is None:
        column = contract.partition_column
        raise ValueError(f"{contract.name}: days of a table laid out by {column} need a staging")
    table = lake.table_place(contract.name)
    of_days = on_days(contract.day_column, sorted(days))
    live_rows = rows_query(local_paths(table, live), contract)
    touched = {f.partition for f in staged.files}
    touched |= _distinct_values(lake, live_rows, contract.partition_column, of_days)
    replaced = [f for f in live if f.partition in touched]
    _refuse_older_days(lake, contract, replaced, of_days)
    adds = []
    for value in sorted(v for v in touched if v is not None):
        name = f"{staged.name}/{contract.partition_column}={value}/merged.parquet"
        live_part = _rows_of_value(table, contract, replaced, value)
        new = rows_query(staged.paths_of(value), contract)
        # Only of these days: a day that is staged and did not change is kept, and would be there
        # twice.
        kept = f"SELECT * FROM ({live_part}) WHERE NOT ({of_days})"
        rows = f"{kept} UNION ALL BY NAME SELECT * FROM ({new}) WHERE {of_days}"
        if _write_rows(lake, contract, name, rows):
            adds.append(StagedFile(table, name, value))
    return adds, replaced


def _rows_of_value(table: Place, contract: Contract, live: Sequence[LiveFile], value: str) -> str:
    """A query for the rows of the files with this partition value."""
    of_value = [file for file in live if file.partition == value]
    return rows_query(local_paths(table, of_value), contract)


def _refuse_older_days(
    lake: LakeFolder, contract: Contract, live: Iterable[LiveFile], of_days: str
) -> None:
    """Raise ContractBroken where files to be written again hold other days without a column of the
    contract: these would get NULL in it, and lose what they have under another name."""
    names = {*contract.column_names} - {contract.partition_column}
    table = lake.table_place(contract.name)
    older = [f for f in live if not names <= {*footer_in(table, f.path).schema.names}]
    if not older:
        return
    rows = rows_query(local_paths(table, older), contract)
    others = sorted(_distinct_values(lake, rows, contract.day_column, f"NOT ({of_days})"))
    if others:
        raise ContractBroken(
            f"the table {contract.name}",
            f"{ranges_text(others)} lie in the same files, and were made without columns of "
            "today's "
            "contract",
            "Nothing was written",
            "Make them and the days of this run in one run: `backfill-assets backfill --tables "
            f"{contract.name} --from {others[0]} --to {others[-1]}`, with a range that holds both",
        )


def _distinct_values(lake: LakeFolder, rows: str, column: str, where: str) -> set[Any]:
    """The values of a column in those rows of a query where a condition holds."""
    query = f"SELECT DISTINCT {quoted_name(column)} FROM ({rows}) WHERE {where}"
    with duckdb_cursor(lake) as engine:
        return {value for (value,) in engine.execute(query).fetchall()}


def add_standing_rows(
    lake: LakeFolder, contract: Contract, staged: Staged, version: int, days: Iterable[date]
) -> dict[date, int]:
    """Upsert: add to the staging the rows of these days at a version whose keys it lacks, one file
    per day.

    Returns how many rows were added, for days that have any. For tables laid out by day; version
    `NO_VERSION` means that the table does not exist. NULL in a key is a value like any other.
    """
    table = lake.table_place(contract.name)
    live = files_of_version(lake, contract, version) if exists_at(version) else []
    refuse_altered_files(table, live)
    keys = map(quoted_name, contract.key)
    same = " AND ".join(f"comes.{k} IS NOT DISTINCT FROM stands.{k}" for k in keys)
    with_rows, kept = {f.partition for f in live}, dict[date, int]()
    for day in days:
        value = str(day)
        if value not in with_rows:
            continue
        comes = rows_query(staged.paths_of(value), contract)
        lacking = f"NOT EXISTS (SELECT 1 FROM ({comes}) AS comes WHERE {same})"
        name = f"{staged.name}/{contract.partition_column}={day}/kept.parquet"
        stands = _rows_of_value(table, contract, live, value)
        rows = f"SELECT * FROM ({stands}) AS stands WHERE {lacking}"
        if count := _write_rows(lake, contract, name, rows):
            staged.files = (*staged.files, StagedFile(table, name, value))
            kept[day] = count
    return kept


def _write_rows(lake: LakeFolder, contract: Contract, name: str, rows: str) -> int:
    """Write the rows of a query to a new file, without the partition column and in the order of the
    contract's key; returns how many those are (0: no file)."""
    table = lake.table_place(contract.name)
    (folder, _, file) = name.rpartition("/")
    columns = quoted_list(n for n in contract.column_names if n != contract.partition_column)
    ordered = f"SELECT {columns} FROM ({rows}) ORDER BY {quoted_list(contract.key)}"
    target = sql_literal(str(table.prepared(folder) / file))
    with duckdb_cursor(lake) as engine:
        copy = f"COPY ({ordered}) TO {target} (FORMAT parquet, COMPRESSION zstd)"
        (written,) = engine.execute(copy).fetchone() or (0,)
    if not written:
        table.delete(name)
    return int(written)
