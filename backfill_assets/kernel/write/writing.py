"""Write rows to a staging: by the engine from a frame, by DuckDB from a query, and published rows
merged with new ones.

Not here: the life of a staging (`staging`), the queries (`intake.arrivals`), whether an upsert is
allowed (`kernel.write.computing`), and publishing (`replace`).
"""

import shutil
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.engines.engine_paths import engine_path, refuse_lost
from backfill_assets.engines.session import (
    conf_value,
    is_of_this_machine,
    own_server,
    set_confs,
    written_rows,
)
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ranges
from backfill_assets.kernel.core.errors import NOT_RUN, ContractBroken
from backfill_assets.kernel.log.log import LiveFile
from backfill_assets.kernel.tables.columns import EIGHT_BYTES, duckdb_name, footer_in
from backfill_assets.kernel.tables.data_files import files_of, refuse_altered
from backfill_assets.kernel.tables.embedded import (
    connection,
    explaining_unreadable,
    literal,
    selection,
)
from backfill_assets.kernel.tables.fingerprints import on_days, quoted
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.staging import NO_VALUE, Staged, StagedFile, filling

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

MANY_FOLDERS = 4  # fewer, and Spark is as quick by itself
SHUFFLE = "spark.sql.shuffle.partitions"
INSTANTS = "spark.sql.parquet.outputTimestampType"
GIVEN = "given_rows"  # the name of rows that come by Arrow in a query
WHOLE = "whole"  # folder of the rows before DuckDB parts them
WIDENING = {
    ("int", "bigint"),
    ("smallint", "bigint"),
    ("tinyint", "bigint"),
    ("smallint", "int"),
    ("tinyint", "int"),
}


def conform(frame: "DataFrame", contract: Contract) -> "DataFrame":
    """The frame's columns in the contract's order and types; raises ContractBroken listing every
    difference.

    Only widening of whole numbers is allowed. A missing column, too, would be written as NULL
    without a word.
    """
    from pyspark.sql import functions as F

    got = dict(frame.dtypes)
    wanted = {c.name: c.kind.spark for c in contract.columns}
    differences = [f"column {n} is missing" for n in wanted if n not in got]
    differences += [f"column {n} is not in the contract" for n in got if n not in wanted]
    differences += [
        f"column {n} is {got[n]}, not {t}"
        for n, t in wanted.items()
        if n in got and got[n] != t and (got[n], t) not in WIDENING
    ]
    if differences:
        raise ContractBroken(
            f"the table {contract.name}",
            "; ".join(differences),
            NOT_RUN,
            "Correct the transform or its contract, then run again",
        )
    return frame.select(*(F.col(n).cast(t).alias(n) for n, t in wanted.items()))


def stage(lake: LakeFolder, contract: Contract, frame: "DataFrame", days: int = 1) -> Staged:
    """Write a conformed frame once, of at most so many `days`, laid out by the contract's partition
    column.

    The caller owns the staging: `drop` or `keep` it. Raises what Spark raises, and ContractBroken
    if its files cannot be read back, after dropping them. Few rows of many days go to one file,
    which DuckDB parts: Spark takes 15 ms and more per folder, half of a write of thin days (60
    days, 12,000 rows: 1.7 s against 0.7 s).
    """
    column, memory = contract.partition_column, lake.settings.spark.memory
    # Keys hardly repeat, and eight bytes compress as well without a dictionary, which takes a third
    # of the CPU.
    varied = [
        c.name for c in contract.columns if c.name in contract.key or c.kind.kind in EIGHT_BYTES
    ]
    with filling(lake, contract) as staged:
        folder = engine_path(frame.sparkSession, staged.table, staged.name)
        # Readers of Delta expect microseconds, which have statistics, where Spark's default INT96
        # has none.
        set_confs(frame.sparkSession, {INSTANTS: "TIMESTAMP_MICROS"})
        # One task of Spark handles few rows.
        if days >= MANY_FOLDERS and column and conf_value(frame.sparkSession, SHUFFLE) == "1":
            counted = write(frame, f"{folder}/{WHOLE}", "", days, memory)
            whole = staged.found("", WHOLE)
            refuse_lost(
                frame.sparkSession, lake.place, staged.table, (f.name for f in whole), counted
            )
            parts = ", ".join(literal(f.path) for f in whole)
            with explaining_unreadable(contract):
                _copy(
                    lake,
                    contract,
                    f"SELECT * FROM read_parquet([{parts}], hive_partitioning = false)",
                    staged,
                )
        else:
            counted = write(frame, folder, column, days, memory, varied)
            staged.files = staged.found(column)
            refuse_lost(
                frame.sparkSession,
                lake.place,
                staged.table,
                (f.name for f in staged.files),
                counted,
            )
    return staged


