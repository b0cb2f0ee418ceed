"""Frames of the rows of a table at a version, read from its plain Parquet files where these alone
give its rows.

Not here: the files of a version (`kernel.tables.data_files`), and frames written (`frame_files`).
Delta's own reader replays the log with three to six Spark jobs per version, more than a query on
thin days costs; it reads only what other programs gave a table.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.engines.engine_paths import engine_path, linked_folder
from backfill_assets.engines.foreign import delta_frame
from backfill_assets.engines.session import OwnServer, own_server, session_engine
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.columns import column_types_by_day, read_footer, type_of_arrow
from backfill_assets.kernel.tables.data_files import live_files, refuse_altered_files
from backfill_assets.kernel.tables.folder import LakeFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


PLAIN_READER = 1  # of Delta's protocol: no deletion vectors, no renamed columns
GLOB_SIGNS = frozenset("*?[]{}\\")  # Spark takes a path with one of them for a pattern


@dataclass(frozen=True)
class PlainFiles:
    """The files with the wanted rows."""

    paths: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]  # in their order, with Spark's types
    partition_column: str  # "": none, and the files may hold rows of other days


def read_frame(
    session: "SparkSession",
    lake: LakeFolder,
    name: str,
    version: int,
    day_column: str,
    days: Sequence[date] | None = None,
) -> "DataFrame":
    """The rows of some days (None: all) of a table at a version, by Delta's reader in Spark where
    the plain files do not give them. Raises BackfillError if the engine has no such reader, Altered
    for a file that is gone or altered."""
    table = lake.table_place(name)
    plain = plain_files(table, version, day_column, days, partial(engine_path, session, table))
    if plain is not None:
        rows = read_plain(session, plain)
        return rows if plain.partition_column else _rows_of_days(rows, day_column, days)
    if not (engine := session_engine(session)).reads_delta:
        raise BackfillError(
            f"the table {table.name}",
            f"another program gave it what {engine.name} cannot read",
            "It was not read",
            'Set engine = "embedded" for this lake',
        )
    refuse_altered_files(table, live_files(LOGS.opened(table, version), ""))
    return _rows_of_days(
        delta_frame(session, engine_path(session, table), version), day_column, days
    )


def plain_files(
    table: Place,
    version: int,
    day_column: str,
    days: Collection[date] | None,
    path_of: Callable[[str], str | Path] | None = None,
) -> PlainFiles | None:
    """The files of a version with rows of these days (None: all); None if the files alone do not
    give its rows: the table is not laid out by its day, or another program gave it what our tables
    do not have. `path_of` gives what an engine calls a file (None: its path on this machine)."""
    opened = LOGS.opened(table, version)
    kinds = column_types_by_day(opened, day_column)
    columns = tuple((name, kind.spark) for name, kind in kinds.items() if kind is not None)
    laid_out = opened.metadata().partition_columns
    is_by_day = laid_out == [day_column]
    is_laid_out_otherwise = bool(laid_out) and not is_by_day
    has_unknown_type = len(columns) < len(kinds)
    needs_log = opened.protocol().min_reader_version > PLAIN_READER
    if is_laid_out_otherwise or needs_log or has_unknown_type:
        return None
    chosen = live_files(opened, day_column if is_by_day else "")
    if is_by_day and days is not None:
        day_texts = {str(day) for day in days}
        chosen = [f for f in chosen if f.partition in day_texts]
    refuse_altered_files(table, chosen)
    paths = [str((path_of or table.local)(f.path)) for f in chosen]
    for file, path in zip(chosen, paths, strict=True):
        # An engine takes the day from the name of the folder.
        is_in_folder = not is_by_day or f"/{day_column}={file.partition}/" in path
        if not is_in_folder or not GLOB_SIGNS.isdisjoint(path):
            return None
    return PlainFiles(tuple(paths), columns, day_column if is_by_day else "")


def _rows_of_days(frame: "DataFrame", day_column: str, days: Sequence[date] | None) -> "DataFrame":
    if days is None:
        return frame
    if not days:
        return frame.limit(0)
    # Not BETWEEN, which has failed inside Delta 4.4.0 with Spark 4.2 on a partition column (facts:
    # delta).
    listed = ", ".join(f"DATE'{day.isoformat()}'" for day in sorted({*days}))
    return frame.where(f"`{day_column}` IN ({listed})")


def read_plain(
    session: "SparkSession",
    plain: PlainFiles,
    server_of: "Callable[[SparkSession], OwnServer | None]" = own_server,
) -> "DataFrame":
    """The rows of the files; their paths hold the partition's value.
    `server_of`: the server behind a session that may be given links to files (None: it may not)."""
    if not plain.paths:
        nulls = (f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in plain.columns)
        return session.sql("SELECT 1").where("false").selectExpr(*nulls)
    server = server_of(session) if plain.partition_column else None
    groups = [plain] if session_engine(session).casts_files else _alike_files(plain)
    frames = list["DataFrame"]()
    for alike in groups:
        if server is not None:
            read = _read_by_links(session, alike, server.scratch)
        else:
            read = _read_with_path_days(session, alike)
        if alike.columns != plain.columns:
            cast = [f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in plain.columns]
            read = read.selectExpr(*cast)
        frames.append(read)
    return reduce(lambda one, other: one.union(other), frames)


def _alike_files(plain: PlainFiles) -> list[PlainFiles]:
    """The files in groups whose columns have the same types: older ones may have a narrower one."""
    groups = defaultdict[tuple[tuple[str, str], ...], list[str]](list)
    for path in plain.paths:
        kinds = _stored_types(path)
        columns = tuple((name, kinds.get(name, kind)) for name, kind in plain.columns)
        groups[columns].append(path)
    return [replace(plain, paths=tuple(paths), columns=kinds) for kinds, paths in groups.items()]


@lru_cache(maxsize=4096)
def _stored_types(path: str) -> dict[str, str]:
    """Spark's names of the types that the columns of a file have; a data file never changes."""
    kinds = ((f.name, type_of_arrow(f.type)) for f in read_footer(Path(path)).schema)
    return {name: kind.spark for name, kind in kinds if kind is not None}


def _read_with_path_days(session: "SparkSession", plain: PlainFiles) -> "DataFrame":
    """The rows by an engine that may not see folders of this machine; it takes the day of each row
    from its file."""
    from pyspark.sql import functions as F

    day = plain.partition_column
    stored = ", ".join(f"`{name}` {kind}" for name, kind in plain.columns if name != day)
    frame = session.read.schema(stored).option("recursiveFileLookup", "true").parquet(*plain.paths)
    if not day:
        return frame
    behind_name = F.substring_index(F.col("_metadata.file_path"), f"{day}=", -1)
    named = F.substring_index(behind_name, "/", 1).cast("date").alias(day)
    return frame.select(
        *(named if name == day else F.col(f"`{name}`") for name, _ in plain.columns)
    )


def _read_by_links(session: "SparkSession", plain: PlainFiles, scratch: Path) -> "DataFrame":
    """Read the rows by an engine of ours from a folder of links, whose partitions it reads once per
    file: taking the day from the file name of each row cost a twelfth of the CPU of a long
    range."""
    day, named = plain.partition_column, list[tuple[str, Path]]()
    for path in plain.paths:
        below = path.rpartition(f"/{day}=")[2]
        named.append((below.partition("/")[0], Path(path)))
    schema = ", ".join(f"`{name}` {kind}" for name, kind in plain.columns)
    frame = session.read.schema(schema).parquet(str(linked_folder(scratch, day, named)))
    return frame.select(*(f"`{name}`" for name, _ in plain.columns))
