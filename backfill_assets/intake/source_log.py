"""What a source delivers: landed files, or what each commit of a Delta table brought, by its log,
without its rows.

Not here: its rows and the ledger (`intake.table_changes`), the lake's own tables (`log`). A commit
that only adds files brings each file as a content, read where it lies; one that also removes files,
or rows of them by deletion vectors, that has a change feed, or whose columns are called otherwise
in files, brings one content: the rows that it changed. What a commit rewrites without changing data
brings nothing.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from backfill_assets.intake.deliveries import FIRST_SCAN_SLACK_DAYS
from backfill_assets.intake.files import NOT_HERE, LandedFile
from backfill_assets.intake.landings import list_files, source_table
from backfill_assets.intake.listing import Listing
from backfill_assets.intake.log_files import (
    EARLIER,
    DataFile,
    data_files,
    held_files,
    newest_file_time,
    with_partitions,
)
from backfill_assets.intake.log_reading import (
    NOTHING_READ,
    RESTORE,
    ListedLog,
    commit_actions,
    list_log,
    log_error,
    log_versions,
    open_at,
)
from backfill_assets.intake.select import COMMIT_BITS, PLACE_BITS
from backfill_assets.intake.settings import landed_source
from backfill_assets.intake.source_position import (
    Position,
    TableState,
    column_names,
    column_types,
    log_digest,
    newest_mark,
    typed_columns,
)
from backfill_assets.intake.stored_names import (
    mapping_mode,
    named_paths,
    newest_number,
    returned_paths,
)
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.log.features import refused_features
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.embedded import is_delta, why_not_delta
from backfill_assets.kernel.tables.sections import SourceSettings

CHANGES = "changes"  # the name of the content that holds the changed rows of a version
MILLISECOND = 1_000_000  # in nanoseconds
# So far ahead of a look a commit's own time is believed.
AHEAD_MS = FIRST_SCAN_SLACK_DAYS * 86_400_000
FOREVER = 1 << 62


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
    mapping: str = ""  # how its columns are found in its files: by `name` or `id` ("": as called)
    # columns that the table had before and has no more after the commit
    lacking: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()  # that columns had before (`typed_columns`)
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
        if self.place is not None:
            return True
        return all(f.path.exists() and (self.path / f.vector_name).exists() for f in self.files)

    @property
    def table(self) -> Place:
        """The table that it is of."""
        return self.place or place_of_others(str(self.path))


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
    first = landed_source(source).first_version
    listed, known = _listed_log(table, known, first)
    if not listed.names and not is_delta(table):
        is_found = table.names() if table.is_store else table.local().exists()
        if not is_found:
            return Listing(root_missing=True)
        culprit, fix = why_not_delta(table)
        raise SettingsError(f"[source] table = {source.table!r}", culprit, NOTHING_READ, fix)
    commits = log_versions(listed)
    if commits and read_before >= commits.start and not listed.has_commit(commits.start):
        commits = commits[1:]  # what only a checkpoint tells was read as a commit
    read = range(known.version + 1, commits.stop) if known else commits
    look = round(utc_now().timestamp() * 1000)  # as commits tell times: in milliseconds
    files, state = brought_contents(listed, read, first, known.state if known else None, look)
    if table.is_store:
        files = _with_presence(table, files)
    position = known
    if read and listed.has_commit(commits[-1]):  # else only a checkpoint tells of it
        last, digest = commits[-1], log_digest(listed, commits)
        position = Position(last, digest, first, state, newest_mark(listed, last))
    return TableListing(files, commits=commits, read=read, position=position)


def _listed_log(
    table: Place, known: Position | None, first: int
) -> tuple[ListedLog, Position | None]:
    """The log of a table, and the `known` position; None for one that holds no more there, as of
    another log, or of another beginning: then all of it is read again. In a store only what comes
    from that position on is listed; and where that is new the whole log, since what is new counts
    only behind commits that are those that were read."""
    if known is None or known.first != first:
        return list_log(table), None
    if known.newest:
        listed = list_log(table, known.version)
        is_newest = max(log_versions(listed), default=-1) == known.version
        if is_newest and newest_mark(listed, known.version) == known.newest:
            return listed, known
    listed = list_log(table)
    return listed, (known if known.holds(listed) else None)


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
    names = [name for content in files for f in content.files for name in f.names]
    found = table.sizes(names)
    return tuple(
        replace(c, is_there=all(found[n] is not None for f in c.files for n in f.names))
        for c in files
    )


def brought_contents(
    listed: ListedLog,
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
    table, found = listed.table, list[TableFile]()
    if state is None:
        state = _state_at(table, commits.start) if commits.start > 0 else TableState()
    for version in commits:
        if not listed.has_commit(version):  # only its checkpoint is left
            state = replace(_state_at(table, version), time=newest_file_time(table, version))
            if version == first:
                actions = held_files(table, version, ())
                found += _commit_contents(table, version, actions, "", (state, state), begins=True)
            continue
        told, digest = commit_actions(table, version)
        before, state = state, _state_after(table, version, state, told)
        if version <= first:
            # Nothing is read under earlier names, and nothing as of earlier types.
            state = replace(_with_paths(state), kinds=frozenset())
        committed_ms = _committed_ms(table, version, told)
        is_ahead = committed_ms > look + AHEAD_MS
        if is_ahead:  # `state` keeps the time before, so that no later commit is held up
            after = replace(state, time=look)
        else:
            time = max(committed_ms, state.time + 1) if version >= first else 0
            after = state = replace(state, time=time)
        if version >= first:
            begins = version == first > 0
            if begins:
                actions = held_files(table, version, told)
            else:
                actions = with_partitions(table, commits.start, version, told, before)
            states = (before, after)
            brought = _commit_contents(table, version, actions, digest, states, begins=begins)
            noted_ms = committed_ms if is_ahead else 0
            found += [replace(file, committed_ms=noted_ms) for file in brought]
    return tuple(found), state


def _state_at(table: Place, version: int) -> TableState:
    """What the table's checkpoint says of it, where the first commits are cleaned away."""
    opened = open_at(table, version)
    metadata, protocol = opened.metadata(), opened.protocol()
    _refuse_features(table, version, protocol.reader_features or ())
    schema, partitioned_by = opened.schema().to_json(), tuple(metadata.partition_columns)
    return _with_paths(
        TableState(
            str(metadata.id),
            schema,
            partitioned_by,
            columns=frozenset(column_names(schema)),
            mapping=mapping_mode(metadata.configuration),
            numbered=newest_number(metadata.configuration),
        )
    )


