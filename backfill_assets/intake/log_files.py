"""The data files that commits of a table of others name, each with its partition and the rows that
are deleted in it.

Not here: which of them a commit added or took away (`intake.source_log`), and their rows
(`intake.table_rows`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from backfill_assets.intake.deleted_rows import (
    DeletionVector,
    UnreadableVector,
    deleted_by_file,
    vector_file,
    vector_of,
)
from backfill_assets.intake.files import NOT_HERE
from backfill_assets.intake.log_reading import (
    commit_actions,
    list_log,
    log_error,
    log_versions,
    open_at,
)
from backfill_assets.intake.source_position import TableState
from backfill_assets.intake.stored_names import stored_columns
from backfill_assets.kernel.log.file_names import file_fault, printable_name, unquoted_file_name
from backfill_assets.kernel.place.port import Place

OWN_FILES = "Name the table that holds the file itself, or deliver files"
# The mark of a file that the table held before the commit with which reading begins.
EARLIER = "earlier"
# In an action of a held file: the numbers of its rows that a deletion vector takes away.
DELETED = "deletedRows"
PURGE = "Have its owner rewrite the table (REORG TABLE … APPLY (PURGE)), or deliver files"


@dataclass(frozen=True)
class DataFile:
    """A data file of a table, and the values of the table's partition columns in all of its rows,
    as texts."""

    path: Path  # of an object: of its copy on this machine; empty until it is fetched
    size: int
    partition: Mapping[str, str | None]
    name: str = ""  # of an object, in the table's place
    vector: DeletionVector | None = None  # of the rows that are deleted in it
    vector_name: str = ""  # of the file that holds it, in the table's place; "": the log itself
    deleted: tuple[int, ...] = ()  # the same rows by their numbers, where the log was not read

    @property
    def has_deleted_rows(self) -> bool:
        """Whether some of its rows are no rows of the table."""
        return bool(self.vector or self.deleted)

    @property
    def names(self) -> tuple[str, ...]:
        """Of an object and its deletion vector, in the table's place."""
        return (self.name, self.vector_name) if self.vector_name else (self.name,)


def data_files(
    table: Place, version: int, actions: Sequence[Mapping[str, Any]], state: TableState
) -> tuple[DataFile, ...]:
    """The data files that actions of a commit name, each with its values of the partition columns
    of `state`. Raises LandingError where one does not tell them, or has no name of the table's."""
    found, by_stored_name = [], stored_columns(state.schema) if state.mapping else {}
    for action in actions:
        given = action.get("partitionValues", None if state.partitioned_by else {})
        if given is not None:
            given = {by_stored_name.get(name, name): value for name, value in given.items()}
        if given is None or {*given} - {*state.partitioned_by}:
            advice = (
                f"Begin with what the table holds then: first_version = {version} beside table; "
                "or deliver files"
            )
            raise log_error(
                table,
                version,
                f"does not say of which partition {printable_name(action['path'])} is",
                advice,
            )
        # Spark leaves NULLs out
        partition = {column: given.get(column) for column in state.partitioned_by}
        found.append(_data_file(table, version, action, partition))
    if why := file_fault(table, [unquoted_file_name(action["path"]) for action in actions]):
        raise log_error(table, version, why, OWN_FILES)
    return tuple(found)


def _data_file(
    table: Place, version: int, action: Mapping[str, Any], partition: Mapping[str, str | None]
) -> DataFile:
    """The data file that a commit names, as it is found in the table's place."""
    try:
        name = unquoted_file_name(action["path"])
    except ValueError as error:
        raise log_error(table, version, str(error), OWN_FILES) from None
    try:
        vector = vector_of(action)
        vector_name = vector_file(table, vector) if vector else ""
    except UnreadableVector as error:
        raise log_error(table, version, str(error), PURGE) from None
    file = DataFile(
        NOT_HERE,
        int(action.get("size") or 0),
        partition,
        name,
        vector,
        vector_name,
        tuple(action.get(DELETED, ())),
    )
    return file if table.is_store else replace(file, path=table.local(name), name="")