def write_there(
    frame: "DataFrame", lake: LakeFolder, contract: Contract, staged: Staged, days: int = 1
) -> list[StagedFile]:
    """Let a frame's own session write its rows, of the contract's columns and types, to a staging;
    gives the new files, which are not yet among the staging's own."""
    folder, column = (
        engine_path(frame.sparkSession, staged.table, staged.name),
        contract.partition_column,
    )
    counted = write(frame, folder, column, days, lake.settings.spark.memory)
    known = {f.name for f in staged.files}
    added = [f for f in staged.found(column) if f.name not in known]
    refuse_lost(frame.sparkSession, lake.place, staged.table, (f.name for f in added), counted)
    return added


def stage_query(lake: LakeFolder, contract: Contract, query: str) -> Staged:
    """Write the rows of a DuckDB query, whose columns have the contract's names and types, without
    a JVM.

    The caller owns the staging. Raises what DuckDB raises, after dropping the files.
    """
    with filling(lake, contract) as staged:
        _copy(lake, contract, query, staged)
    return staged


def copy_batches(
    lake: LakeFolder, contract: Contract, batches: "pa.RecordBatchReader", staged: Staged
) -> None:
    """Make rows that come by Arrow, with columns of the contract's names, the only files of a
    staging. They stream. Raises ContractBroken where a value cannot become one of its column's
    type."""
    cast = ", ".join(
        f"CAST({quoted(c.name)} AS {duckdb_name(c.kind)}) AS {quoted(c.name)}"
        for c in contract.columns
    )
    with explaining_unreadable(contract):
        _copy(lake, contract, f"SELECT {cast} FROM {GIVEN}", staged, batches)


def _copy(
    lake: LakeFolder,
    contract: Contract,
    query: str,
    staged: Staged,
    given: "pa.RecordBatchReader | None" = None,
) -> None:
    """Make the rows of a query, which may be of `GIVEN`, the only files of a staging."""
    column = contract.partition_column
    layout = f", PARTITION_BY ({quoted(column)}), OVERWRITE_OR_IGNORE" if column else ""
    names = ", ".join(map(quoted, contract.column_names))
    target = literal(str(staged.folder if column else staged.folder / "part-0.parquet"))
    with connection(lake) as engine:
        if given is not None:
            engine.register(GIVEN, given)
        engine.execute(f"COPY (SELECT {names} FROM ({query})) TO {target} (FORMAT parquet{layout})")
    staged.table.delete_below(f"{staged.name}/{WHOLE}")
    staged.files = staged.found(column)


def write(
    frame: "DataFrame",
    folder: str,
    column: str,
    values: int,
    memory: str,
    varied: Collection[str] = (),
) -> int | None:
    """Write the rows to a folder by the values of `column` ("": none): one file per value if it is
    small.

    `values` is how many there may be, `memory` the engine's, `varied` names columns without a
    dictionary. Returns the rows that an engine elsewhere counted as its machines wrote them; None
    where nothing counts. Raises what the engine raises, and leaves its files.
    """
    server = own_server(frame.sparkSession)
    at_once = server.engine.files_at_once(memory, len(frame.columns)) if server else None
    if server is None or at_once is None:
        return _write(_in_tasks(frame, column), folder, column, varied)
    if not column:
        return _write(frame.coalesce(1), folder, column)
    if values <= at_once:
        return _write(_by_value(_with_folder_names(frame, column), column), folder, column)
    unordered = server.scratch / f"unordered_{folder.rpartition('/')[2]}"
    _in_turn(_with_folder_names(frame, column), folder, column, at_once, unordered)
    return None