def _with_paths(state: TableState, earlier: frozenset[str] = frozenset()) -> TableState:
    """The state with the names in files that the table has now, if its columns are mapped, beside
    the `earlier` ones."""
    found = named_paths(state.schema) if state.mapping and state.schema else frozenset[str]()
    return replace(state, paths=earlier | found)


def _state_after(
    table: Place, version: int, state: TableState, actions: Sequence[Mapping[str, Any]]
) -> TableState:
    """The state after a commit."""
    for action in actions:
        if protocol := action.get("protocol"):
            _refuse_features(table, version, protocol.get("readerFeatures") or ())
        if metadata := action.get("metaData"):
            state = _state_of_metadata(state, metadata)
    return state


def _state_of_metadata(state: TableState, metadata: Mapping[str, Any]) -> TableState:
    """The state of a table that a commit gave other columns or properties."""
    # a pipeline makes a table before it knows its columns
    schema, configuration = metadata.get("schemaString") or "", metadata.get("configuration") or {}
    mapping, earlier = mapping_mode(configuration), state.paths
    if mapping and schema:
        earlier |= returned_paths(schema, state.numbered, state.paths)
    after = TableState(
        str(metadata.get("id") or ""),
        schema,
        tuple(metadata.get("partitionColumns") or ()),
        state.time,
        state.columns.union(column_names(schema) if schema else ()),
        mapping,
        kinds=state.kinds | typed_columns(state.schema),
        numbered=max(newest_number(configuration), state.numbered if mapping else 0),
    )
    return _with_paths(after, earlier)


