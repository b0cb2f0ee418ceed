"""Inspects a stored table by its log and folder, also one that no engine opens any more, and mends
it.

Not here: wording and fingerprints (`upkeep.doctor_tables`), and damage that has another way
back: lost files of a derived table (rebuild the days) and gaps inside a log (a backup). Mending
sets torn files of a log aside and takes files that a ledger lost out of its log; it deletes
nothing.
"""

import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from deltalake.exceptions import DeltaError

from backfill_assets.intake.ledger import ARRIVALS, FILES
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance, Receipt
from backfill_assets.kernel.log.log import (
    DIGEST_BEFORE,
    FILE_DIGEST_CHARS,
    FILE_DIGESTS,
    LOG,
    FileChange,
    LiveFile,
    commit_digest,
    commit_info,
    commit_name,
    commit_versions,
    data_file_names,
    file_changes,
    first_version_of,
    is_commit_whole,
    open_delta,
    read_commit,
    read_head,
    torn_checkpoints,
)
from backfill_assets.kernel.log.log_state import false_states
from backfill_assets.kernel.place.port import Place, table_lock
from backfill_assets.kernel.tables.committer import commit_files, commit_receipt
from backfill_assets.kernel.tables.data_files import files_of_version, gone_or_altered, live_files
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.staging import WRITES

REASON = "mend"


@dataclass(frozen=True)
class Inspection:
    """Findings about a stored table, without an engine. Of a damaged log only `lacking` and `torn`
    are filled in."""

    commits: int = 0
    files: int = 0
    rows: int = 0
    lacking: tuple[int, ...] = ()
    torn: tuple[int, ...] = ()  # versions whose commits cannot be read
    foreign: tuple[int, ...] = ()  # versions of other programs that changed data
    absent: tuple[str, ...] = ()  # data files of the newest version that are gone
    altered: tuple[str, ...] = ()  # data files of the newest version with another size
    lost: int = 0  # number of files that no version names
    lost_bytes: int = 0
    # by the log's statistics; None: it lacks them, or the table is not laid out by day
    day_rows: Mapping[date, int] | None = field(default_factory=dict)
    checkpoints_torn: bool = False
    edited: tuple[int, ...] = ()  # versions with other bytes than were committed
    # versions that were committed after the last one in the log, and are gone
    ended: tuple[int, ...] = ()
    flipped: tuple[str, ...] = ()  # data files of the newest version with other bytes
    flipped_before: tuple[str, ...] = ()  # data files of earlier versions with other bytes
    # files with a kept state that readers take, and that the commits do not give
    false_states: tuple[str, ...] = ()


@dataclass
class _Replayed:
    """A log that was read whole."""

    active: dict[str, FileChange] = field(default_factory=dict)  # data files by path
    # every path in the log, with the digest of its bytes ("": none was noted)
    named: dict[str, str] = field(default_factory=dict)
    foreign: list[int] = field(default_factory=list)  # versions of other programs that moved rows

    def flipped(self, path: Place, names: Iterable[str]) -> tuple[str, ...]:
        """The files that exist and hold other bytes than were committed."""
        found = list[str]()
        for name in names:
            digest = self.named.get(name)
            if digest and path.exists(name) and not path.sha256(name).startswith(digest):
                found.append(name)
        return tuple(found)


@dataclass(frozen=True)
class Damage:
    """Damage that can be mended."""

    torn: tuple[str, ...] = ()  # names of files in a table's log that no reader can use
    lost: tuple[LiveFile, ...] = ()  # live data files of a ledger that are gone or altered
    # The newest versions, whose commits are gone from the log. They are taken by commits that hold
    # only a receipt, so that no other rows ever get these numbers.
    ended: tuple[int, ...] = ()

    @property
    def steps(self) -> str:
        """The steps that mend it, in words."""
        done = list[str]()
        if self.ended:
            numbers = ", ".join(map(str, self.ended))
            done.append(f"version(s) {numbers}, which are gone, given to receipts")
        if self.torn:
            done.append(f"{', '.join(self.torn)} of its log set aside (as *.torn)")
        if self.lost:
            done.append(
                f"{len(self.lost)} data file(s) that are gone or altered taken out, first "
                f"{self.lost[0].path}"
            )
        return "; ".join(done)


