"""What a source delivers: landed files, or what each commit of a Delta table brought, by its log,
without its rows.

Not here: its rows and the ledger (`intake.table_changes`), the lake's own tables (`log`). A commit
that only adds files brings each file as a content, read where it lies; one that also removes files,
or has a change feed, brings one content: the rows that it changed. What a commit rewrites without
changing data brings nothing.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from backfill_assets.intake.deliveries import FIRST_SCAN_SLACK_DAYS
from backfill_assets.intake.files import NOT_HERE, LandedFile, LandingError
from backfill_assets.intake.landings import list_files, source_table
from backfill_assets.intake.listing import Listing
from backfill_assets.intake.log_bounds import checkpoint_versions, commit_fault, log_fault
from backfill_assets.intake.select import COMMIT_BITS, PLACE_BITS
from backfill_assets.intake.settings import landed_source
from backfill_assets.intake.source_position import (
    Position,
    TableState,
    column_names,
    column_types,
    log_digest,
)
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.log.file_names import file_fault, printable_name, unquoted_file_name
from backfill_assets.kernel.log.log import LOG, commit_name, versions_in
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.embedded import is_delta, why_not_delta
from backfill_assets.kernel.tables.sections import SourceSettings

if TYPE_CHECKING:
    from deltalake import DeltaTable

CHANGES = "changes"  # the name of the content that holds the changed rows of a version
NOTHING_READ = "Nothing of it was read"
RESTORE = "Wait for its writer, or have its owner restore the log"
OWN_FILES = "Name the table that holds the file itself, or deliver files"
# What a reader must know (Delta's protocol) and that this one does, or that changes no row of a
# data file.
KNOWN = {
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "typeWidening",
    "typeWidening-preview",
}
DELETION_VECTORS = "deletionVectors"
REFUSED_WHERE_USED = {DELETION_VECTORS, "columnMapping"}
PURGE = (
    "Set delta.enableDeletionVectors = false and rewrite the table (REORG … APPLY (PURGE)), or "
    "deliver files"
)
MILLISECOND = 1_000_000  # in nanoseconds
# So far ahead of a look a commit's own time is believed.
AHEAD_MS = FIRST_SCAN_SLACK_DAYS * 86_400_000
FOREVER = 1 << 62
# The mark of a file that the table held before the commit with which reading begins.
EARLIER = "earlier"


@dataclass(frozen=True)
class DataFile:
    """A data file of a table, and the values of the table's partition columns in all of its rows,
    as texts."""

    path: Path  # of an object: of its copy on this machine; empty until it is fetched
    size: int
    partition: Mapping[str, str | None]
    name: str = ""  # of an object, in the table's place


@dataclass(frozen=True)
class TableFile(LandedFile):
    """A content that a commit brought: `name` is VERSION/FILE or VERSION/changes, `mtime_ns` the
    commit's time, `place` that of a table in a bucket."""

    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    feed: tuple[DataFile, ...] = ()  # of the change feed, which then says what the commit changed
    # partition column -> type of Spark SQL
    partition_types: Mapping[str, str] = field(default_factory=dict)
    # of the table after the commit and before it, as Delta writes them
    schemas: tuple[str, ...] = ()
    # columns that the table had before and has no more after the commit
    lacking: frozenset[str] = frozenset()
    # Of the same commit: at least so many rows come before its own in the order of the log.
    rows_before: int = 0
    # The time that the commit itself says, where that lies too far ahead to be believed.
    committed_ms: int = 0
    is_there: bool = True  # whether the listing found all its objects

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The data files that its rows come from."""
        return self.feed or (*self.added, *self.removed)

    @property
    def is_readable(self) -> bool:
        """Whether all data files are still there: vacuum takes those that the table no longer
        has."""
        if not self.files or not self.is_there:
            return False
        return all(file.name or file.path.exists() for file in self.files)


@dataclass(frozen=True)
class TableListing(Listing):
    """The contents that the commits of a log brought after a position, by version."""

    commits: range = range(0)  # versions that the log tells of
    # versions whose commits were read; earlier ones in the log are as they were
    read: range = range(0)
    position: Position | None = None  # the end of the log; None for a log without a commit


def list_source(
    source: SourceSettings, base: Path, known: Position | None = None, read_before: int = -1
) -> Listing:
    """The landed files of a source, or the contents of its table by version; `base`: the lake's
    folder. Of a table whose log is as it was at the `known` position, only later commits are
    opened. `read_before`: the version that an earlier look reached (-1: none), though the log may
    have been cleaned since.

    Raises SettingsError for an unusable pattern and where no table lies, LandingError for a table
    that cannot be read without loss.
    """
    if source.table is None:
        return list_files(source.files, base, source.format)
    table = source_table(source, base)
    if not is_delta(table):
        is_found = table.names() if table.is_store else table.local().exists()
        if not is_found:
            return Listing(root_missing=True)
        culprit, fix = why_not_delta(table)
        raise SettingsError(f"[source] table = {source.table!r}", culprit, NOTHING_READ, fix)
    commits, first = log_versions(table), landed_source(source).first_version
    if commits and read_before >= commits.start and not table.exists(commit_name(commits.start)):
        commits = commits[1:]  # what only a checkpoint tells was read as a commit
    if known and (known.first != first or not known.holds(table, commits)):
        known = None  # another log, or another beginning: all of it is read again
    read = range(known.version + 1, commits.stop) if known else commits
    look = round(utc_now().timestamp() * 1000)  # as commits tell times: in milliseconds
    files, state = brought_contents(table, read, first, known.state if known else None, look)
    if table.is_store:
        files = _with_presence(table, files)
    position = known
    if read and table.exists(commit_name(commits[-1])):  # else only a checkpoint tells of it
        position = Position(commits[-1], log_digest(table, commits), first, state)
    return TableListing(files, commits=commits, read=read, position=position)


def content_version(name: str) -> int:
    """The version of the table that brought the content of this name."""
    return int(name.partition("/")[0])


def are_files_there(table: Place, names: Sequence[str]) -> list[bool]:
    """Whether the data files of appended contents are still there, by the contents' names."""
    of_data = [name.partition("/")[2] for name in names]
    found = table.sizes(of_data)
    return [found[name] is not None for name in of_data]


