"""Writing rows to a staging: by Spark or Sail from a frame, by DuckDB from a query; laid out by the partition column.

Lives here: which tasks write which values, and reading staged rows back. Does not live here: the life of a staging
(`staging`), and the queries (`load.arrivals_sql`).
"""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.engine.sail import files_at_once
from backfill_assets.engine.session import said_or_asked, sail_scratch, say
from backfill_assets.lake import files
from backfill_assets.lake.embedded import connection, literal, telling_unreadable
from backfill_assets.lake.fingerprints import Dialect, quoted
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.staging import NO_VALUE, Staged, filling, found_files
from backfill_assets.lake.type_names import EIGHT_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY_FOLDERS = 4  # fewer, and Spark is as quick by itself
WHOLE = "whole"  # folder of the rows before DuckDB parts them


def stage(lake: LakeFolder, contract: Contract, frame: "DataFrame", days: int = 1) -> Staged:
    """Write a conformed frame once, of at most so many `days`, laid out by the contract's partition column.

    The caller owns the staging: `drop` or `keep` it. Raises what Spark raises, and ContractBroken if its files cannot
    be read back, after dropping them. Few rows of many days go to one file, which DuckDB parts: Spark takes 15 ms and
    more per folder, half of a write of thin days (60 days, 12,000 rows: 1.7 s against 0.7 s).
    """
    column, memory = contract.partition_column, lake.settings.spark.memory
    with filling(lake, contract) as staged:
        if days >= MANY_FOLDERS and column and is_of_few_rows(frame):
            _write_frame(frame, staged.folder / WHOLE, "", days, memory)
            found = ", ".join(literal(str(f.path)) for f in found_files(staged.folder / WHOLE, ""))
            with telling_unreadable(contract):
                _copy(lake, contract, f"SELECT * FROM read_parquet([{found}], hive_partitioning = false)", staged)
        else:
            _write_frame(frame, staged.folder, column, days, memory, _varied(contract))
            staged.files = found_files(staged.folder, column)
    return staged


def stage_query(lake: LakeFolder, contract: Contract, query: str) -> Staged:
    """Write the rows of a DuckDB query, whose columns have the contract's names and types, without a JVM.

    The caller owns the staging. Raises what DuckDB raises, after dropping the files.
    """
    with filling(lake, contract) as staged:
        _copy(lake, contract, query, staged)
    return staged


def _copy(lake: LakeFolder, contract: Contract, query: str, staged: Staged) -> None:
    """Make the rows of a query the only files of a staging."""
    column = contract.partition_column
    layout = f", PARTITION_BY ({quoted(column, Dialect.DUCKDB)}), OVERWRITE_OR_IGNORE" if column else ""
    names = ", ".join(quoted(n, Dialect.DUCKDB) for n in contract.column_names)
    target = literal(str(staged.folder if column else staged.folder / "part-0.parquet"))
    with connection(lake) as engine:
        engine.execute(f"COPY (SELECT {names} FROM ({query})) TO {target} (FORMAT parquet{layout})")
    files.delete_folder(staged.folder / WHOLE)
    staged.files = found_files(staged.folder, column)


def _varied(contract: Contract) -> list[str]:
    """Columns without a dictionary: keys, which hardly repeat, and those of eight bytes, which compression alone makes
    as small. Trying a dictionary for each takes a third of the CPU of writing 1.8 M rows."""
    return [c.name for c in contract.columns if c.name in contract.key or c.kind.kind in EIGHT_BYTES]


