"""Frames of a table version, from the plain Parquet files that its log names, without Delta inside Spark.

Lives here: whether a version is so plain that its files are its rows, and reading those of some days. Does not live
here: what else Delta's protocol allows, which is left to Delta's own reader.

Delta's reader replays the log with jobs of Spark's own, three to six for each new version: on thin days that cost more
than the query.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.engine.confs import SAIL
from backfill_assets.engine.session import OwnServer, own_server, sail_scratch
from backfill_assets.lake.data_files import live_files, refuse_altered
from backfill_assets.lake.files import linked
from backfill_assets.lake.log_state import LOGS
from backfill_assets.lake.type_names import spark_name, type_of_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAIN_READER = 1  # of Delta's protocol: no deletion vectors, no renamed columns
GLOB_SIGNS = "*?[]{}\\"  # Spark takes a path with one of them for a pattern
# What one task reads: a query over it needs no shuffle. Longer spans are many small files, which cost time to open.
ONE_TASK_FILES, ONE_TASK_BYTES = 64, 1 << 20


@dataclass(frozen=True)
class PlainFiles:
    """The files with the wanted rows, the table's columns with Spark's types in order, the partition column, and the
    bytes of all files."""

    paths: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    partition_column: str
    size: int

    @property
    def are_few(self) -> bool:
        """Whether one task reads them sooner than several would begin."""
        return len(self.paths) <= ONE_TASK_FILES and self.size <= ONE_TASK_BYTES


def read_frame(
    session: "SparkSession", table: Path, version: int, day_column: str, days: Sequence[date] | None = None
) -> "DataFrame":
    """The rows of some days (None: all) of a table at a version: from the plain files of the days, or by Delta's reader
    in Spark if these alone do not give the rows. Raises BackfillError if Sail would need Delta's reader."""
    plain = plain_files(table, version, day_column, days)
    if plain is not None:
        return read_plain(session, plain)
    if sail_scratch(session) is not None:
        raise BackfillError(
            f"the table {table.name}", "another program gave it what Sail was not tried with", "It was not read",
            'Set engine = "embedded" for this lake',
        )  # fmt: skip
    refuse_altered(table, live_files(LOGS.opened(table, version), ""))
    frame = session.read.format("delta").option("versionAsOf", version).load(str(table))
    if days is None:
        return frame
    return frame.where(days_predicate(day_column, days)) if days else frame.limit(0)


def days_predicate(column: str, days: Iterable[date]) -> str:
    """The exact days as Spark SQL: typed dates as an IN list, because BETWEEN on a partition column has failed inside
    Delta 4.4.0 with Spark 4.2 (facts: delta). Raises ValueError for no day, which must never mean the whole table."""
    listed = ", ".join(f"DATE'{d.isoformat()}'" for d in sorted(set(days)))
    if not listed:
        raise ValueError("a predicate of days needs at least one")
    return f"`{column}` IN ({listed})"


def plain_files(table: Path, version: int, day_column: str, days: Collection[date] | None) -> PlainFiles | None:
    """The files of a version with rows of these days (None: all). None where its files alone do not tell its rows: the
    table is not laid out by its day, or another program gave it what our tables do not have. Raises Altered where one
    of them has another size than the log says.
    """
    opened = LOGS.opened(table, version)
    kinds = [(f.name, type_of_delta(f.type)) for f in opened.schema().fields]
    columns = tuple((name, spark_name(kind)) for name, kind in kinds if kind is not None)
    laid_out = opened.metadata().partition_columns == [day_column]
    if not laid_out or opened.protocol().min_reader_version > PLAIN_READER or len(columns) < len(kinds):
        return None
    live = live_files(opened, day_column)
    named = None if days is None else {str(d) for d in days}
    chosen = [f for f in live if named is None or f.partition in named]
    refuse_altered(table, chosen)
    paths = tuple(str(table / f.path) for f in chosen)
    told = all(f"/{day_column}={f.partition}/" in f"/{f.path}" for f in chosen)
    if not told or any(s in str(table) for s in GLOB_SIGNS):
        return None
    return PlainFiles(paths, columns, day_column, sum(f.size for f in chosen))


def read_plain(
    session: "SparkSession", files: PlainFiles, server_of: "Callable[[SparkSession], OwnServer | None]" = own_server
) -> "DataFrame":
    """The rows of the files; the partition's value is read off each file's path, as it was checked to stand there.
    `server_of`: the server behind a session that may be given links to files (None: it may not)."""
    if not files.paths:
        return session.sql("SELECT 1").where("false").selectExpr(
            *(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in files.columns)
        )  # fmt: skip
    server = server_of(session)
    rows = _read_links(session, files, server.scratch) if server else _read_named(session, files)
    return rows if (server and server.engine == SAIL) or not files.are_few else rows.coalesce(1)


def _read_named(session: "SparkSession", files: PlainFiles) -> "DataFrame":
    """The rows by an engine that may not see folders of this machine; it takes the day of each row from its file."""
    from pyspark.sql import functions as F

    day = files.partition_column
    stored = ", ".join(f"`{name}` {kind}" for name, kind in files.columns if name != day)
    frame = session.read.schema(stored).option("recursiveFileLookup", "true").parquet(*files.paths)
    named = F.substring_index(F.substring_index(F.col("_metadata.file_path"), f"{day}=", -1), "/", 1).cast("date")
    return frame.select(*(named.alias(day) if name == day else F.col(f"`{name}`") for name, _ in files.columns))


def _read_links(session: "SparkSession", files: PlainFiles, scratch: Path) -> "DataFrame":
    """The rows by an engine of ours, from a folder of links whose partitions it reads: once per file, where the name of
    a row's file took a twelfth of the CPU of a long range, and Sail knows no such name."""
    day = files.partition_column
    named = ((path.rpartition(f"/{day}=")[2].partition("/")[0], Path(path)) for path in files.paths)
    schema = ", ".join(f"`{name}` {kind}" for name, kind in files.columns)
    frame = session.read.schema(schema).parquet(str(linked(scratch, day, named)))
    return frame.select(*(f"`{name}`" for name, _ in files.columns))