def inspect_table(
    lake: LakeFolder, contract: Contract, read: bool = False, deep: bool = False
) -> Inspection:
    """Inspect a table; `read`: also the bytes of the newest version's data files, `deep`: of every
    version's."""
    path = lake.table_place(contract.name)
    ended, present = _versions_gone(path), commit_versions(path)
    lacking = _lacking_versions(first_version_of(path), present)
    torn = tuple(v for v in present if not is_commit_whole(path, v))
    if lacking or torn or ended:
        return Inspection(commits=len(present), lacking=lacking, torn=torn, ended=ended)
    replayed = _replay_log(path, present)
    active = replayed.active
    sizes = {file: path.size(file) for file in active}
    altered = tuple(file for file, found in sizes.items() if found not in (None, active[file].size))
    lost = [path.size(name) or 0 for name in _nameless_files(path, replayed.named)]
    newest = active.keys() - altered if read else ()
    earlier = replayed.named.keys() - active.keys() if deep else ()
    return Inspection(
        commits=len(present),
        files=len(active),
        rows=sum(_statistics_rows(a) or 0 for a in active.values()),
        foreign=tuple(replayed.foreign),
        absent=tuple(file for file, found in sizes.items() if found is None),
        altered=altered,
        lost=len(lost),
        lost_bytes=sum(lost),
        day_rows=_day_rows(contract, active),
        checkpoints_torn=bool(torn_checkpoints(path)) or _opens_otherwise(path, active),
        edited=_edited_commits(path, present),
        flipped=replayed.flipped(path, newest),
        flipped_before=replayed.flipped(path, earlier),
        false_states=tuple(path.uri(name) for name in false_states(path, contract.day_column)),
    )


def _lacking_versions(first: int, present: list[int]) -> tuple[int, ...]:
    """The versions between the first and the last of those in a log that are not there."""
    if not present:
        return ()
    return tuple(sorted({*range(first, present[-1] + 1)} - {*present}))


def _nameless_files(path: Place, named: Collection[str]) -> list[str]:
    """The data files of a table that its log does not name; of an adopted table only those of our
    own writes."""
    nameless = [name for name in data_file_names(path) if name not in named]
    if first_version_of(path):
        return [name for name in nameless if name.startswith(WRITES)]
    return nameless


def _opens_otherwise(path: Place, active: Collection[str]) -> bool:
    """Whether the table, opened by its checkpoint, has other files than its commits say."""
    if not any(".checkpoint." in name for name in path.names(LOG)):
        return False
    try:
        return {f.path for f in live_files(open_delta(path), "")} != {*active}
    except DeltaError:
        return True


def _versions_gone(path: Place) -> tuple[int, ...]:
    """Versions that were committed after the last version in the log."""
    last = read_head(path).get("version", -1)  # before the versions: a write may come in between
    present = commit_versions(path)
    return tuple(range(present[-1] + 1, last + 1)) if present else ()


def _replay_log(path: Place, present: list[int]) -> _Replayed:
    """Return what the commits of a log add up to: all files that they name, those of the newest
    version, and the versions that move rows without a receipt."""
    replayed = _Replayed()
    for version in present:
        changes = list(file_changes(path, version))
        for change in changes:
            replayed.named.setdefault(change.path, "")
            replayed.active.pop(change.path, None)
            if change.is_added:
                replayed.active[change.path] = change
        replayed.named.update(file_digests(path, version, changes))
        if any(c.moves_rows for c in changes) and read_commit(path, version).receipt is None:
            replayed.foreign.append(version)
    return replayed


def _day_rows(contract: Contract, active: Mapping[str, FileChange]) -> dict[date, int] | None:
    """Rows per day by the statistics in the log; None if it lacks some, or the layout is not by
    day."""
    counted = Counter[date]()
    for add in active.values():
        value, rows = add.values.get(contract.day_column), _statistics_rows(add)
        if value is None or rows is None:
            return None
        counted[date.fromisoformat(value)] += rows
    return dict(counted) if contract.is_by_day else None


def _statistics_rows(add: FileChange) -> int | None:
    try:
        return int(json.loads(add.stats)["numRecords"])
    except (KeyError, TypeError, ValueError):
        return None


