"""Write the rows of a frame to a staging, by the engine of its session: conformed to the contract,
laid out by its partition column, few files at once.

Not here: rows that DuckDB writes (`kernel.tables.query_files`), the life of a staging
(`kernel.tables.staging`), and reading frames (`table_frames`).
"""

import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.engines.engine_paths import engine_path, refuse_lost_files
from backfill_assets.engines.session import (
    conf_value,
    is_of_this_machine,
    own_server,
    set_confs,
    written_rows,
)
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import NOT_RUN, ContractBroken
from backfill_assets.kernel.core.payload import LANDED
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.query_files import lay_out_files
from backfill_assets.kernel.tables.staging import NO_VALUE, Staged, StagedFile, fill_staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY_FOLDERS = 4  # fewer, and Spark is as quick by itself
SHUFFLE = "spark.sql.shuffle.partitions"
INSTANTS = "spark.sql.parquet.outputTimestampType"
WHOLE = "whole"  # folder of the rows before DuckDB parts them
EIGHT_BYTES = ("BIGINT", "DOUBLE", "TIMESTAMP")  # of each value in a file without a dictionary
WIDENING = {
    ("int", "bigint"),
    ("smallint", "bigint"),
    ("tinyint", "bigint"),
    ("smallint", "int"),
    ("tinyint", "int"),
}


def conformed_frame(frame: "DataFrame", contract: Contract) -> "DataFrame":
    """The frame's columns in the contract's order and types; raises ContractBroken listing every
    difference.

    Only widening of whole numbers is allowed. A missing column, too, would be written as NULL
    without a word.
    """
    from pyspark.sql import functions as F

    wanted = {c.name: c.kind.spark for c in contract.columns}
    differences = _column_differences(dict(frame.dtypes), wanted)
    if differences:
        raise ContractBroken(
            f"the table {contract.name}",
            "; ".join(differences),
            NOT_RUN,
            "Correct the transform or its contract, then run again",
        )
    return frame.select(*(F.col(n).cast(t).alias(n) for n, t in wanted.items()))


