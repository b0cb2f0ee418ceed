"""Writing a frame's rows as Parquet files, laid out by the partition column: how each engine is asked to do it.

Lives here: which tasks write which values, and that Sail never has more files open than its memory holds. Does not live
here: where a write's files lie and who still needs them (`staging`).
"""

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.engine.sail import files_at_once
from backfill_assets.engine.session import said_or_asked, sail_scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # how Spark and DuckDB name the folder of NULL


def write(
    frame: "DataFrame", folder: Path, column: str, values: int, memory: str, varied: Collection[str] = ()
) -> None:
    """Write the rows to a folder, by the values of `column` where it has a name: one file per value where it is small.
    `values` is how many there may be, `memory` the engine's, `varied` columns for which Spark makes no dictionary.
    Raises what the engine raises, and leaves its files.
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
    """Whether the frame's session expects so few rows that one task of Spark does them all."""
    session = frame.sparkSession
    return sail_scratch(session) is None and said_or_asked(session, "spark.sql.shuffle.partitions") == "1"


def _write(rows: "DataFrame", folder: Path, column: str, varied: Collection[str] = ()) -> None:
    writer = rows.write.mode("append").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer = writer.option("mapreduce.fileoutputcommitter.algorithm.version", "2")  # nobody reads it half done
    for name in varied:
        writer = writer.option(f"parquet.enable.dictionary#{name}", "false")
    (writer.partitionBy(column) if column else writer).parquet(str(folder))


def _in_tasks(frame: "DataFrame", column: str) -> "DataFrame":
    """The rows laid out so that those of a value are in one task where they are few: each task writes a file for it."""
    session = frame.sparkSession
    if not column or said_or_asked(session, "spark.sql.shuffle.partitions") == "1":
        return frame.coalesce(1)
    if said_or_asked(session, "spark.sql.adaptive.enabled") == "true":
        return frame.hint("rebalance", column)
    return frame.repartition(column)  # Spark knows no rebalancing then, and would not say so


def _named(frame: "DataFrame", column: str) -> "DataFrame":
    """The rows with the names of their folders: Sail takes a NULL for 1970-01-01 where it writes a folder per date."""
    from pyspark.sql import functions as F

    return frame.withColumn(column, F.coalesce(F.col(column).cast("string"), F.lit(NO_VALUE)))


def _by_value(rows: "DataFrame", column: str) -> "DataFrame":
    """Sail's tasks are as many as its cores, whatever the rows; one value after the other costs a third of the CPU."""
    return rows.repartition(column).sortWithinPartitions(column)


def _in_turn(rows: "DataFrame", folder: Path, column: str, most: int, aside: Path) -> None:
    """So many values at once: Sail opens a file for each and closes none before the last row, and what these hold
    cannot go to disk. The rows are computed once, to files aside."""
    from pyspark.sql import functions as F

    try:
        _write(rows.sortWithinPartitions(column), aside, "")
        known = rows.sparkSession.read.schema(rows.schema).parquet(str(aside))
        values = sorted(r[0] for r in known.select(column).distinct().collect())
        for place in range(0, len(values), most):
            some = values[place : place + most]
            _write(_by_value(known.where(F.col(column).between(some[0], some[-1])), column), folder, column)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
