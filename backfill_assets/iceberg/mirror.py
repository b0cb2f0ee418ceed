"""An Iceberg table mirrored as a Delta table: each snapshot of its main branch is a commit, of its
time.

Not here: columns and rows of the mirror (`mirrored_columns`, `mirrored_rows`), and who reads it, as
any Delta table of others. The mirror's log is compared with the table's list of snapshots: those
after the last one that was mirrored follow. Where snapshots in between have expired, one commit has
the difference; as where some cannot be read, and a later one can. A snapshot that only rewrote rows
says so, and changes nothing for readers.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from backfill_assets.iceberg.mirrored_columns import MirroredColumns, mirrored_columns
from backfill_assets.iceberg.mirrored_rows import copy_name, statistics, write_rows
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log import commit_name, commit_versions
from backfill_assets.kernel.place.port import AlreadyThere, Place

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

SNAPSHOT = "icebergSnapshot"  # in a commit's information: the one that it mirrors


@dataclass
class Mirrored:
    """What a run of a mirror did."""

    version: int = -1  # of the mirror
    snapshots: int = 0  # that became commits
    files: int = 0  # whose rows were copied
    left_out: tuple[str, ...] = ()  # columns of types that Delta lacks
    # Snapshots that cannot be read, and have a later one that can and has what is left of theirs.
    passed_over: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"{self.snapshots} snapshot(s), {self.files} file(s) copied: version {self.version}"
        if self.passed_over:
            told += f"; passed over {', '.join(map(str, self.passed_over))}, which cannot be read"
        return told + (f"; left out {', '.join(self.left_out)}" if self.left_out else "")


class UnreadableSnapshot(BackfillError):
    """A snapshot that pyiceberg cannot read: it has equality deletes, or files of it are gone."""


def mirror_table(table: "Table", place: Place) -> Mirrored:
    """Bring a mirror at `place`, which may not be there yet, up to an Iceberg table; stopped
    halfway, the next run goes on. Raises BackfillError for a place that is no mirror of this table,
    and UnreadableSnapshot where the newest snapshot cannot be read."""
    done = Mirrored(version=max(commit_versions(place), default=-1))
    states = [*_states_to_mirror(table, _last_snapshot(table, place, done))]
    newest, _, _ = states[-1]
    for snapshot, time, schema in states:
        before = _Before(place, done.version)
        try:
            _Commit(table, place, before, schema, time, snapshot, done).write()
        except UnreadableSnapshot:
            if snapshot == newest:
                raise
            done.passed_over.append(snapshot)
    return done


def _last_snapshot(table: "Table", place: Place, done: Mirrored) -> int:
    """The snapshot that the mirror has; -1 of a table without one, and of a new mirror."""
    if done.version < 0:
        if place.names():
            raise _mirror_error(table, f"{place} has other files", "Name an empty folder")
        return -1
    newest = _Before(place, done.version)
    if newest.snapshot is None or newest.id != str(table.metadata.table_uuid):
        culprit = f"{place} is no mirror of this table, which may have been made anew"
        raise _mirror_error(table, culprit, "Name an empty folder")
    return newest.snapshot


def _states_to_mirror(table: "Table", last: int) -> Iterator[tuple[int, int, "Schema"]]:
    """The snapshots after the `last` one that was mirrored (-1: none), each with its time in
    milliseconds and its columns; in the end the table's own columns, which may be newer."""
    entries, schemas = table.metadata.snapshot_log, table.schemas()
    mirrored = [n for n, entry in enumerate(entries) if entry.snapshot_id == last]
    if mirrored:
        entries = entries[mirrored[-1] + 1 :]
    for entry in entries:
        snapshot = table.snapshot_by_id(entry.snapshot_id)
        if snapshot is None:  # expired
            continue
        last = entry.snapshot_id
        schema = schemas[snapshot.schema_id] if snapshot.schema_id in schemas else table.schema()
        yield last, entry.timestamp_ms, schema
    yield last, table.metadata.last_updated_ms, table.schema()


