"""Housekeeping of one table: unneeded files deleted, uneven files written again. No row changes.

Not here: which tables, and since when (`upkeep.maintain`), and files of killed writes, which
`staging.sweep_writes` removes at the next write. Commits stay in the log for ever.

Compaction: a day, or a ledger, in many small files gets one, a too large file becomes several. The
commit says `dataChange: false` and names no day, so that every reader of a log takes it as nothing
new; the files before stay as long as a rollback may need them. Several small files arise where
Spark writes a day in several tasks, and where an upsert keeps rows.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from math import ceil
from pathlib import Path

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Built, Receipt
from backfill_assets.kernel.core.view import TableView, exists_at
from backfill_assets.kernel.log.file_names import file_fault
from backfill_assets.kernel.log.log import (
    LOG,
    LiveFile,
    commit_name,
    first_version_of,
    parsed_checkpoint,
    torn_checkpoints,
)
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.port import Place, Token, table_lock
from backfill_assets.kernel.tables.committer import rewrite_files
from backfill_assets.kernel.tables.data_files import files_of_version, refuse_altered_files
from backfill_assets.kernel.tables.embedded import duckdb_cursor, sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.folder import TABLES, LakeFolder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import (
    WRITES,
    Staged,
    StagedFile,
    fill_staging,
    marker_folder,
)
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.session import Session
from backfill_assets.reading.fitness import contract_of_file
from backfill_assets.reading.kept_files import pinned_files
from backfill_assets.upkeep.remembered import remember
from backfill_assets.upkeep.removals import (
    Removal,
    Removals,
    data_file_tokens,
    first_removals,
    follow_commits,
    known_removals,
    live_names,
)

REASON = "maintain"
# The newest, and one more for readers that found it before the newest was there.
KEPT_CHECKPOINTS = 2
MIB = 1 << 20
TOO_LARGE = 2  # times the wanted size: a file ends with a row group, and is often somewhat larger
AT_ONCE_BYTES = 2 << 30  # what one commit rewrites: about a minute's work, lost if it is stopped
UNITED = "union_by_name = true, hive_partitioning = false"  # files of a ledger may differ in a type
MOST_LEDGER_FILES = 64  # beyond it, every command spends tenths of a second to open them
# By the value of the partition column; "": of a table without one.
Layout = Mapping[str, Sequence[LiveFile]]


@dataclass(frozen=True)
class Unneeded:
    """Files of one table that can be deleted, by their names in it."""

    table: str
    replaced: tuple[str, ...] = ()  # data files that a commit took out before the given time
    no_version: tuple[str, ...] = ()  # data files that no version names
    checkpoints: tuple[str, ...] = ()  # older checkpoints
    bytes: int = 0  # of all these files

    @property
    def names(self) -> tuple[str, ...]:
        """All files that can go."""
        return (*self.replaced, *self.no_version, *self.checkpoints)


@dataclass(frozen=True)
class _Look:
    """What a look at a table found."""

    known: Removals  # by its commits and, where they were listed, its files
    no_version: Mapping[str, Token]  # the old files that no version names
    checkpoints: tuple[str, ...]


def find_unneeded(lake: LakeFolder, contract: Contract, since: datetime) -> Unneeded:
    """Find the files that no version of the table since then (aware) holds, from where the last
    upkeep ended; writes nothing.

    These are data files that a commit took out before `since`, data files that no version names
    and that nobody changed since then (of a table that others began, only those of this package's
    writes), and all checkpoints but the newest. Files of writes under way stay, and what a snapshot
    pins; while one is being made, all data files stay. Raises BackfillError if the log has a gap or
    is torn.
    """
    table = lake.table_place(contract.name)
    known = known_removals(lake.place, table) or first_removals(table, since.timestamp())
    return _unneeded_of(lake, contract, since, _look_at_table(lake, contract, since, known))


def _look_at_table(lake: LakeFolder, contract: Contract, since: datetime, known: Removals) -> _Look:
    """Continue what is known of a table up to its newest version, and list its files where that is
    due."""
    table, before = lake.table_place(contract.name), since.timestamp()
    known = follow_commits(known, table, LOGS.head(table))
    unnamed = dict[str, Token]()
    if known.is_listing_due(utc_now()):
        files = data_file_tokens(table)
        known = known.listed(files, utc_now())
        head = LOGS.head(table)  # a file that was listed, and is of a later version, is young
        known = follow_commits(known, table, head)
        old = {name for name, token in files.items() if token.changed_at < before}
        nameless = old - known.waiting.keys()
        nameless -= live_names(table, head) if nameless else set()
        if nameless and first_version_of(table):  # what others left in their table is theirs
            nameless = {name for name in nameless if _write_of(name)}
        unnamed = {name: files[name] for name in sorted(nameless)}
    checkpoints, oldest = _old_checkpoints(table, known.checkpoint)
    return _Look(replace(known, checkpoint=oldest), unnamed, tuple(checkpoints))


def _unneeded_of(lake: LakeFolder, contract: Contract, since: datetime, look: _Look) -> Unneeded:
    """The files of a look that can be deleted now."""
    table, waiting = lake.table_place(contract.name), look.known.waiting
    before = since.timestamp()
    due = [name for name, removal in waiting.items() if removal.at < before]
    free = _free_files(lake, contract, look.known.version, [*due, *look.no_version])
    replaced = tuple(sorted(name for name in free if name in waiting))
    no_version = tuple(sorted(name for name in free if name not in waiting))
    size = sum(waiting[name].size for name in replaced)
    size += sum(look.no_version[name].size for name in no_version)
    size += sum(found or 0 for found in table.sizes(look.checkpoints).values())
    return Unneeded(contract.name, replaced, no_version, look.checkpoints, size)


def _free_files(
    lake: LakeFolder, contract: Contract, version: int, names: Sequence[str]
) -> list[str]:
    """Those of a table's files that no write under way and no snapshot has, that lie behind no
    link, and that the version does not hold, whatever upkeep remembers."""
    if not names:
        return []
    table = lake.table_place(contract.name)
    under_way = {*lake.place.names(marker_folder(contract.name))}
    # Asked after they were chosen: a snapshot that is begun from now on keeps none of them.
    pinned = pinned_files(lake.place)
    if pinned is None:  # one is being made
        return []
    live = live_names(table, version)
    taken = {name for name in names if f"{TABLES}/{contract.name}/{name}" in pinned or name in live}
    free = [name for name in names if name not in taken and _write_of(name) not in under_way]
    return [name for name in free if not file_fault(table, [name])]


def _write_of(name: str) -> str:
    """The id of the write that made a data file, by the file's name in its table; empty for a file
    of another program."""
    first, _, rest = name.partition("/")
    return rest.partition("/")[0] if first == WRITES else ""


def remove_unneeded(lake: LakeFolder, contract: Contract, since: datetime) -> Unneeded:
    """Find the files and delete them, and remember where the next upkeep begins; returns the
    deleted ones.

    The table's lock is held for the deletion alone: what was found before is held against what was
    committed and pinned meanwhile. Stopped in between, it has deleted some; the next call finds the
    others.
    """
    table = lake.table_place(contract.name)
    table.refuse_link(WRITES)
    before = known_removals(lake.place, table)
    known = before or first_removals(table, since.timestamp())
    look = _look_at_table(lake, contract, since, known)
    found = _unneeded_of(lake, contract, since, look)
    known = look.known
    if found.names or before is None:
        with table_lock(lake.place, contract.name):
            found, known = _delete_found(lake, contract, since, look)
    if known != before and exists_at(known.version):
        remember(lake.place, table.name, known)
    return found


def _delete_found(
    lake: LakeFolder, contract: Contract, since: datetime, look: _Look
) -> tuple[Unneeded, Removals]:
    """Delete what is still unneeded of a look, under the table's lock; gives it, and what is known
    then."""
    table = lake.table_place(contract.name)
    nameless = {
        name: Removal(token.changed_at, token.size) for name, token in look.no_version.items()
    }
    waiting = {**look.known.waiting, **nameless}  # a commit that names a file takes it out of these
    known = follow_commits(replace(look.known, waiting=waiting), table, LOGS.head(table))
    still = {n: t for n, t in look.no_version.items() if known.waiting.get(n) == nameless[n]}
    kept = {name: removal for name, removal in known.waiting.items() if name not in still}
    known = replace(known, waiting=kept)
    found = _unneeded_of(lake, contract, since, replace(look, known=known, no_version=still))
    table.delete_all(found.names)
    for folder in {name.rpartition("/")[0] for name in (*found.replaced, *found.no_version)}:
        table.prune(folder)
    LOGS.keep_newest_state(table, contract.day_column)
    gone = {*found.replaced}
    left = {name: removal for name, removal in kept.items() if name not in gone}
    return found, replace(known, waiting=left)


def _old_checkpoints(table: Place, since: int) -> tuple[list[str], int]:
    """The whole checkpoints before the newest ones, of those from a version on, and the version of
    the oldest that stays. A torn one is left to `mend`, and an adopted table is opened by the one
    of its first version, or by one before it."""
    first = max(since, first_version_of(table) + 1)
    names = _checkpoints_from(table, first)
    found = sorted(names)
    if len(found) <= KEPT_CHECKPOINTS:
        return [], found[0] if found else since
    # A power cut tears no object of a store.
    torn = set[str]() if table.is_store else {*torn_checkpoints(table)}
    whole = [version for version in found if names[version].rpartition("/")[2] not in torn]
    old, kept = whole[:-KEPT_CHECKPOINTS], whole[-KEPT_CHECKPOINTS:]
    return [names[version] for version in old], kept[0] if kept else since


def _checkpoints_from(table: Place, first: int) -> dict[int, str]:
    """The names in a table of its checkpoints of one file, as delta-rs writes them, by their
    versions from one on; a store lists no name before it."""
    if table.is_store:
        listed = [*table.tokens(LOG, commit_name(first).removesuffix(".json"))]
    else:
        listed = [f"{LOG}/{name}" for name in table.names(LOG)]
    found = dict[int, str]()
    for name in listed:
        checkpoint = parsed_checkpoint(name.removeprefix(f"{LOG}/"))
        if checkpoint is None or checkpoint.version < first:
            continue
        if name.endswith(".checkpoint.parquet"):
            found[checkpoint.version] = name
    return found


def uneven_files(lake: Lake, contract: Contract, file_bytes: int) -> Layout:
    """The days in more files than their bytes need, or in a file that is too large, with their
    files; a ledger that is appended to, in too many files, as a whole. Reads the log.

    None of what another program wrote, of days that a rollback holds, and of ledgers that are laid
    out by month.
    """
    by_partition = defaultdict[str, list[LiveFile]](list)
    for file in files_of_version(lake, contract):
        by_partition[file.partition or ""].append(file)
    if not contract.partition_column:
        return _scattered_ledger(lake, contract, by_partition)
    if not contract.is_by_day:
        return {}
    own_days = _own_days(lake.store.view(contract.name, contract.day_column))
    uneven = dict[str, Sequence[LiveFile]]()
    for value in sorted(by_partition.keys() & own_days):
        group = by_partition[value]
        is_own = all(f.path.startswith(f"{WRITES}/") for f in group)
        if is_own and _is_uneven([f.size for f in group], file_bytes):
            uneven[value] = group
    return uneven


def _scattered_ledger(lake: Lake, contract: Contract, by_partition: Layout) -> Layout:
    """The files of a ledger that has too many, unless another program wrote to it."""
    many = {value: group for value, group in by_partition.items() if len(group) > MOST_LEDGER_FILES}
    if not many:
        return {}
    state = LOGS.state(lake.table_place(contract.name), contract.day_column)
    return {} if state.others else many


def _own_days(view: TableView) -> set[str]:
    """The days, as folders name them, that no other program changed and no rollback holds."""
    own = {d: r for d, r in view.latest.items() if d not in view.foreign}
    return {str(d) for d, r in own.items() if r.entry.built is not Built.HELD}


def _is_uneven(sizes: Sequence[int], file_bytes: int) -> bool:
    has_many = len(sizes) > ceil(sum(sizes) / file_bytes)
    return has_many or max(sizes) > TOO_LARGE * file_bytes


def compact_files(session: Session, contract: Contract, file_bytes: int) -> Layout:
    """Write uneven files again in files of about so many bytes, some days per commit; gives the
    days that changed. Large ones in a bucket are written by the machines of an engine elsewhere.

    Writers go on meanwhile: a day that was written since is left alone. Raises Altered for a file
    that is gone or altered, BackfillError where the new files do not hold the rows of the old ones;
    then these days are as they were.
    """
    compacted = dict[str, Sequence[LiveFile]]()
    for batch in _commit_batches(uneven_files(session.lake, contract, file_bytes)):
        compacted |= _rewrite_days(session, contract, batch, file_bytes)
    return compacted


def _commit_batches(uneven: Layout) -> Iterator[Layout]:
    """The days that one commit rewrites: as many as reach `AT_ONCE_BYTES`."""
    batch, size = dict[str, Sequence[LiveFile]](), 0
    for day, group in uneven.items():
        batch[day] = group
        size += sum(f.size for f in group)
        if size >= AT_ONCE_BYTES:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


def _rewrite_days(session: Session, contract: Contract, days: Layout, file_bytes: int) -> Layout:
    """Rewrite the files of some days by one commit; gives the days that nobody wrote meanwhile."""
    lake = session.lake
    table = lake.table_place(contract.name)
    refuse_altered_files(table, [f for group in days.values() for f in group])
    with fill_staging(lake, contract) as staged:
        staged.files = _written_again(session, contract, staged, days, file_bytes)
        with lake.store.lock(contract.name):
            live = set(files_of_version(lake, contract))
            unchanged = {day: group for day, group in days.items() if live.issuperset(group)}
            if not unchanged:
                staged.drop()
                return {}
            _commit_rewritten(table, contract, staged, unchanged)
    return unchanged


def _commit_rewritten(table: Place, contract: Contract, staged: Staged, days: Layout) -> None:
    """Put the staged files of these days in place of their old ones, under the table's lock."""
    adds = [f for f in staged.files if (f.partition or "") in days]
    removes = [f for group in days.values() for f in group]
    note = f"{len(removes)} files made {len(adds)}, no row changed"
    staged.tried = True
    receipt = Receipt(
        write_id=staged.write_id, table=contract.name, reason=REASON, days={}, note=note
    )
    rewrite_files(table, contract, receipt, adds, removes, staged.committing)
    staged.keep({f.name for f in adds})


