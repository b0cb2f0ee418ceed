"""Staging a candidate: its rows as Parquet files in the table's folder, under a name that no log mentions yet.

Lives here: writing them once, the marker that says who still needs them, dropping them, and sweeping what a killed
process left. Does not live here: judging them (`audit`), and publishing them (`committer`). Nothing staged is readable
through the table; the folder of a write is `TABLE/writes/WRITE_ID`, and Spark jobs never share one (they would share
`_temporary`).
"""

import fcntl
import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.engine.session import say
from backfill_assets.lake.home import Lake
from backfill_assets.lake.layout import NO_VALUE, write
from backfill_assets.lake.log import actions, find_write
from backfill_assets.lake.type_names import EIGHT_BYTES, arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WRITES = "writes"


@dataclass(frozen=True)
class StagedFile:
    """A staged file: where it lies, and the text of its partition value (None: NULL, or no partition column)."""

    path: Path
    partition: str | None

    @property
    def day(self) -> date | None:
        """The day it is laid out by; raises ValueError where the layout is another."""
        return date.fromisoformat(self.partition) if self.partition else None


@dataclass
class Staged:
    """The files of one write, held for this process until `drop` or `keep`; the kernel frees them when it dies.

    `tried`: a commit may name them. From then on the log alone decides what is deleted.
    """

    write_id: str
    folder: Path
    marker: Path
    partition_column: str
    files: tuple[StagedFile, ...] = ()
    _hold: int = field(default=-1, repr=False)
    tried: bool = False

    @property
    def paths(self) -> list[str]:
        """The files' paths."""
        return [str(f.path) for f in self.files]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.path.stat().st_size for f in self.files)

    def drop(self) -> None:
        """Delete every file, unless a commit was tried: then give up the hold only, and `sweep` asks the log. Harmless
        when repeated."""
        if self._hold >= 0 and not self.tried:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.marker.unlink(missing_ok=True)
        self._give_up()

    def keep(self, published: Collection[str]) -> None:
        """Delete every file but those published, and give up the hold. Harmless when repeated."""
        if self._hold >= 0:
            _keep(self.folder, published)
            self.marker.unlink(missing_ok=True)
        self._give_up()

    def _give_up(self) -> None:
        hold, self._hold = self._hold, -1
        if hold >= 0:
            os.close(hold)


def _keep(folder: Path, published: Collection[str]) -> None:
    """Delete the data files of a write's folder but those published."""
    if not published:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for file in folder.rglob("*.parquet"):
        if str(file) not in published:
            file.unlink(missing_ok=True)


def begin(lake: Lake, contract: Contract) -> Staged:
    """An empty staging for one write of a table, marked as this process's."""
    write_id = uuid.uuid4().hex
    marker = markers(lake, contract.name) / write_id
    marker.parent.mkdir(parents=True, exist_ok=True)
    hold = _held(marker)
    folder = lake.table_path(contract.name) / WRITES / write_id
    folder.mkdir(parents=True)
    return Staged(write_id, folder, marker, contract.partition_column, (), hold)


@contextmanager
def filling(lake: Lake, contract: Contract) -> Iterator[Staged]:
    """As `begin`; dropped where what fills it fails or is stopped. Else whoever it is given to owns it."""
    staged = begin(lake, contract)
    try:
        yield staged
    except BaseException:
        staged.drop()
        raise


