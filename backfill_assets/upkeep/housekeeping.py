"""Housekeeping of one table: unneeded files deleted, uneven files written again. No row changes.

Not here: which tables, and since when (`upkeep.maintain`), and files of killed writes, which
`staging.sweep_writes` removes at the next write. Commits stay in the log for ever.

Compaction: a day, or a ledger, in many small files gets one, a too large file becomes several. The
commit says `dataChange: false` and names no day, so that every reader of a log takes it as nothing
new; the files before stay as long as a rollback may need them. Several small files arise where
Spark writes a day in several tasks, and where an upsert keeps rows.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import ceil

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Built, Receipt
from backfill_assets.kernel.core.view import TableView
from backfill_assets.kernel.log.log import (
    LOG,
    LiveFile,
    checkpoint_name,
    data_file_names,
    file_changes,
    first_version_of,
    read_commits,
    torn_checkpoints,
)
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.port import Place, table_lock
from backfill_assets.kernel.tables.committer import rewrite_files
from backfill_assets.kernel.tables.data_files import files_of_version, refuse_altered_files
from backfill_assets.kernel.tables.embedded import duckdb_cursor, sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.folder import TABLES, LakeFolder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import WRITES, Staged, fill_staging, marker_folder
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.reading.fitness import contract_of_file
from backfill_assets.reading.kept_files import pinned_files

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


def find_unneeded(lake: LakeFolder, contract: Contract, since: datetime) -> Unneeded:
    """Find the files that no version of the table since then (aware) holds. Reads the log and lists
    the folder.

    Files of writes under way stay, and so does a file that no version names if it was changed since
    then: another program may be about to commit it; and what a snapshot pins. Raises BackfillError
    if the log has a gap or is torn.
    """
    table, before = lake.table_place(contract.name), since.timestamp()
    removed = _removal_times(table)
    gone = {file for file, at in removed.items() if at is not None and at < before}
    data_files = data_file_names(table)
    # Asked last: a marker is there before its first file.
    under_way = {*lake.place.names(marker_folder(contract.name))}
    finished = [name for name in data_files if _write_of(name) not in under_way]
    replaced = _unpinned_files(lake, contract, [name for name in finished if name in gone])
    unnamed = [name for name in finished if name not in removed]
    if first_version_of(table):  # what others left in their table is theirs
        unnamed = [name for name in unnamed if _write_of(name)]
    no_version = [name for name in unnamed if _is_older(table, name, before)]
    old = _old_checkpoints(table)
    total = sum(table.size(name) or 0 for name in (*replaced, *no_version, *old))
    return Unneeded(contract.name, tuple(replaced), tuple(no_version), tuple(old), total)


def _write_of(name: str) -> str:
    """The id of the write that made a data file, by the file's name in its table; empty for a file
    of another program."""
    first, _, rest = name.partition("/")
    return rest.partition("/")[0] if first == WRITES else ""


def _is_older(table: Place, name: str, before: float) -> bool:
    """Whether a file was last changed before a moment (seconds since 1970); not one that is
    gone."""
    token = table.token(name)
    return token is not None and token.changed_at < before


def _unpinned_files(lake: LakeFolder, contract: Contract, replaced: list[str]) -> list[str]:
    """Those of a table's replaced files that no snapshot keeps; none while one is being made."""
    if not replaced:
        return []
    # Asked after they were chosen: a snapshot that is begun from now on keeps none of them.
    pinned = pinned_files(lake.place)
    if pinned is None:
        return []
    return [name for name in replaced if f"{TABLES}/{contract.name}/{name}" not in pinned]


def remove_unneeded(lake: LakeFolder, contract: Contract, since: datetime) -> Unneeded:
    """Find the files again and delete them, while nobody writes the table or puts days of it back;
    returns the deleted ones.

    Stopped in between, it has deleted some; the next call finds the others.
    """
    table = lake.table_place(contract.name)
    table.refuse_link(WRITES)
    with table_lock(lake.place, contract.name):
        found = find_unneeded(lake, contract, since)
        for name in found.names:
            table.delete(name)
        for folder in {name.rpartition("/")[0] for name in (*found.replaced, *found.no_version)}:
            table.prune(folder)
        LOGS.keep_newest_state(table, contract.day_column)
    return found