def known_content(table: Place, name: str, size: int, mtime_ns: int, sha256: str) -> TableFile:
    """A content whose commit is not read again: nobody knows the data files that its rows come
    from."""
    path, place = (NOT_HERE, table) if table.is_store else (table.local(), None)
    return TableFile(name, path, size, mtime_ns, sha256=sha256, place=place)


def _with_presence(table: Place, files: tuple[TableFile, ...]) -> tuple[TableFile, ...]:
    """The contents of a table in a bucket, with whether their objects are there, which one listing
    tells."""
    found = table.sizes([f.name for content in files for f in content.files])
    return tuple(
        replace(c, is_there=all(found[f.name] is not None for f in c.files)) for c in files
    )


def log_versions(table: Place) -> range:
    """The versions that the log tells of: from the first one on that can be opened, by commits from
    the table's beginning or by a checkpoint, whose own commit may be cleaned away. Raises
    LandingError where one between the first and the last lacks."""
    names = table.names(LOG)
    found, checkpoints = versions_in(names, 0), checkpoint_versions(names)
    if not found:
        return range(max(checkpoints), max(checkpoints) + 1) if checkpoints else range(0)
    for before, after in pairwise(found):
        if after > before + 1:
            raise missing_versions_error(table, before + 1, after - 1)
    start, last = found[0], found[-1]
    if start > 0:
        openable = [version for version in checkpoints if start - 1 <= version <= last]
        start = min(openable, default=start)
    return range(start, last + 1)