def mendable_damage(lake: LakeFolder, contract: Contract) -> Damage:
    """The damage that `mend_table` mends; writes nothing. Raises BackfillError if there is none."""
    path = lake.table_place(contract.name)
    torn = [
        commit_name(v).rpartition("/")[2]
        for v in commit_versions(path)[-1:]
        if not is_commit_whole(path, v)
    ]
    # A torn commit goes last: if the command is killed halfway, the next one still finds it.
    if torn := [*torn_checkpoints(path), *torn]:
        return Damage(tuple(torn))
    if ended := _versions_gone(path):
        return Damage(ended=ended)
    if lost := _lost_files(lake, contract):
        return Damage((), lost)
    raise BackfillError(
        f"the table {contract.name}",
        "nothing is wrong with it that this command mends",
        "Nothing was done",
        "See what `backfill-assets doctor` says of it",
    )


def is_mended(contract: Contract) -> bool:
    """Whether files that the table lost can be taken out of its log: the next scan or load restores
    their rows."""
    return contract.columns in (FILES.columns, ARRIVALS.columns)


def _lost_files(lake: LakeFolder, contract: Contract) -> tuple[LiveFile, ...]:
    """Data files of a ledger that are gone or altered; none of other tables."""
    path = lake.table_place(contract.name)
    if not (is_mended(contract) and commit_versions(path)):
        return ()
    live = files_of_version(lake, contract)
    wrong = {*gone_or_altered(path, live)}
    flipped = {*inspect_table(lake, contract, read=True).flipped}
    return tuple(f for f in live if f in wrong or f.path in flipped)


def mend_table(lake: LakeFolder, contract: Contract, provenance: Provenance) -> Damage:
    """Make a damaged table readable and writable again, under its lock; returns the mended damage.
    Raises as `mendable_damage`.

    The commit that reports it takes the number of the version that was set aside: a number that
    other receipts name never becomes the number of other rows.
    """
    lake.refuse_shared(contract.name)
    path = lake.table_place(contract.name)
    with table_lock(lake.place, contract.name):
        damaged = mendable_damage(lake, contract)
        _set_aside(path, damaged.torn)
        tags = provenance.tags
        receipt = Receipt(
            write_id=uuid.uuid4().hex,
            table=contract.name,
            reason=REASON,
            days={},
            note=damaged.steps,
            tags=tags,
        )
        # Also versions that were set aside, here or by an earlier mend.
        gone = _versions_gone(path)
        for _ in gone:
            commit_receipt(path, replace(receipt, write_id=uuid.uuid4().hex))
        # What is gone may have been an earlier mend's, which took lost files out.
        if damaged.torn or gone:
            damaged = replace(damaged, lost=_lost_files(lake, contract))
        if damaged.lost:
            commit_files(path, contract, replace(receipt, note=damaged.steps), (), damaged.lost)
        elif commit_versions(path) and not gone:
            commit_receipt(path, receipt)
        return damaged


def _set_aside(path: Place, torn: Collection[str]) -> None:
    """Rename torn files of a log to `NAME.torn`."""
    for name in torn:
        path.copy(f"{LOG}/{name}.torn", path, f"{LOG}/{name}")
        path.delete(f"{LOG}/{name}")
    path.sync(*(f"{LOG}/{name}.torn" for name in torn), LOG)


def _edited_commits(table: Place, present: Iterable[int]) -> tuple[int, ...]:
    """Versions among `present` (ascending, whole) whose bytes differ from the digest that the
    commit after them names, or, for the newest, that the note beside the log names. Commits of
    other programs name no digest."""
    edited, digest, version = [], "", -1
    for version in present:
        named = commit_info(table, version).get(DIGEST_BEFORE, digest)
        if digest and named != digest:
            edited.append(version - 1)
        digest = commit_digest(table, version)
    head = read_head(table)
    if digest and head.get("version") == version and head["sha256"] != digest:
        edited.append(version)
    return tuple(edited)


def file_digests(table: Place, version: int, changes: Iterable[FileChange]) -> Mapping[str, str]:
    """Digests of the files that these changes of a commit added, by path, as far as the commit
    names them."""
    named, length = commit_info(table, version).get(FILE_DIGESTS, ""), FILE_DIGEST_CHARS
    if not named:
        return {}
    added = sorted(c.path for c in changes if c.is_added)
    return {path: named[i * length : (i + 1) * length] for i, path in enumerate(added)}