def _committed_ms(table: Place, version: int, actions: Sequence[Mapping[str, Any]]) -> int:
    """The time that a commit says, milliseconds since 1970."""
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if a.get("commitInfo")), {})
    time = info.get("inCommitTimestamp", info.get("timestamp"))
    if time is None:
        advice = (
            "Have the table written by a writer that notes it: a file's own time says nothing of "
            "its commit"
        )
        raise log_error(table, version, "does not say when it was committed", advice)
    return int(time)


def _refuse_features(table: Place, version: int, features: Sequence[str]) -> None:
    """Raise LandingError for features of readers that no source has."""
    for feature in refused_features(features, "source"):
        culprit = f"needs the feature {feature}, which is not known here"
        raise log_error(table, version, culprit, "Drop the feature, or deliver files")


def _commit_contents(
    table: Place,
    version: int,
    actions: Sequence[Mapping[str, Any]],
    digest: str,
    states: tuple[TableState, TableState],
    *,
    begins: bool,
) -> Iterator[TableFile]:
    """The contents of a commit; `states`: before and after it. `begins`: reading begins with it, so
    that all that the table held counts as brought, and nothing as taken away."""
    _, after = states
    added = _changing(actions, "add")
    # A commit that reading begins with takes no rows away, and changes no type.
    whole = _whole_commit(table, version, actions, (after, after) if begins else states)
    if not after.schema and (added or whole.removed or whole.feed):
        raise log_error(table, version, "has files of a table without columns", RESTORE)
    news = data_files(table, version, added, after)
    earlier = sum(_most_rows(a["add"]) for a in actions if EARLIER in a)
    places = _rows_before_files(table, version, added, earlier)
    parts: list[tuple[str, tuple[DataFile, ...]]] = [
        (action["path"], (file,)) for action, file in zip(added, news, strict=True)
    ]
    if whole.removed or whole.feed or _needs_copy(whole, news):
        parts = [(CHANGES, news)]
    for (name, files), rows_before in zip(parts, places, strict=False):
        named = f"{version}/{unquote(name)}"
        one = replace(whole, name=named, added=files, rows_before=rows_before)
        is_whole_table = name == CHANGES and begins  # else what the commit changed is called so
        told = f"{after.id} {version} {digest} {name}{' and before' if is_whole_table else ''}"
        identity = hashlib.sha256(told.encode()).hexdigest()
        yield replace(one, size=sum(f.size for f in one.files), sha256=identity)


def _needs_copy(whole: TableFile, news: Sequence[DataFile]) -> bool:
    """Whether the files that a commit adds do not give its rows as they lie: their columns have
    other names there, or some of their rows are deleted."""
    return bool(news) and bool(whole.mapping or any(file.has_deleted_rows for file in news))


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
        removed=data_files(table, version, _changing(actions, "remove"), before),
        feed=data_files(table, version, feed, after),
        partition_types=_partition_types(table, version, after),
        schemas=tuple(dict.fromkeys(schemas)),
        mapping=after.mapping or before.mapping,
        lacking=lacking,
        kinds=after.kinds,
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
        raise log_error(table, version, culprit, advice)
    return types


def _rows_before_files(
    table: Place, version: int, added: Sequence[Mapping[str, Any]], earlier: int
) -> list[int]:
    """The number of rows of a commit that come before those of each file added; below zero for the
    `earlier` rows that the table held before."""
    before_each = [*accumulate(map(_most_rows, added), initial=-earlier)]
    if version >> COMMIT_BITS or max(earlier, before_each[-1]) >> PLACE_BITS:
        advice = "Begin with a copy of the table, whose log is short"
        raise log_error(table, version, "has rows that no number of 63 bits can order", advice)
    return before_each


def _most_rows(action: Mapping[str, Any]) -> int:
    """The number of rows of a data file, by its statistics; without these no row takes less than a
    bit."""
    with suppress(ValueError, TypeError, LookupError):  # statistics may be left out, or cut off
        return max(0, int(json.loads(action.get("stats") or "")["numRecords"]))
    return int(action.get("size") or 0) * 8