def _lacks_partition(action: Mapping[str, Any], state: TableState) -> bool:
    """Whether a file is removed whose partition is not told, as by old writers."""
    gone = action.get("remove")
    if not state.partitioned_by or not isinstance(gone, dict):
        return False
    return gone.get("partitionValues") is None


def with_partitions(
    table: Place, start: int, version: int, actions: list[Mapping[str, Any]], before: TableState
) -> list[Mapping[str, Any]]:
    """The actions of a commit, in which removed files have the partitions that the log told when
    they were added. `start`: the log's first version; `before`: the state before the commit."""
    if not any(_lacks_partition(action, before) for action in actions):
        return actions
    listed = list_log(table)
    first = log_versions(listed).start
    added = dict[str, Any]()
    for earlier in range(min(start, first), version):
        if listed.has_commit(earlier):
            earlier_actions, _ = commit_actions(table, earlier)
            found = [action["add"] for action in earlier_actions if action.get("add")]
            added |= {file["path"]: file.get("partitionValues") for file in found}
    if first > 0:  # files of a checkpoint
        held = held_files(table, first, ())
        added = {a["add"]["path"]: a["add"]["partitionValues"] for a in held} | added
    completed = list[Mapping[str, Any]]()
    for action in actions:
        gone = action.get("remove") or {}
        is_untold = gone.get("partitionValues") is None
        if is_untold and gone.get("path") in added:
            action = {**action, "remove": {**gone, "partitionValues": added[gone["path"]]}}
        completed.append(action)
    return completed


def held_files(
    table: Place, version: int, actions: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The files of the table at a version, as if one commit had added them: last those that its own
    commit added."""
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    opened = open_at(table, version)
    try:
        deleted = deleted_by_file(table, opened)
    except (DeltaError, UnreadableVector, OSError) as error:
        culprit = f"has deletion vectors that cannot be read ({' '.join(str(error).split())[:200]})"
        raise log_error(table, version, culprit, PURGE) from None
    files = pa.table(opened.get_add_actions()).to_pylist()
    held = sorted(files, key=lambda f: (str(f["modification_time"]), f["path"]))
    by_column = {name: stored for stored, name in stored_columns(opened.schema().to_json()).items()}
    by_path = dict[str, dict[str, Any]]()
    for file in held:
        name, added = unquote(file["path"]), _as_add_action(file, by_column)
        if name in deleted:
            added[DELETED] = deleted[name].to_pylist()
        by_path[name] = {"add": added}
    own = [unquote(action["add"]["path"]) for action in actions if action.get("add")]
    last = [by_path.pop(name) for name in own if name in by_path]
    return [*({EARLIER: True, **added} for added in by_path.values()), *last]


def _as_add_action(file: Mapping[str, Any], by_column: Mapping[str, str]) -> dict[str, Any]:
    """A file that the table holds, as a commit would add it. `by_column`: what a column is called
    in files."""
    partition = _partition_texts(file.get("partition"))
    added = {
        "path": file["path"],
        "size": file["size_bytes"],
        "partitionValues": {by_column.get(n, n): value for n, value in partition.items()},
    }
    rows = file.get("num_records")
    return added if rows is None else {**added, "stats": json.dumps({"numRecords": rows})}


def _partition_texts(partition: Mapping[str, Any] | None) -> dict[str, str | None]:
    """The values of partition columns as texts, as a commit has them."""
    values = partition or {}
    return {name: None if value is None else str(value) for name, value in values.items()}


def newest_file_time(table: Place, version: int) -> int:
    """When the newest file of a version was written, in milliseconds: no later than its commit,
    which is gone."""
    import pyarrow as pa

    times = pa.table(open_at(table, version).get_add_actions())["modification_time"].to_pylist()
    return max((int(t) for t in times if t is not None), default=0)