def missing_versions_error(table: Place, first: int, last: int) -> LandingError:
    """The error for versions, `last` included, whose commits the log lost before they were read."""
    named = f"versions {first} to {last}, which were"
    if first == last:
        named = f"version {first}, which was"
    return LandingError(
        f"the Delta table {printable_text(str(table))}",
        f"its log lacks {named} not read yet",
        NOTHING_READ,
        "Put the commits back from a copy, and read the table more often than its log is cleaned "
        f"(delta.logRetentionDuration); or begin with what it holds: first_version = {last + 1} "
        "beside table",
    )


def brought_contents(
    table: Place,
    commits: range,
    first: int = 0,
    state: TableState | None = None,
    look: int = FOREVER,
) -> tuple[tuple[TableFile, ...], TableState]:
    """What these commits brought, by version, and the state after them; the one of version `first`,
    if that is not 0, brought all that the table holds then, and earlier ones nothing. `state`:
    before them, None if it is not known. A commit counts as later than the one before it, and one
    that says a time beyond a day after `look` (milliseconds since 1970) as of the look, which holds
    no later commit up. Raises LandingError for what cannot be read without loss."""
    found = list[TableFile]()
    if state is None:
        state = _state_at(table, commits.start) if commits.start > 0 else TableState()
    for version in commits:
        if not table.exists(commit_name(version)):  # only its checkpoint is left
            state = replace(_state_at(table, version), time=_newest_file_time(table, version))
            if version == first:
                actions = _held_files(table, version, ())
                found += _commit_contents(table, version, actions, "", (state, state))
            continue
        told, digest = _commit_actions(table, version)
        before, state = state, _state_after(table, version, state, told)
        committed_ms = _committed_ms(table, version, told)
        is_ahead = committed_ms > look + AHEAD_MS
        if is_ahead:  # `state` keeps the time before, so that no later commit is held up
            after = replace(state, time=look)
        else:
            time = max(committed_ms, state.time + 1) if version >= first else 0
            after = state = replace(state, time=time)
        if version >= first:
            if version == first > 0:
                actions = _held_files(table, version, told)
            else:
                actions = _with_partitions(table, commits.start, version, told, before)
            brought = _commit_contents(table, version, actions, digest, (before, after))
            noted_ms = committed_ms if is_ahead else 0
            found += [replace(file, committed_ms=noted_ms) for file in brought]
    return tuple(found), state


def _commit_actions(table: Place, version: int) -> tuple[list[Mapping[str, Any]], str]:
    """The actions of a commit, and the digest of its bytes. Raises LandingError for one that no log
    has."""
    if why := commit_fault(table, commit_name(version).removeprefix(f"{LOG}/")):
        raise _log_error(table, version, f"cannot be read: {why}", RESTORE)
    raw = table.read(commit_name(version))
    try:
        actions = [json.loads(line) for line in raw.splitlines() if line.strip()]
    except ValueError as error:
        raise _log_error(table, version, f"is no JSON ({error})", RESTORE) from None
    for action in actions:
        if not isinstance(action, dict):
            culprit = f"has a line that is no JSON object ({type(action).__name__})"
            raise _log_error(table, version, culprit, RESTORE)
    return actions, hashlib.sha256(raw).hexdigest()


def _lacks_partition(action: Mapping[str, Any], state: TableState) -> bool:
    """Whether a file is removed whose partition is not told, as by old writers."""
    gone = action.get("remove")
    if not state.partitioned_by or not isinstance(gone, dict):
        return False
    return gone.get("partitionValues") is None


