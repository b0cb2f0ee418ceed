"""Staging: the rows of one write as Parquet files in `TABLE/writes/WRITE_ID`, which no log mentions
yet.

Not here: writing them (`query_files`, `engines.frame_files`), judging them (`audit`), publishing
them (`committer`). Readers of the table do not see them. A marker, locked by the writing process,
protects the files from the sweep. Spark jobs never share a folder: they would share `_temporary`.
"""

import errno
import os
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from urllib.parse import unquote

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log import (
    FILE_DIGEST_CHARS,
    CommittedWrites,
    commit_name,
    file_changes,
)
from backfill_assets.kernel.place.port import (
    Gone,
    Place,
    Swept,
    WriteHold,
)
from backfill_assets.kernel.tables.data_files import (
    files_of_days,
    files_of_version,
    refuse_altered_files,
)
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.table_places import table_at

WRITES, STAGING = "writes", ".staging"
FIRST_COMMIT = 0  # the version by which a table is made
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # how Spark and DuckDB name the folder of NULL

Committing = Callable[[int], None]  # is told the version that is tried next (`Staged.committing`)


def announce_nothing(_version: int) -> None:
    """Of a commit whose files nobody sweeps."""


@dataclass(frozen=True)
class StagedFile:
    """A file that is staged, or may be added to a table otherwise."""

    table: Place
    name: str  # in the table
    partition: str | None  # the text of its partition value; None: NULL, or no partition column
    engine_digest: str = ""  # its digest, where the engine took it
    listed: int | None = None  # its bytes, where a listing of a store told them

    @property
    def path(self) -> str:
        """Its path for engines of this machine."""
        return str(self.table.local(self.name))

    @property
    def day(self) -> date | None:
        """The day it is laid out by; raises ValueError if the layout is another."""
        return date.fromisoformat(self.partition) if self.partition else None

    @property
    def size(self) -> int:
        """Its bytes. Raises OSError, also if it is gone: a commit names no size that nobody
        read."""
        if self.listed is not None:
            return self.listed
        found = self.table.size(self.name)
        if found is None:
            raise Gone(errno.ENOENT, os.strerror(errno.ENOENT), self.table.uri(self.name))
        return found

    def digest(self) -> str:
        """The digest by which a commit names its bytes, which are read unless the engine took it:
        those that were audited, if they were fetched for it. Raises Gone."""
        return self.engine_digest or self.table.sha256(self.name, at_hand=True)[:FILE_DIGEST_CHARS]


@dataclass
class Staged:
    """The files of one write, held by this process until `drop` or `keep`; the kernel frees them
    when it dies.

    `tried`: a commit may name them. From then on the log alone decides which are deleted.
    """

    write_id: str
    lake: Place
    table: Place
    files: tuple[StagedFile, ...] = ()
    _give_up: WriteHold | None = field(default=None, repr=False)
    tried: bool = False

    @property
    def name(self) -> str:
        """The name of its folder in the table."""
        return f"{WRITES}/{self.write_id}"

    @property
    def folder(self) -> Path:
        """Its folder for engines that fill it."""
        return self.table.local(self.name)

    @property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return [f.path for f in self.files]

    def paths_of(self, partition: str) -> list[str]:
        """The paths of the files with this partition value."""
        return [f.path for f in self.files if f.partition == partition]

    def file(self, path: Path, partition: str | None) -> StagedFile:
        """The file at a path in its folder."""
        return StagedFile(
            self.table, f"{self.name}/{path.relative_to(self.folder).as_posix()}", partition
        )

    def found(self, column: str, below: str = "") -> tuple[StagedFile, ...]:
        """The data files that engines wrote to its folder, or to one `below`; `column` is the
        partition column ("": none). Deletes what is none."""
        staged = []
        for name, size in self._listed_files(f"{self.name}/{below}".rstrip("/")):
            *_, folder, last = name.split("/")
            if last.endswith(".crc"):
                # Hadoop's own checksum of a file, which no other writer updates.
                self.table.delete(name)
            elif last.endswith(".parquet") and not last.startswith(("_", ".")):
                value = _partition_value(folder, column) if column else None
                staged.append(StagedFile(self.table, name, value, listed=size))
        return tuple(staged)

    def _listed_files(self, folder: str) -> Iterator[tuple[str, int | None]]:
        """The files below a folder of the table, with their bytes where a store's listing tells
        them."""
        if not self.table.is_store:
            for name in self.table.below(folder):
                yield name, None
            return
        for name, token in sorted(self.table.tokens(folder).items()):
            yield name, token.size

    def committing(self, version: int) -> None:
        """Say that the next thing that this process does is to try to commit that version with the
        files. Raises Swept where another process took the write for dead, and its files: then it
        commits nothing."""
        if self._give_up is not None:
            try:
                self._give_up.committing(version)
            except Swept:
                self.tried = False  # what this process wrote after the sweep is its own to delete
                raise

    @contextmanager
    def explaining_loss(self) -> Iterator[None]:
        """Raise Swept in place of Gone, or of an error that it caused, for a file that the block
        wants, where another process of this machine took the write for dead, and its files."""
        try:
            yield
        except (Gone, BackfillError) as error:
            if isinstance(error.__cause__ or error, Gone):
                # A sweeper need not wait for it: it is there, and nothing else is committed.
                self.committing(FIRST_COMMIT)
            raise

    def drop(self) -> None:
        """Delete every file, unless a commit was tried (`sweep_writes` then asks the log); give up
        the hold. Idempotent."""
        if self._give_up is not None and not self.tried:
            self.table.delete_below(self.name)
            self._delete_marker()
        self._release_hold(is_deleted=not self.tried)

    def keep(self, published: Collection[str]) -> None:
        """Delete every file that is not published, and give up the hold. Idempotent."""
        if self._give_up is not None:
            is_all_published = {f.name for f in self.files} <= {*published}
            if not (self.table.is_store and is_all_published):  # a store was sent these alone
                _delete_unpublished(self.table, self.name, published)
            self._delete_marker()
        self._release_hold(is_deleted=True)

    def _delete_marker(self) -> None:
        self.lake.delete(f"{marker_folder(self.table.name)}/{self.write_id}")

    def _release_hold(self, *, is_deleted: bool) -> None:
        give_up, self._give_up = self._give_up, None
        if give_up is not None:
            give_up(is_deleted)


