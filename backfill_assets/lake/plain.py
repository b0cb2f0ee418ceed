"""Frames of a table version, from the plain Parquet files that its log names.

Not here: rows as Python values (`store`). Delta's own reader replays the log with three to six Spark jobs per version,
more than a query on thin days costs; it reads only what other programs gave a table.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.engine.session import OwnServer, engine_of, own_server
from backfill_assets.lake import files
from backfill_assets.lake.columns import spark_name, type_of_delta
from backfill_assets.lake.data_files import live_files, refuse_altered
from backfill_assets.lake.log_state import LOGS

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
    """The rows of some days (None: all) of a table at a version, by Delta's reader in Spark where the plain files do
    not give them. Raises BackfillError if the engine has no such reader, Altered for a file of another size."""
    plain = plain_files(table, version, day_column, days)
    if plain is not None:
        return read_plain(session, plain)
    if not (engine := engine_of(session)).reads_delta:
        raise BackfillError(
            f"the table {table.name}", f"another program gave it what {engine.name} cannot read", "It was not read",
            'Set engine = "embedded" for this lake',
        )  # fmt: skip
    refuse_altered(table, live_files(LOGS.opened(table, version), ""))
    frame = session.read.format("delta").option("versionAsOf", version).load(str(table))
    if days is None:
        return frame
    # Not BETWEEN, which has failed inside Delta 4.4.0 with Spark 4.2 on a partition column (facts: delta).
    listed = ", ".join(f"DATE'{d.isoformat()}'" for d in sorted(set(days)))
    return frame.where(f"`{day_column}` IN ({listed})") if days else frame.limit(0)


def plain_files(table: Path, version: int, day_column: str, days: Collection[date] | None) -> PlainFiles | None:
    """The files of a version with rows of these days (None: all); None if the files alone do not give its rows: the
    table is not laid out by its day, or another program gave it what our tables do not have."""
    opened = LOGS.opened(table, version)
    kinds = [(f.name, type_of_delta(f.type)) for f in opened.schema().fields]
    columns = tuple((name, spark_name(kind)) for name, kind in kinds if kind is not None)
    laid_out = opened.metadata().partition_columns == [day_column]
    if not laid_out or opened.protocol().min_reader_version > PLAIN_READER or len(columns) < len(kinds):
        return None
    named = None if days is None else {str(d) for d in days}
    chosen = [f for f in live_files(opened, day_column) if named is None or f.partition in named]
    refuse_altered(table, chosen)
    foldered = all(f"/{day_column}={f.partition}/" in f"/{f.path}" for f in chosen)
    if not foldered or any(s in str(table) for s in GLOB_SIGNS):
        return None
    return PlainFiles(tuple(str(table / f.path) for f in chosen), columns, day_column, sum(f.size for f in chosen))


def read_plain(
    session: "SparkSession", plain: PlainFiles, server_of: "Callable[[SparkSession], OwnServer | None]" = own_server
) -> "DataFrame":
    """The rows of the files; their paths hold the partition's value.
    `server_of`: the server behind a session that may be given links to files (None: it may not)."""
    if not plain.paths:
        nulls = (f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in plain.columns)
        return session.sql("SELECT 1").where("false").selectExpr(*nulls)
    server = server_of(session)
    rows = _read_links(session, plain, server.scratch) if server else _read_named(session, plain)
    return rows.coalesce(1) if plain.are_few else rows


def _read_named(session: "SparkSession", plain: PlainFiles) -> "DataFrame":
    """The rows by an engine that may not see folders of this machine; it takes the day of each row from its file."""
    from pyspark.sql import functions as F

    day = plain.partition_column
    stored = ", ".join(f"`{name}` {kind}" for name, kind in plain.columns if name != day)
    frame = session.read.schema(stored).option("recursiveFileLookup", "true").parquet(*plain.paths)
    named = F.substring_index(F.substring_index(F.col("_metadata.file_path"), f"{day}=", -1), "/", 1).cast("date")
    return frame.select(*(named.alias(day) if name == day else F.col(f"`{name}`") for name, _ in plain.columns))


def _read_links(session: "SparkSession", plain: PlainFiles, scratch: Path) -> "DataFrame":
    """The rows by an engine of ours, from a folder of links whose partitions it reads: once per file, where the name of
    a row's file took a twelfth of the CPU of a long range."""
    day = plain.partition_column
    named = ((path.rpartition(f"/{day}=")[2].partition("/")[0], Path(path)) for path in plain.paths)
    schema = ", ".join(f"`{name}` {kind}" for name, kind in plain.columns)
    frame = session.read.schema(schema).parquet(str(files.linked(scratch, day, named)))
    return frame.select(*(f"`{name}`" for name, _ in plain.columns))