@dataclass(frozen=True)
class Rewrite:
    """Files of one partition, of which a process writes the rows again."""

    lake: Lake
    contract: Contract
    table: Place
    name: str  # of the write's folder in the table
    value: str  # of the partition column; "": of a table without one
    old: Sequence[LiveFile]
    file_bytes: int


def _written_again(
    session: Session, contract: Contract, staged: Staged, days: Layout, file_bytes: int
) -> tuple[StagedFile, ...]:
    """The new files of these days, which hold the rows of the old ones."""
    rewrites = [
        Rewrite(session.lake, contract, staged.table, staged.name, value, group, file_bytes)
        for value, group in days.items()
    ]
    size = sum(file.size for group in days.values() for file in group)
    what = f"the compaction of {contract.name}"
    found = session.answers_there(rewritten_there, rewrites, what, size)
    if found is None:
        return tuple(
            StagedFile(staged.table, name, rewrite.value or None)
            for rewrite in rewrites
            for name in write_again(rewrite)
        )
    files = list[StagedFile]()
    for rewrite, digests in zip(rewrites, found, strict=True):
        for name, digest in digests.items():
            files.append(StagedFile(staged.table, name, rewrite.value or None, digest))
    return tuple(files)


def rewritten_there(rewrite: Rewrite, folder: str) -> dict[str, str]:
    """Work of a task on another machine: the names of the new files, which it sends, with their
    digests."""
    table = rewrite.table.keeping_copies(folder)
    lake = replace(rewrite.lake, root=Path(folder))  # where DuckDB spills
    new = write_again(replace(rewrite, lake=lake, table=table))
    table.sync_new(new)
    return {name: StagedFile(table, name, None).digest() for name in new}