def _with_partitions(
    table: Place, start: int, version: int, actions: list[Mapping[str, Any]], before: TableState
) -> list[Mapping[str, Any]]:
    """The actions of a commit, in which removed files have the partitions that the log told when
    they were added. `start`: the log's first version; `before`: the state before the commit."""
    if not any(_lacks_partition(action, before) for action in actions):
        return actions
    log_of_table = log_versions(table)
    added = dict[str, Any]()
    for earlier in range(min(start, log_of_table.start), version):
        if table.exists(commit_name(earlier)):
            earlier_actions, _ = _commit_actions(table, earlier)
            found = [action["add"] for action in earlier_actions if action.get("add")]
            added |= {file["path"]: file.get("partitionValues") for file in found}
    if log_of_table.start > 0:  # files of a checkpoint
        held = _held_files(table, log_of_table.start, ())
        added = {a["add"]["path"]: a["add"]["partitionValues"] for a in held} | added
    completed = list[Mapping[str, Any]]()
    for action in actions:
        gone = action.get("remove") or {}
        is_untold = gone.get("partitionValues") is None
        if is_untold and gone.get("path") in added:
            action = {**action, "remove": {**gone, "partitionValues": added[gone["path"]]}}
        completed.append(action)
    return completed


def _newest_file_time(table: Place, version: int) -> int:
    """When the newest file of a version was written, in milliseconds: no later than its commit,
    which is gone."""
    import pyarrow as pa

    times = pa.table(_open_at(table, version).get_add_actions())["modification_time"].to_pylist()
    return max((int(t) for t in times if t is not None), default=0)


def _log_error(table: Place, version: int, culprit: str, advice: str) -> LandingError:
    """The error for a version of a table that cannot be read."""
    return LandingError(
        f"the Delta table {printable_text(str(table))}",
        f"version {version} {culprit}",
        NOTHING_READ,
        advice,
    )


def _state_at(table: Place, version: int) -> TableState:
    """What the table's checkpoint says of it, where the first commits are cleaned away."""
    opened = _open_at(table, version)
    metadata, protocol = opened.metadata(), opened.protocol()
    _refuse_features(table, version, protocol.reader_features or (), metadata.configuration)
    schema, partitioned_by = opened.schema().to_json(), tuple(metadata.partition_columns)
    return TableState(
        str(metadata.id), schema, partitioned_by, columns=frozenset(column_names(schema))
    )


def _open_at(table: Place, version: int) -> "DeltaTable":
    """The table at a version, whose files delta-rs knows by a checkpoint or by all commits
    before."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if why := log_fault(table, version):
        raise _log_error(table, version, f"cannot be read: {why}", RESTORE)
    try:
        return DeltaTable(table.uri(), version=version)
    except (DeltaError, OSError) as error:
        table.refuse_loss(error)
        culprit = (
            "cannot be opened, as by a lost commit before it "
            f"({' '.join(str(error).split())[:200]})"
        )
        raise _log_error(table, version, culprit, "Put _delta_log back from a copy") from None


def _held_files(
    table: Place, version: int, actions: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The files of the table at a version, as if one commit had added them: last those that its own
    commit added."""
    import pyarrow as pa

    opened = _open_at(table, version)
    if DELETION_VECTORS in (opened.protocol().reader_features or ()):
        raise _log_error(table, version, "may have deletion vectors, which are not read yet", PURGE)
    files = pa.table(opened.get_add_actions()).to_pylist()
    held = sorted(files, key=lambda f: (str(f["modification_time"]), f["path"]))
    by_path: dict[str, dict[str, Any]] = {
        unquote(f["path"]): {"add": _as_add_action(f)} for f in held
    }
    own = [unquote(action["add"]["path"]) for action in actions if action.get("add")]
    last = [by_path.pop(name) for name in own if name in by_path]
    return [*({EARLIER: True, **added} for added in by_path.values()), *last]


def _as_add_action(file: Mapping[str, Any]) -> dict[str, Any]:
    """A file that the table holds, as a commit would add it."""
    added = {
        "path": file["path"],
        "size": file["size_bytes"],
        "partitionValues": _partition_texts(file.get("partition")),
    }
    rows = file.get("num_records")
    return added if rows is None else {**added, "stats": json.dumps({"numRecords": rows})}