def _write(rows: "DataFrame", folder: str, column: str, varied: Collection[str] = ()) -> int | None:
    # Nobody reads it half done. But version 2 shows what a task wrote that another machine does
    # again.
    options = {
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "mapreduce.fileoutputcommitter.algorithm.version": "2"
        if is_of_this_machine(rows.sparkSession)
        else "1",
        **{f"parquet.enable.dictionary#{name}": "false" for name in varied},
    }

    def save(frame: "DataFrame") -> None:
        """Write the frame's rows."""
        writer = frame.write.mode("append").options(**options)
        (writer.partitionBy(column) if column else writer).parquet(folder)

    return written_rows(rows, save)


def _in_tasks(frame: "DataFrame", column: str) -> "DataFrame":
    """Put the rows of a value into one task if they are few: each task writes a file for it."""
    session = frame.sparkSession
    if not column or conf_value(session, "spark.sql.shuffle.partitions") == "1":
        return frame.coalesce(1)
    if conf_value(session, "spark.sql.adaptive.enabled") == "true":
        return frame.hint("rebalance", column)
    return frame.repartition(column)  # without adaptive execution Spark ignores the hint


def _with_folder_names(frame: "DataFrame", column: str) -> "DataFrame":
    """Rows with the names of their folders: some engines write a NULL date to the folder of
    1970-01-01."""
    from pyspark.sql import functions as F

    return frame.withColumn(column, F.coalesce(F.col(column).cast("string"), F.lit(NO_VALUE)))


def _by_value(rows: "DataFrame", column: str) -> "DataFrame":
    """One value after the other: with as many tasks as cores, this takes a third of the CPU."""
    return rows.repartition(column).sortWithinPartitions(column)


def _in_turn(rows: "DataFrame", folder: str, column: str, at_once: int, unordered: Path) -> None:
    """Write at most so many values at once: the engine keeps a file open for each until the last
    row, and cannot spill them. The rows are computed once, to files `unordered`."""
    from pyspark.sql import functions as F

    try:
        _write(rows.sortWithinPartitions(column), str(unordered), "")
        known = rows.sparkSession.read.schema(rows.schema).parquet(str(unordered))
        values = sorted(row[0] for row in known.select(column).distinct().collect())
        for place in range(0, len(values), at_once):
            group = values[place : place + at_once]
            _write(
                _by_value(known.where(F.col(column).between(group[0], group[-1])), column),
                folder,
                column,
            )
    finally:
        shutil.rmtree(unordered, ignore_errors=True)  # in the engine's scratch


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
        raise ValueError(
            f"{contract.name}: days of a table laid out by {contract.partition_column} need a "
            "staging"
        )
    table, of_days = lake.table_place(contract.name), on_days(contract.day_column, sorted(days))
    live_rows = selection([str(table.local(f.path)) for f in live], contract)
    with connection(lake) as engine:
        column = quoted(contract.partition_column)
        values = engine.execute(
            f"SELECT DISTINCT {column} FROM ({live_rows}) WHERE {of_days}"
        ).fetchall()
    touched = {f.partition for f in staged.files} | {value for (value,) in values}
    _refuse_older_days(lake, contract, [f.path for f in live if f.partition in touched], of_days)
    adds = []
    for value in sorted(v for v in touched if v is not None):
        name = f"{staged.name}/{contract.partition_column}={value}/merged.parquet"
        live_part = selection(
            [str(table.local(f.path)) for f in live if f.partition == value], contract
        )
        new = selection([f.path for f in staged.files if f.partition == value], contract)
        # Only of these days: a day that is staged and did not change is kept, and would be there
        # twice.
        kept = f"SELECT * FROM ({live_part}) WHERE NOT ({of_days})"
        rows = f"{kept} UNION ALL BY NAME SELECT * FROM ({new}) WHERE {of_days}"
        if _write_rows(lake, contract, name, rows):
            adds.append(StagedFile(table, name, value))
    return adds, [f for f in live if f.partition in touched]