def _delete_unpublished(table: Place, folder: str, published: Collection[str]) -> None:
    """Delete the data files of a write's folder that are not published."""
    if not published:
        table.delete_below(folder)
        return
    for name in table.below(folder):
        if name.endswith(".parquet") and name not in published:
            table.delete(name)


def begin_staging(lake: LakeFolder, contract: Contract) -> Staged:
    """An empty staging for one write of a table, marked as this process's."""
    write_id = uuid.uuid4().hex
    give_up = lake.place.hold(f"{marker_folder(contract.name)}/{write_id}")
    staged = Staged(
        write_id=write_id,
        lake=lake.place,
        table=lake.table_place(contract.name),
        files=(),
        _give_up=give_up,
    )
    staged.table.prepared(staged.name)
    return staged


@contextmanager
def fill_staging(lake: LakeFolder, contract: Contract) -> Iterator[Staged]:
    """A staging of a table for the block to fill; dropped if the block fails or is stopped.
    Afterwards the caller owns it."""
    staged = begin_staging(lake, contract)
    try:
        yield staged
    except BaseException:
        staged.drop()
        raise


def marker_folder(table: str) -> str:
    """The name in a lake of the folder with the markers of a table's writes while they are
    staged."""
    return f"{STAGING}/{table}"


def tables_being_written(lake: Place) -> list[str]:
    """The tables of a lake of which a living process stages a write."""
    tables = []
    for table in sorted(_plain_names(lake, STAGING)):
        if _plain_names(lake, marker_folder(table)) - {*_abandoned_writes(lake, table)}:
            tables.append(table)
    return tables


def _plain_names(lake: Place, folder: str) -> set[str]:
    """The names in a folder that do not begin with a dot."""
    return {name for name in lake.names(folder) if not name.startswith(".")}


def _abandoned_writes(lake: Place, table: str) -> Iterator[str]:
    """The ids of the writes of a table that no living process stages or commits."""
    log = table_at(lake, table)
    return lake.abandoned(
        marker_folder(table), lambda _write, version: log.exists(commit_name(version))
    )


def _partition_value(folder: str, column: str) -> str | None:
    name, _, value = folder.partition("=")
    if name != column:
        raise ValueError(f"the folder {folder} is not one of the column {column}")
    return None if value == NO_VALUE else unquote(value)


def sweep_writes(lake: LakeFolder, table: str, own: str = "") -> int:
    """Remove the never published files of killed processes; returns the number of their writes.
    `own`: the id of the caller's write, without others of which nothing is looked at.

    Files that the log names stay. Raises BackfillError if a link leads out of the table's folder or
    the lake's.
    """
    swept, place = 0, lake.table_place(table)
    committed = CommittedWrites(place)
    lake.place.refuse_link(marker_folder(table))
    if {*lake.place.names(marker_folder(table))} <= {own}:
        return 0
    for write_id in _abandoned_writes(lake.place, table):
        folder = f"{WRITES}/{write_id}"
        version = committed.version_of(write_id)
        place.refuse_link(folder)
        changes = file_changes(place, version) if version is not None else ()
        _delete_unpublished(place, folder, {c.path for c in changes if c.is_added})
        lake.place.delete(f"{marker_folder(table)}/{write_id}")
        if version is None:
            swept += 1
    return swept


def stage_links(
    lake: LakeFolder, contract: Contract, other: LakeFolder, days: Collection[date], version: int
) -> Staged:
    """Stage the data files that a version of another lake's table, laid out by day, holds for these
    days, by further names: no byte is copied where the file system has hard links. Raises Altered
    if a file is gone or altered."""
    source = other.table_place(contract.name)
    live = files_of_days(files_of_version(other, contract, version), contract, days)
    refuse_altered_files(source, live)
    with fill_staging(lake, contract) as staged:
        links = []
        for number, file in enumerate(live):
            name = (
                f"{staged.name}/{contract.partition_column}={file.partition}/part-{number}.parquet"
            )
            staged.table.link(name, source, file.path)
            links.append(StagedFile(staged.table, name, file.partition))
        staged.files = tuple(links)
    return staged