class _Before:
    """A mirror at a version; -1: before its first commit."""

    def __init__(self, place: Place, version: int) -> None:
        self.place, self.version = place, version

    @cached_property
    def _opened(self) -> "DeltaTable | None":
        from deltalake import DeltaTable

        return DeltaTable(self.place.uri(), version=self.version) if self.version >= 0 else None

    @cached_property
    def snapshot(self) -> int | None:
        """The snapshot that its commit mirrors; None before the first one, and where it names
        none."""
        if self.version < 0:
            return None
        of_commit = self.place.read(commit_name(self.version)).splitlines()[0]
        info = json.loads(of_commit).get("commitInfo") or {}
        return int(info[SNAPSHOT]) if SNAPSHOT in info else None

    @property
    def id(self) -> str:
        """What the table is called in the log: of a mirror that of the Iceberg table."""
        return str(self._opened.metadata().id) if self._opened else ""

    @property
    def properties(self) -> Mapping[str, str | None]:
        """Its table properties, which name its columns."""
        return self._opened.metadata().configuration if self._opened else {}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Its files and their bytes."""
        import pyarrow as pa

        if self._opened is None:
            return {}
        held = pa.table(self._opened.get_add_actions())
        return dict(zip(held["path"].to_pylist(), held["size_bytes"].to_pylist(), strict=True))


@dataclass
class _Commit:
    """The commit of a mirror that brings it to a snapshot."""

    table: "Table"
    place: Place
    before: _Before
    schema: "Schema"
    time: int
    snapshot: int  # -1: the table has none
    done: Mirrored
    columns: MirroredColumns = field(init=False)

    def __post_init__(self) -> None:
        self.columns = mirrored_columns(self.schema, self.before.properties)
        self.done.left_out = self.columns.left_out

    def write(self) -> None:
        """Write the commit, unless nothing differs."""
        metadata, files = [*self._metadata()], [*self._files()]
        if not metadata and not files and self._is_mirrored():
            return
        info = {"timestamp": self.time, "operation": "MIRROR", SNAPSHOT: self.snapshot}
        lines = [{"commitInfo": info}, *metadata, *files]
        content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        version = self.before.version + 1
        try:
            self.place.write(commit_name(version), content, if_absent=True)
        except AlreadyThere:
            culprit = f"another run mirrors it, too: version {version} of {self.place} came"
            raise _mirror_error(self.table, culprit, "Run again") from None
        self.done.version = version
        self.done.snapshots += not self._is_mirrored()

    def _is_mirrored(self) -> bool:
        """Whether the mirror has this snapshot already, and only columns can be new."""
        return self.before.snapshot == self.snapshot

    def _metadata(self) -> Iterator[dict[str, Any]]:
        """The columns, where they are others than before."""
        if self.columns.properties == {**self.before.properties}:
            return
        yield {"protocol": self.columns.protocol}
        yield {
            "metaData": {
                "id": str(self.table.metadata.table_uuid),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": self.columns.schema,
                "partitionColumns": [],
                "configuration": self.columns.properties,
                "createdTime": self.time,
            }
        }

    def _files(self) -> Iterator[dict[str, Any]]:
        """The files that are gone, and those that came, whose rows are copied."""
        wanted = {copy_name(t, self.schema, self.columns): t for t in self._tasks()}
        is_change = self._changes_rows()
        for name, size in self.before.sizes.items():
            if name not in wanted:
                gone = {"path": name, "deletionTimestamp": self.time, "dataChange": is_change}
                yield {"remove": {**gone, "partitionValues": {}, "size": size}}
        for name, task in wanted.items():
            if name not in self.before.sizes:
                yield {"add": {**self._copied(name, task), "dataChange": is_change}}

    def _tasks(self) -> list["FileScanTask"]:
        if self.snapshot == -1:
            return []
        try:
            return [*self.table.scan(snapshot_id=self.snapshot).plan_files()]
        except (ValueError, NotImplementedError, OSError) as error:
            raise self._unreadable(error) from error

    def _changes_rows(self) -> bool:
        """Whether the snapshot may have other rows than the one before: one that replaces files has
        not, unless others in between are not mirrored."""
        snapshot = self.table.snapshot_by_id(self.snapshot)
        if snapshot is None or snapshot.summary is None or self.before.version < 0:
            return True
        follows = self.before.snapshot == snapshot.parent_snapshot_id
        return not follows or snapshot.summary.operation.value != "replace"

    def _copied(self, name: str, task: "FileScanTask") -> dict[str, Any]:
        """Copy the rows of a file, and return what the log says of the copy."""
        target = self.place.prepared("") / f".{name}.writing"
        try:
            write_rows(self.table, task, self.schema, self.columns, target)
        except (ValueError, NotImplementedError, OSError) as error:
            raise self._unreadable(error) from error
        told = {"size": target.stat().st_size, "stats": statistics(target, self.columns)}
        self.place.put(name, target)
        self.done.files += 1
        return {"path": name, "partitionValues": {}, "modificationTime": self.time, **told}

    def _unreadable(self, error: Exception) -> UnreadableSnapshot:
        return UnreadableSnapshot(
            _shown_name(self.table),
            f"snapshot {self.snapshot} cannot be read ({' '.join(str(error).split())[:200]})",
            "Nothing more was mirrored",
            "Have its owner rewrite its data files, which takes deletes in, or restore them",
        )


def _mirror_error(table: "Table", culprit: str, fix: str) -> BackfillError:
    return BackfillError(_shown_name(table), culprit, "Nothing more was mirrored", fix)


def _shown_name(table: "Table") -> str:
    return f"the Iceberg table {'.'.join(table.name())}"