def _write_frame(
    frame: "DataFrame", folder: Path, column: str, values: int, memory: str, varied: Collection[str] = ()
) -> None:
    """Write a frame below a folder with the timestamps that readers of Delta expect: microseconds, which have
    statistics, where Spark's default INT96 has none."""
    say(frame.sparkSession, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"})
    write(frame, folder, column, values, memory, varied)


def write(
    frame: "DataFrame", folder: Path, column: str, values: int, memory: str, varied: Collection[str] = ()
) -> None:
    """Write the rows to a folder by the values of `column` ("": none): one file per value if it is small.

    `values` is how many there may be, `memory` the engine's, `varied` names columns without a dictionary. Raises what
    the engine raises, and leaves its files.
    """
    scratch = sail_scratch(frame.sparkSession)
    if scratch is None:
        _write(_in_tasks(frame, column), folder, column, varied)
    elif not column:
        _write(frame.coalesce(1), folder, column)
    elif values <= (most := files_at_once(memory, len(frame.columns))):
        _write(_by_value(_named(frame, column), column), folder, column)
    else:
        _in_turn(_named(frame, column), folder, column, most, scratch / f"unordered_{folder.name}")


def is_of_few_rows(frame: "DataFrame") -> bool:
    """Whether the frame's session expects so few rows that one task of Spark handles them."""
    session = frame.sparkSession
    return sail_scratch(session) is None and said_or_asked(session, "spark.sql.shuffle.partitions") == "1"


def _write(rows: "DataFrame", folder: Path, column: str, varied: Collection[str] = ()) -> None:
    writer = rows.write.mode("append").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer = writer.option("mapreduce.fileoutputcommitter.algorithm.version", "2")  # nobody reads it half done
    for name in varied:
        writer = writer.option(f"parquet.enable.dictionary#{name}", "false")
    (writer.partitionBy(column) if column else writer).parquet(str(folder))


def _in_tasks(frame: "DataFrame", column: str) -> "DataFrame":
    """Put the rows of a value into one task if they are few: each task writes a file for it."""
    session = frame.sparkSession
    if not column or said_or_asked(session, "spark.sql.shuffle.partitions") == "1":
        return frame.coalesce(1)
    if said_or_asked(session, "spark.sql.adaptive.enabled") == "true":
        return frame.hint("rebalance", column)
    return frame.repartition(column)  # without adaptive execution Spark ignores the hint


def _named(frame: "DataFrame", column: str) -> "DataFrame":
    """Rows with the names of their folders: Sail takes a NULL for 1970-01-01 when it writes a folder per date."""
    from pyspark.sql import functions as F

    return frame.withColumn(column, F.coalesce(F.col(column).cast("string"), F.lit(NO_VALUE)))


def _by_value(rows: "DataFrame", column: str) -> "DataFrame":
    """One value after the other: Sail has as many tasks as cores, and this takes a third of the CPU."""
    return rows.repartition(column).sortWithinPartitions(column)


def _in_turn(rows: "DataFrame", folder: Path, column: str, most: int, aside: Path) -> None:
    """Write at most so many values at once: Sail keeps a file open for each until the last row, and cannot spill
    them. The rows are computed once, to files aside."""
    from pyspark.sql import functions as F

    try:
        _write(rows.sortWithinPartitions(column), aside, "")
        known = rows.sparkSession.read.schema(rows.schema).parquet(str(aside))
        values = sorted(r[0] for r in known.select(column).distinct().collect())
        for place in range(0, len(values), most):
            some = values[place : place + most]
            _write(_by_value(known.where(F.col(column).between(some[0], some[-1])), column), folder, column)
    finally:
        files.delete_folder(aside)


def read_staged(session: "SparkSession", contract: Contract, staged: Staged) -> "DataFrame":
    """The staged rows as a frame of the contract's columns."""
    if not staged.files:
        return session.sql("SELECT 1").where("false").selectExpr(
            *(f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in contract.columns)
        )  # fmt: skip
    laid_out_by = contract.partition_column
    types = {c.name: "STRING" if c.name == laid_out_by else c.type for c in contract.columns}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
    found = session.read.schema(schema).option("basePath", str(staged.folder)).parquet(str(staged.folder))
    # Sail takes the folder of NULL for a text like any other, which is no value of another type.
    valued = f"CASE WHEN `{laid_out_by}` <> '{NO_VALUE}' THEN `{laid_out_by}` END"
    return found.selectExpr(
        *(f"CAST({valued} AS {c.type}) AS `{c.name}`" if c.name == laid_out_by else f"`{c.name}`"
          for c in contract.columns)
    )  # fmt: skip