def _partition_texts(partition: Mapping[str, Any] | None) -> dict[str, str | None]:
    """The values of partition columns as texts, as a commit has them."""
    values = partition or {}
    return {name: None if value is None else str(value) for name, value in values.items()}


def _state_after(
    table: Place, version: int, state: TableState, actions: Sequence[Mapping[str, Any]]
) -> TableState:
    """The state after a commit."""
    for action in actions:
        if protocol := action.get("protocol"):
            _refuse_features(table, version, protocol.get("readerFeatures") or (), {})
        if metadata := action.get("metaData"):
            _refuse_features(table, version, (), metadata.get("configuration") or {})
            partitioned_by = tuple(metadata.get("partitionColumns") or ())
            # a pipeline makes a table before it knows its columns
            schema = metadata.get("schemaString") or ""
            columns = state.columns.union(column_names(schema) if schema else ())
            state = TableState(
                str(metadata.get("id") or ""), schema, partitioned_by, state.time, columns
            )
    return state


def _committed_ms(table: Place, version: int, actions: Sequence[Mapping[str, Any]]) -> int:
    """The time that a commit says, milliseconds since 1970."""
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if a.get("commitInfo")), {})
    time = info.get("inCommitTimestamp", info.get("timestamp"))
    if time is None:
        advice = (
            "Have the table written by a writer that notes it: a file's own time says nothing of "
            "its commit"
        )
        raise _log_error(table, version, "does not say when it was committed", advice)
    return int(time)


def _refuse_features(
    table: Place, version: int, features: Sequence[str], configuration: Mapping[str, str]
) -> None:
    """Raise LandingError for features that this reader does not know, and for mapped columns."""
    if unknown := sorted({*features} - KNOWN - REFUSED_WHERE_USED):
        raise _log_error(
            table,
            version,
            f"needs the feature {unknown[0]}, which is not known here",
            "Drop the feature, or deliver files",
        )
    if (mode := configuration.get("delta.columnMapping.mode", "none")) != "none":
        advice = (
            "Write a copy without it (its columns have other names in the files), or deliver files"
        )
        raise _log_error(
            table, version, f"has column mapping by {mode}, which is not read yet", advice
        )


def _commit_contents(
    table: Place,
    version: int,
    actions: Sequence[Mapping[str, Any]],
    digest: str,
    states: tuple[TableState, TableState],
) -> Iterator[TableFile]:
    """The contents of a commit; `states`: before and after it."""
    _, after = states
    added, removed = _changing(actions, "add"), _changing(actions, "remove")
    if any(a.get("deletionVector") for a in (*added, *removed)):
        raise _log_error(table, version, "has deletion vectors, which are not read yet", PURGE)
    whole = _whole_commit(table, version, actions, states)
    if not after.schema and (added or whole.removed or whole.feed):
        raise _log_error(table, version, "has files of a table without columns", RESTORE)
    news = _data_files(table, version, added, after)
    earlier = sum(_most_rows(a["add"]) for a in actions if EARLIER in a)
    places = _rows_before_files(table, version, added, earlier)
    parts: list[tuple[str, tuple[DataFile, ...]]] = [
        (action["path"], (file,)) for action, file in zip(added, news, strict=True)
    ]
    if whole.removed or whole.feed:
        parts = [(CHANGES, news)]
    for (name, files), rows_before in zip(parts, places, strict=False):
        named = f"{version}/{unquote(name)}"
        one = replace(whole, name=named, added=files, rows_before=rows_before)
        identity = hashlib.sha256(f"{after.id} {version} {digest} {name}".encode()).hexdigest()
        yield replace(one, size=sum(f.size for f in one.files), sha256=identity)