def _removal_times(table: Place) -> dict[str, float | None]:
    """Every data file that the log names: when a commit took it out (seconds since 1970), None
    while it is live.

    A clock that was set back makes no commit older than the one before it.
    """
    found: dict[str, float | None] = {}
    now = 0.0
    for commit in read_commits(table):
        now = max(now, commit.timestamp_ms / 1000)
        found |= {c.path: None if c.is_added else now for c in file_changes(table, commit.version)}
    return found


def _old_checkpoints(table: Place) -> list[str]:
    """Whole checkpoints before the newest ones; a torn one is left to `mend`, and an adopted table
    is opened by the one of its first version, or by one before it."""
    torn = torn_checkpoints(table)
    names = [n for n in sorted(table.names(LOG)) if n.endswith(".checkpoint.parquet")]
    whole = [f"{LOG}/{name}" for name in names if name not in torn]
    of_others = checkpoint_name(first_version_of(table))
    return [name for name in whole if name > of_others][:-KEPT_CHECKPOINTS]


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


def compact_files(lake: Lake, contract: Contract, file_bytes: int) -> Layout:
    """Write uneven files again in files of about so many bytes, some days per commit; gives the
    days that changed.

    Writers go on meanwhile: a day that was written since is left alone. Raises Altered for a file
    that is gone or altered, BackfillError where the new files do not hold the rows of the old ones;
    then these days are as they were.
    """
    compacted = dict[str, Sequence[LiveFile]]()
    for batch in _commit_batches(uneven_files(lake, contract, file_bytes)):
        compacted |= _rewrite_days(lake, contract, batch, file_bytes)
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


def _rewrite_days(lake: Lake, contract: Contract, days: Layout, file_bytes: int) -> Layout:
    """Rewrite the files of some days by one commit; gives the days that nobody wrote meanwhile."""
    table = lake.table_place(contract.name)
    refuse_altered_files(table, [f for group in days.values() for f in group])
    with fill_staging(lake, contract) as staged:
        for day, group in days.items():
            old = [str(table.local(f.path)) for f in group]
            _write_again(lake, contract, staged, day, old, file_bytes)
        staged.files = staged.found(contract.partition_column)
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
    receipt = Receipt(staged.write_id, contract.name, REASON, {}, note=note)
    rewrite_files(table, contract, receipt, adds, removes, staged.committing)
    staged.keep({f.name for f in adds})


def _write_again(
    lake: Lake, contract: Contract, staged: Staged, value: str, old: Sequence[str], file_bytes: int
) -> None:
    """Write the rows of some files of one partition again, and compare them with the rows that
    these hold."""
    written = contract_of_file(contract, old[0])
    below = f"{contract.partition_column}={value}" if contract.partition_column else ""
    folder = staged.table.prepared(f"{staged.name}/{below}".rstrip("/"))
    names = ", ".join(
        quoted_name(c) for c in written.column_names if c != contract.partition_column
    )
    rows = f"SELECT {names} FROM read_parquet([{', '.join(map(sql_literal, old))}], {UNITED})"
    size = f"FILE_SIZE_BYTES {file_bytes}, ROW_GROUP_SIZE_BYTES {file_bytes}"
    options = (
        f"FORMAT parquet, COMPRESSION zstd, {size}, FILENAME_PATTERN 'part-{{i}}', "
        "OVERWRITE_OR_IGNORE"
    )
    with duckdb_cursor(lake) as engine:
        engine.execute(f"COPY ({rows}) TO {sql_literal(str(folder))} ({options})")
    refuse_other_rows(lake, contract, old, [f.path for f in staged.found("", below)])


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