def _held(marker: Path) -> int:
    """The marker made and locked, as a descriptor; made again where a sweep took it away in between."""
    while True:
        hold = os.open(marker, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(hold, fcntl.LOCK_EX)
        if os.fstat(hold).st_nlink:
            return hold
        os.close(hold)


def stage(lake: Lake, contract: Contract, frame: "DataFrame", days: int = 1) -> Staged:
    """Write a conformed frame once, laid out by the contract's partition column; it holds so many `days` at the most.

    The caller owns what it returns: `drop` or `keep` it. Raises what Spark raises, after dropping what was written.
    """
    column = contract.partition_column
    with filling(lake, contract) as staged:
        write_rows(frame, staged.folder, column, days, lake.settings.spark.memory, _varied(contract))
        staged.files = found_files(staged.folder, column)
    return staged


def _varied(contract: Contract) -> list[str]:
    """The columns whose values hardly repeat, or take eight bytes, which compression alone makes as small: Spark's
    writer would try a dictionary for each, which is a third of the CPU of writing 1.8 M rows."""
    return [c.name for c in contract.columns if c.name in contract.key or c.kind.kind in EIGHT_BYTES]


def write_rows(
    frame: "DataFrame", folder: Path, column: str, values: int, memory: str, varied: Collection[str] = ()
) -> None:
    """Have the engine write rows below a folder, as `layout.write` says, with the timestamps that readers expect."""
    # INT96, Spark's default, has no statistics, and readers of Delta expect microseconds.
    say(frame.sparkSession, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"})
    write(frame, folder, column, values, memory, varied)


def stage_rows(lake: Lake, contract: Contract, rows: Sequence[Sequence[Any]]) -> Staged:
    """Write a few rows of ours, cells in the contract's order, to one file, without an engine. Timestamps are aware.

    For tables without a partition column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with filling(lake, contract) as staged:
        columns = zip(*rows, strict=True)
        arrays = [
            pa.array(list(c), arrow_type(column.kind)) for c, column in zip(columns, contract.columns, strict=True)
        ]
        table = pa.table(arrays, names=list(contract.column_names))
        pq.write_table(table, staged.folder / "part-0.parquet", compression="zstd")
        staged.files = found_files(staged.folder, "")
    return staged


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


def markers(lake: Lake, table: str) -> Path:
    """Where the writes of a table are marked while they are staged."""
    return lake.root / ".staging" / table


def found_files(folder: Path, column: str) -> tuple[StagedFile, ...]:
    """The data files below the folder of a write; `column` is its partition column ("" = none)."""
    return tuple(_found(folder, column))


def _found(folder: Path, column: str) -> Iterator[StagedFile]:
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(".crc"):
            path.unlink()  # Hadoop's own checksum of a file: nobody else keeps it up
        elif path.suffix == ".parquet" and not path.name.startswith(("_", ".")):
            yield StagedFile(path, _value(path.parent.name, column) if column else None)


def _value(folder: str, column: str) -> str | None:
    name, _, value = folder.partition("=")
    if name != column:
        raise ValueError(f"the folder {folder} is not one of the column {column}")
    return None if value == NO_VALUE else unquote(value)


def sweep(lake: Lake, table: str) -> int:
    """Remove what killed processes staged and never published; returns how many writes that were.

    A marker whose lock is free has no process any more. What its log names stays, whoever was killed after it.
    """
    swept = 0
    folder = markers(lake, table)
    for marker in list(folder.iterdir()) if folder.is_dir() else ():
        try:
            handle = os.open(marker, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:  # its process has just ended the write
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            swept += _tidied(lake.table_path(table), marker.name)
            marker.unlink(missing_ok=True)
        except BlockingIOError:
            continue
        finally:
            os.close(handle)
    return swept


def _tidied(table: Path, write_id: str) -> bool:
    """Delete the files of a write that its commit does not name; whether there was no commit at all."""
    folder, version = table / WRITES / write_id, find_write(table, write_id)
    if folder.resolve() != table.resolve() / WRITES / write_id:
        raise BackfillError(
            f"the folder {folder}", "a link leads out of the table", "What a killed write left was not removed",
            "Nothing of this package makes links: find out who did, and remove it",
        )  # fmt: skip
    adds = (a["add"] for a in actions(table, version) if "add" in a) if version is not None else ()
    _keep(folder, {str(table / unquote(add["path"])) for add in adds})
    return version is None
