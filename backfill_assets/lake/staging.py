"""Staging: the rows of one write as Parquet files in `TABLE/writes/WRITE_ID`, which no log mentions yet.

Not here: writing them by an engine (`writing`), judging them (`audit`), publishing them (`committer`). Readers of the
table do not see them. A marker, locked by the writing process, protects the files from the sweep. Spark jobs never
share a folder: they would share `_temporary`.
"""

import errno
import os
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from backfill_assets.core.contracts import Contract
from backfill_assets.lake import files
from backfill_assets.lake.columns import arrow_type
from backfill_assets.lake.data_files import files_of, files_of_days, refuse_altered
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.log import file_changes, find_write

WRITES, STAGING = "writes", ".staging"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # how Spark and DuckDB name the folder of NULL


@dataclass(frozen=True)
class StagedFile:
    """A staged file: its path, and the text of its partition value (None: NULL, or no partition column)."""

    path: Path
    partition: str | None

    @property
    def day(self) -> date | None:
        """The day it is laid out by; raises ValueError if the layout is another."""
        return date.fromisoformat(self.partition) if self.partition else None

    @property
    def size(self) -> int:
        """Its bytes. Raises OSError, also if it is gone: a commit names no size that nobody read."""
        size = files.size(self.path)
        if size is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        return size


@dataclass
class Staged:
    """The files of one write, held by this process until `drop` or `keep`; the kernel frees them when it dies.

    `tried`: a commit may name them. From then on the log alone decides which are deleted.
    """

    write_id: str
    folder: Path
    marker: Path
    files: tuple[StagedFile, ...] = ()
    _hold: int = field(default=-1, repr=False)
    tried: bool = False

    @property
    def paths(self) -> list[str]:
        """The files' paths."""
        return [str(f.path) for f in self.files]

    def drop(self) -> None:
        """Delete every file, unless a commit was tried (`sweep` then asks the log); give up the hold. Idempotent."""
        if self._hold >= 0 and not self.tried:
            files.delete_folder(self.folder)
            files.delete(self.marker)
        self._give_up()

    def keep(self, published: Collection[str]) -> None:
        """Delete every file that is not published, and give up the hold. Idempotent."""
        if self._hold >= 0:
            _keep(self.folder, published)
            files.delete(self.marker)
        self._give_up()

    def _give_up(self) -> None:
        hold, self._hold = self._hold, -1
        if hold >= 0:
            files.release(hold)


def _keep(folder: Path, published: Collection[str]) -> None:
    """Delete the data files of a write's folder that are not published."""
    if not published:
        files.delete_folder(folder)
        return
    for file in files.below(folder, "*.parquet"):
        if str(file) not in published:
            files.delete(file)


def begin(lake: LakeFolder, contract: Contract) -> Staged:
    """An empty staging for one write of a table, marked as this process's."""
    write_id = uuid.uuid4().hex
    marker = markers(lake, contract.name) / write_id
    hold = files.hold(marker)
    folder = lake.table_path(contract.name) / WRITES / write_id
    files.make_folder(folder)
    return Staged(write_id, folder, marker, (), hold)


@contextmanager
def filling(lake: LakeFolder, contract: Contract) -> Iterator[Staged]:
    """As `begin`; dropped if the block fails or is stopped. Afterwards the caller owns it."""
    staged = begin(lake, contract)
    try:
        yield staged
    except BaseException:
        staged.drop()
        raise


def stage_rows(lake: LakeFolder, contract: Contract, rows: Sequence[Sequence[Any]]) -> Staged:
    """Write a few rows, cells in the contract's order, to one file by pyarrow, for a table without partitions.

    Timestamps are aware.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with filling(lake, contract) as staged:
        columns = zip(contract.columns, zip(*rows, strict=True), strict=True)
        table = pa.table({c.name: pa.array(list(cells), arrow_type(c.kind)) for c, cells in columns})
        pq.write_table(table, staged.folder / "part-0.parquet", compression="zstd")
        staged.files = found_files(staged.folder, "")
    return staged


def stage_links(
    lake: LakeFolder, contract: Contract, other: LakeFolder, days: Collection[date], version: int
) -> Staged:
    """Stage the data files that a version of another lake's table, laid out by day, holds for these days, by further
    names: no byte is copied where the file system has hard links. Raises Altered if a file is gone or altered."""
    path = other.table_path(contract.name)
    live = files_of_days(files_of(other, contract, version), contract, days)
    refuse_altered(path, live)
    with filling(lake, contract) as staged:
        links = []
        for number, file in enumerate(live):
            target = staged.folder / f"{contract.partition_column}={file.partition}" / f"part-{number}.parquet"
            files.make_folder(target.parent)
            files.link(path / file.path, target)
            links.append(StagedFile(target, file.partition))
        staged.files = tuple(links)
    return staged


def markers(lake: LakeFolder, table: str) -> Path:
    """The folder of the markers of a table's writes while they are staged."""
    return lake.root / STAGING / table


def writing(root: Path) -> list[str]:
    """The tables below a lake's folder of which a living process stages a write."""
    folders = sorted((root / STAGING).glob("[!.]*"))
    return [f.name for f in folders if {*files.names(f)} - {marker.name for marker in files.abandoned(f)}]


def found_files(folder: Path, column: str) -> tuple[StagedFile, ...]:
    """The data files below the folder of a write; `column` is its partition column ("": none)."""
    staged = []
    for path in files.below(folder):
        if path.name.endswith(".crc"):
            files.delete(path)  # Hadoop's own checksum of a file, which no other writer updates
        elif path.suffix == ".parquet" and not path.name.startswith(("_", ".")):
            staged.append(StagedFile(path, _value(path.parent.name, column) if column else None))
    return tuple(staged)


def _value(folder: str, column: str) -> str | None:
    name, _, value = folder.partition("=")
    if name != column:
        raise ValueError(f"the folder {folder} is not one of the column {column}")
    return None if value == NO_VALUE else unquote(value)


def sweep(lake: LakeFolder, table: str) -> int:
    """Remove the never published files of killed processes; returns the number of their writes.

    Files that the log names stay. Raises BackfillError if a link leads out of the table's folder or the lake's.
    """
    swept, path, place = 0, lake.table_path(table), markers(lake, table)
    files.refuse_link(place, lake.root)
    for marker in files.abandoned(place):
        folder, version = path / WRITES / marker.name, find_write(path, marker.name)
        files.refuse_link(folder, path)
        changes = file_changes(path, version) if version is not None else ()
        _keep(folder, {str(path / c.path) for c in changes if c.is_added})
        files.delete(marker)
        swept += version is None
    return swept