def write_again(rewrite: Rewrite) -> list[str]:
    """Write the rows of some files of one partition again, and compare them with the rows that
    these hold; gives the names of the new files, which no other call gives."""
    contract, table = rewrite.contract, rewrite.table
    column, mark = contract.partition_column, uuid.uuid4().hex
    old = [str(table.local(file.path)) for file in rewrite.old]
    written = contract_of_file(contract, old[0])
    below = f"{rewrite.name}/{column}={rewrite.value}" if column else rewrite.name
    folder = table.prepared(below)
    names = ", ".join(quoted_name(c) for c in written.column_names if c != column)
    rows = f"SELECT {names} FROM read_parquet([{', '.join(map(sql_literal, old))}], {UNITED})"
    size = f"FILE_SIZE_BYTES {rewrite.file_bytes}, ROW_GROUP_SIZE_BYTES {rewrite.file_bytes}"
    options = (
        f"FORMAT parquet, COMPRESSION zstd, {size}, FILENAME_PATTERN 'part-{mark}-{{i}}', "
        "OVERWRITE_OR_IGNORE"
    )
    with duckdb_cursor(rewrite.lake) as engine:
        engine.execute(f"COPY ({rows}) TO {sql_literal(str(folder))} ({options})")
    new = sorted(folder.glob(f"part-{mark}-*.parquet"))
    refuse_other_rows(rewrite.lake, contract, old, [str(path) for path in new])
    return [f"{below}/{path.name}" for path in new]


def refuse_other_rows(
    lake: Lake, contract: Contract, old: Sequence[str], new: Sequence[str]
) -> None:
    """Raise BackfillError unless the new files hold the rows of the old ones; the columns of each
    are alike."""
    before, after = (_day_contents(lake, contract, paths) for paths in (old, new))
    if before != after:
        day = next((d for d in before if before[d] != after.get(d)), None)
        raise BackfillError(
            f"the table {contract.name}",
            f"the rows of {day or 'some day'}, written again, are not those that it has",
            "Nothing was written",
            "Keep the message and report it",
        )


def _day_contents(
    lake: Lake, contract: Contract, paths: Sequence[str]
) -> dict[date | None, tuple[int, str]]:
    """Rows and fingerprint of each day in some files of a table."""
    profiles = audit_files(lake, paths, contract_of_file(contract, paths[0]))
    return {day: (p.rows, p.fingerprint) for day, p in profiles.items()}