def _column_differences(got: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """How columns, with their types in Spark by name, differ from the wanted ones: first those that
    are missing, then those too many, then those of another type."""
    differences = [f"column {n} is missing" for n in wanted if n not in got]
    differences += [f"column {n} is not in the contract" for n in got if n not in wanted]
    for name, kind in wanted.items():
        found = got.get(name, kind)
        if found != kind and (found, kind) not in WIDENING:
            differences.append(f"column {name} is {found}, not {kind}")
    return differences


def stage_frame(lake: LakeFolder, contract: Contract, frame: "DataFrame", days: int = 1) -> Staged:
    """Write a conformed frame once, of at most so many `days`, laid out by the contract's partition
    column.

    The caller owns the staging: `drop` or `keep` it. Raises what Spark raises, and ContractBroken
    if its files cannot be read back, after dropping them. Few rows of many days go to one file,
    which DuckDB parts: Spark takes 15 ms and more per folder, half of a write of thin days (60
    days, 12,000 rows: 1.7 s against 0.7 s).
    """
    column, session = contract.partition_column, frame.sparkSession
    with fill_staging(lake, contract) as staged:
        # Readers of Delta expect microseconds, which have statistics, where Spark's default INT96
        # has none.
        set_confs(session, {INSTANTS: "TIMESTAMP_MICROS"})
        if days >= MANY_FOLDERS and column and _has_few_rows(session):
            _stage_by_duckdb(lake, contract, frame, staged, days)
        else:
            _stage_by_engine(lake, contract, frame, staged, days)
    return staged


def _has_few_rows(session: "SparkSession") -> bool:
    """Whether the session was prepared for so few rows that one task handles them."""
    return conf_value(session, SHUFFLE) == "1"


def _stage_by_duckdb(
    lake: LakeFolder, contract: Contract, frame: "DataFrame", staged: Staged, days: int
) -> None:
    """Write the rows to one folder, which DuckDB parts."""
    folder = engine_path(frame.sparkSession, staged.table, staged.name)
    counted = write_frame(frame, f"{folder}/{WHOLE}", "", days, lake.settings.spark.memory)
    _refuse_lost_rows(frame.sparkSession, staged, staged.found("", WHOLE), counted)
    lay_out_files(lake, contract, staged, WHOLE)


def _stage_by_engine(
    lake: LakeFolder, contract: Contract, frame: "DataFrame", staged: Staged, days: int
) -> None:
    """Let the engine part the rows by the partition column."""
    folder, column = (
        engine_path(frame.sparkSession, staged.table, staged.name),
        contract.partition_column,
    )
    varied = [c.name for c in contract.columns if _is_varied(contract, c)]
    counted = write_frame(frame, folder, column, days, lake.settings.spark.memory, varied)
    staged.files = staged.found(column)
    _refuse_lost_rows(frame.sparkSession, staged, staged.files, counted)


def _is_varied(contract: Contract, column: Column) -> bool:
    """Whether the values of a column get no dictionary: keys hardly repeat, but for what a load
    adds to each row, and eight bytes compress as well without one, which takes a third of the
    CPU."""
    is_key = column.name in contract.key or column.tags.get("role") == "key"
    return column.kind.kind in EIGHT_BYTES or (is_key and column.name not in LANDED)


def _refuse_lost_rows(
    session: "SparkSession", staged: Staged, files: Iterable[StagedFile], counted: int | None
) -> None:
    """Raise where these files hold other rows than `counted` ones (`refuse_lost`)."""
    refuse_lost_files(session, staged.lake, staged.table, (f.name for f in files), counted)


def stage_added_rows(
    frame: "DataFrame", lake: LakeFolder, contract: Contract, staged: Staged, days: int = 1
) -> list[StagedFile]:
    """Let a frame's own session write its rows, of the contract's columns and types, to a staging;
    gives the new files, which are not yet among the staging's own."""
    folder, column = (
        engine_path(frame.sparkSession, staged.table, staged.name),
        contract.partition_column,
    )
    counted = write_frame(frame, folder, column, days, lake.settings.spark.memory)
    known = {f.name for f in staged.files}
    added = [f for f in staged.found(column) if f.name not in known]
    _refuse_lost_rows(frame.sparkSession, staged, added, counted)
    return added


def write_frame(
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
    at_once = None
    if server and server.engine.bounds_files:  # to count columns, an engine analyses the plan
        at_once = server.engine.files_at_once(memory, len(frame.columns))
    if server is None or at_once is None:
        return _save_files(_few_tasks(frame, column), folder, column, varied)
    if not column:
        return _save_files(frame.coalesce(1), folder, column)
    if values <= at_once:
        return _save_files(
            _sorted_by_value(_with_folder_names(frame, column), column), folder, column
        )
    unordered = server.scratch / f"unordered_{folder.rpartition('/')[2]}"
    _write_in_turn(_with_folder_names(frame, column), folder, column, at_once, unordered)
    return None


def _save_files(
    rows: "DataFrame", folder: str, column: str, varied: Collection[str] = ()
) -> int | None:
    """Write the rows as Parquet files into `folder`, below a folder per value of `column` ("": in
    one). Columns of many values (`varied`) get no dictionary. Returns as `written_rows` does."""
    # Nobody reads the folder half done, so that the quicker version 2 would do; but it also shows
    # what a lost task wrote that another machine does again.
    version = "2" if is_of_this_machine(rows.sparkSession) else "1"
    options = {
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "mapreduce.fileoutputcommitter.algorithm.version": version,
        **{f"parquet.enable.dictionary#{name}": "false" for name in varied},
    }

    def save(frame: "DataFrame") -> None:
        """Write the frame's rows."""
        writer = frame.write.mode("append").options(**options)
        if column:
            writer = writer.partitionBy(column)
        writer.parquet(folder)

    return written_rows(rows, save)


def _few_tasks(frame: "DataFrame", column: str) -> "DataFrame":
    """Put the rows of a value into one task if they are few: each task writes a file for it."""
    session = frame.sparkSession
    if not column or _has_few_rows(session):
        return frame.coalesce(1)
    if conf_value(session, "spark.sql.adaptive.enabled") == "true":
        return frame.hint("rebalance", column)
    return frame.repartition(column)  # without adaptive execution Spark ignores the hint


def _with_folder_names(frame: "DataFrame", column: str) -> "DataFrame":
    """Rows with the names of their folders: some engines write a NULL date to the folder of
    1970-01-01."""
    from pyspark.sql import functions as F

    return frame.withColumn(column, F.coalesce(F.col(column).cast("string"), F.lit(NO_VALUE)))


def _sorted_by_value(rows: "DataFrame", column: str) -> "DataFrame":
    """One value after the other: with as many tasks as cores, this takes a third of the CPU."""
    return rows.repartition(column).sortWithinPartitions(column)


def _write_in_turn(
    rows: "DataFrame", folder: str, column: str, at_once: int, unordered: Path
) -> None:
    """Write at most so many values at once: the engine keeps a file open for each until the last
    row, and cannot spill them. The rows are computed once, to files `unordered`."""
    from pyspark.sql import functions as F

    try:
        _save_files(rows.sortWithinPartitions(column), str(unordered), "")
        known = rows.sparkSession.read.schema(rows.schema).parquet(str(unordered))
        values = sorted(row[0] for row in known.select(column).distinct().collect())
        for place in range(0, len(values), at_once):
            group = values[place : place + at_once]
            _save_files(
                _sorted_by_value(known.where(F.col(column).between(group[0], group[-1])), column),
                folder,
                column,
            )
    finally:
        shutil.rmtree(unordered, ignore_errors=True)  # in the engine's scratch