def _refuse_older_days(
    lake: LakeFolder, contract: Contract, live: Sequence[str], of_days: str
) -> None:
    """Raise ContractBroken where files to be written again hold other days without a column of the
    contract: these would get NULL in it, and lose what they have under another name."""
    names = {*contract.column_names} - {contract.partition_column}
    table = lake.table_place(contract.name)
    older = [str(table.local(f)) for f in live if not names <= {*footer_in(table, f).schema.names}]
    if not older:
        return
    with connection(lake) as engine:
        rows, day_column = selection(older, contract), quoted(contract.day_column)
        found = engine.execute(
            f"SELECT DISTINCT {day_column} FROM ({rows}) WHERE NOT ({of_days})"
        ).fetchall()
    if others := sorted(day for (day,) in found):
        raise ContractBroken(
            f"the table {contract.name}",
            f"{ranges(others)} lie in the same files, and were made without columns of today's "
            "contract",
            "Nothing was written",
            "Make them and the days of this run in one run: `backfill-assets backfill --tables "
            f"{contract.name} --from {others[0]} --to {others[-1]}`, with a range that holds both",
        )


def keep_rows(
    lake: LakeFolder, contract: Contract, staged: Staged, version: int, days: Iterable[date]
) -> dict[date, int]:
    """Upsert: add to the staging the rows of these days at a version whose keys it lacks, one file
    per day.

    Returns how many rows were added, for days that have any. For tables laid out by day; version -1
    means that the table does not exist. NULL in a key is a value like any other.
    """
    table = lake.table_place(contract.name)
    live = files_of(lake, contract, version) if version >= 0 else []
    refuse_altered(table, live)
    same = " AND ".join(
        f"comes.{k} IS NOT DISTINCT FROM stands.{k}" for k in map(quoted, contract.key)
    )
    kept: dict[date, int] = {}
    for day in days:
        stands = [str(table.local(f.path)) for f in live if f.partition == str(day)]
        if not stands:
            continue
        comes = selection([f.path for f in staged.files if f.partition == str(day)], contract)
        lacking = f"NOT EXISTS (SELECT 1 FROM ({comes}) AS comes WHERE {same})"
        name = f"{staged.name}/{contract.partition_column}={day}/kept.parquet"
        rows = f"SELECT * FROM ({selection(stands, contract)}) AS stands WHERE {lacking}"
        if count := _write_rows(lake, contract, name, rows):
            staged.files = (*staged.files, StagedFile(table, name, str(day)))
            kept[day] = count
    return kept


def _write_rows(lake: LakeFolder, contract: Contract, name: str, rows: str) -> int:
    """Write the rows of a query to a new file, without the partition column and in the order of the
    contract's key; returns how many those are (0: no file)."""
    table = lake.table_place(contract.name)
    target = str(table.prepared(name.rpartition("/")[0]) / name.rpartition("/")[2])
    kept = ", ".join(quoted(n) for n in contract.column_names if n != contract.partition_column)
    ordered = f"SELECT {kept} FROM ({rows}) ORDER BY {', '.join(map(quoted, contract.key))}"
    with connection(lake) as engine:
        copy = f"COPY ({ordered}) TO {literal(target)} (FORMAT parquet, COMPRESSION zstd)"
        (written,) = engine.execute(copy).fetchone() or (0,)
    if not written:
        table.delete(name)
    return int(written)