def _changing(actions: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """The actions of a kind that change data; a rewritten file says that it does not."""
    found = [action[kind] for action in actions if action.get(kind)]
    return [action for action in found if action.get("dataChange", True)]


def _whole_commit(
    table: Place,
    version: int,
    actions: Sequence[Mapping[str, Any]],
    states: tuple[TableState, TableState],
) -> TableFile:
    """A commit as one content, but for the files that it added."""
    before, after = states
    feed = [action["cdc"] for action in actions if action.get("cdc")]
    schemas = [state.schema for state in (after, before) if state.schema]
    lacking = frozenset[str]()
    if after.schema:
        present = {name.lower() for name in column_names(after.schema)}
        lacking = frozenset(name for name in after.columns if name.lower() not in present)
    content = known_content(table, f"{version}/{CHANGES}", 0, after.time * MILLISECOND, "")
    return replace(
        content,
        removed=_data_files(table, version, _changing(actions, "remove"), before),
        feed=_data_files(table, version, feed, after),
        partition_types=_partition_types(table, version, after),
        schemas=tuple(dict.fromkeys(schemas)),
        lacking=lacking,
    )


def _partition_types(table: Place, version: int, state: TableState) -> dict[str, str]:
    """The types of the partition columns. Raises LandingError for one of bytes."""
    kinds = column_types(state.schema) if state.schema else {}
    types = {name: kind for name, kind in kinds.items() if name in state.partitioned_by}
    binary = sorted(name for name, kind in types.items() if kind == "binary")
    if binary:
        culprit = (
            f"has the partition column {printable_text(binary[0])} of type BINARY, which logs "
            "name in "
            "several ways"
        )
        advice = "Lay the table out by a text or another column, or deliver files"
        raise _log_error(table, version, culprit, advice)
    return types


def _rows_before_files(
    table: Place, version: int, added: Sequence[Mapping[str, Any]], earlier: int
) -> list[int]:
    """The number of rows of a commit that come before those of each file added; below zero for the
    `earlier` rows that the table held before."""
    before_each = [*accumulate(map(_most_rows, added), initial=-earlier)]
    if version >> COMMIT_BITS or max(earlier, before_each[-1]) >> PLACE_BITS:
        advice = "Begin with a copy of the table, whose log is short"
        raise _log_error(table, version, "has rows that no number of 63 bits can order", advice)
    return before_each


def _most_rows(action: Mapping[str, Any]) -> int:
    """The number of rows of a data file, by its statistics; without these no row takes less than a
    bit."""
    with suppress(ValueError, TypeError, LookupError):  # statistics may be left out, or cut off
        return max(0, int(json.loads(action.get("stats") or "")["numRecords"]))
    return int(action.get("size") or 0) * 8


def _data_files(
    table: Place, version: int, actions: Sequence[Mapping[str, Any]], state: TableState
) -> tuple[DataFile, ...]:
    """The data files that actions of a commit name, each with its values of the partition columns
    of `state`. Raises LandingError where one does not tell them, or has no name of the table's."""
    found = []
    for action in actions:
        given = action.get("partitionValues", None if state.partitioned_by else {})
        if given is None or {*given} - {*state.partitioned_by}:
            advice = (
                f"Begin with what the table holds then: first_version = {version} beside table; "
                "or deliver files"
            )
            raise _log_error(
                table,
                version,
                f"does not say of which partition {printable_name(action['path'])} is",
                advice,
            )
        # Spark leaves NULLs out
        partition = {column: given.get(column) for column in state.partitioned_by}
        found.append(
            _data_file(table, version, action["path"], int(action.get("size") or 0), partition)
        )
    if why := file_fault(table, [unquoted_file_name(action["path"]) for action in actions]):
        raise _log_error(table, version, why, OWN_FILES)
    return tuple(found)


def _data_file(
    table: Place, version: int, named: str, size: int, partition: Mapping[str, str | None]
) -> DataFile:
    """The data file that a commit names `named`, as it is found in the table's place."""
    try:
        name = unquoted_file_name(named)
    except ValueError as error:
        raise _log_error(table, version, str(error), OWN_FILES) from None
    if table.is_store:
        return DataFile(NOT_HERE, size, partition, name)
    return DataFile(table.local(name), size, partition)
