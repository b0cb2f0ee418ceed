"""Restores partitions to an earlier version and releases them, in commits of metadata alone: no
JVM, and no data.

Elsewhere: which days and versions (`plans.rollback`), the commit itself
(`kernel.tables.committer`). No run computes restored days, which are `held`, until they are
released.
"""

import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from operator import attrgetter
from typing import NotRequired, TypedDict

import pyarrow as pa
from deltalake import DeltaTable

from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import contiguous_ranges
from backfill_assets.kernel.core.errors import BackfillError, Superseded
from backfill_assets.kernel.core.plans import (
    RELEASE,
    ROLLBACK,
    restored_version,
    target_tags,
)
from backfill_assets.kernel.core.profiles import EMPTY_FINGERPRINT
from backfill_assets.kernel.core.readings import PARAMETERS
from backfill_assets.kernel.core.receipts import Built, DayEntry, Provenance, Receipt
from backfill_assets.kernel.core.view import (
    NO_VERSION,
    DayReceipt,
    TableView,
    exists_at,
)
from backfill_assets.kernel.log.adopted import JUDGE
from backfill_assets.kernel.log.log import Commit, LiveFile, read_commits
from backfill_assets.kernel.log.log_state import LOGS, states_at
from backfill_assets.kernel.place.port import Place, table_lock
from backfill_assets.kernel.tables.columns import columns_misfit, footer_in, schema_contract
from backfill_assets.kernel.tables.committer import (
    commit_files,
    commit_receipt,
    newer_writes_check,
    open_table,
)
from backfill_assets.kernel.tables.data_files import files_of_days, gone_or_altered, live_files
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import StagedFile
from backfill_assets.kernel.write.replace import refuse_closed_days

NO_DIGEST = ""  # the input digest of a day put back to before it was ever made: equal to no digest
NEVER_MADE_ENTRY = DayEntry(0, EMPTY_FINGERPRINT, NO_DIGEST)
SHOWN_FILES = 3
BY_PATH = attrgetter("path")


@dataclass(frozen=True)
class RestoreRequest:
    """Days of one table to restore."""

    contract: Contract
    targets: Mapping[date, int]  # per day the version whose content it gets
    # per day the version of its latest receipt when that was decided, so that later writes are
    # noticed
    seen: Mapping[date, int]


class RestoredDay(TypedDict):
    """A day to put back: what it holds, and what it held then."""

    day: DayText
    to_version: int
    rows: int
    fingerprint: str
    rows_then: int
    fingerprint_then: str


class RestoreForm(TypedDict):
    """A restore of one table as JSON values."""

    table: str
    version: int | None  # of its commit; None: not committed yet
    days: Sequence[RestoredDay]
    files_back: int
    files_out: int
    bytes_back: int
    absent_columns: NotRequired[Sequence[str]]


@dataclass(frozen=True)
class PreparedRestore:
    """A restore of one table that passed all checks. Days that are held with that content already
    are left out."""

    contract: Contract
    targets: Mapping[date, int]  # the version per day
    now: Mapping[date, DayReceipt]  # the days' latest receipts
    then: Mapping[date, DayReceipt]  # their receipts at the targets
    entries: Mapping[date, DayEntry]  # to write
    adds: tuple[LiveFile, ...] = ()
    removes: tuple[LiveFile, ...] = ()
    absent: tuple[str, ...] = ()  # the columns of the contract that these files lack
    base: int = NO_VERSION  # the table's version by which it was decided
    version: int | None = None  # of its commit; None: not committed yet

    def to_dict(self) -> RestoreForm:
        """The restore as JSON values."""
        days = list[RestoredDay]()
        for day, then in self.entries.items():
            now = self.now[day].entry
            days.append(
                {
                    "day": str(day),
                    "to_version": self.targets[day],
                    "rows": now.rows,
                    "fingerprint": now.fingerprint,
                    "rows_then": then.rows,
                    "fingerprint_then": then.fingerprint,
                }
            )
        document: RestoreForm = {
            "table": self.contract.name,
            "version": self.version,
            "days": days,
            "files_back": len(self.adds),
            "files_out": len(self.removes),
            "bytes_back": sum(f.size for f in self.adds),
        }
        if self.absent:
            document["absent_columns"] = [*self.absent]
        return document

    def __str__(self) -> str:
        rows_now = sum(receipt.entry.rows for receipt in self.now.values())
        rows_then = sum(entry.rows for entry in self.entries.values())
        days = ", ".join(map(str, contiguous_ranges(self.entries)))
        versions = ", ".join(map(str, sorted(set(self.targets.values()))))
        text = (
            f"{self.contract.name}: {days} as of version {versions}, {rows_now} row(s) to "
            f"{rows_then}, {len(self.adds)} file(s) back, {len(self.removes)} out"
        )
        if self.version is not None:
            text += f", by version {self.version}"
        if self.absent:
            text += f"; these files lack {', '.join(self.absent)}: readers refuse the days"
        return text


def prepare_restore(lake: Lake, wanted: RestoreRequest) -> PreparedRestore:
    """Prepare a restore without writing; raises BackfillError with the reason if it cannot be
    done."""
    contract, path = wanted.contract, lake.table_place(wanted.contract.name)
    _refuse_unrestorable(contract)
    now = LOGS.state(path, contract.day_column)
    refuse_closed_days(contract, now, wanted.targets)
    _refuse_newer_writes(wanted, now)
    states_then = states_at(path, contract.day_column, set(wanted.targets.values()))
    _refuse_unknown_versions(wanted, states_then)
    latest, entries = dict[date, DayReceipt](), dict[date, DayEntry]()
    for day, target in sorted(wanted.targets.items()):
        receipt = states_then[target].latest.get(day)
        if receipt is not None:
            latest[day] = receipt
        entry = replace(NEVER_MADE_ENTRY if receipt is None else receipt.entry, built=Built.HELD)
        if day in now.foreign or now.latest[day].entry != entry:
            entries[day] = entry
    targets = {d: wanted.targets[d] for d in entries}
    adds, removes = _file_changes(path, contract, targets)
    names = _checked_columns(path, schema_contract(contract, open_table(path)), adds)
    needed = [c for c in contract.column_names if c != contract.partition_column] if adds else []
    absent = tuple(c for c in needed if c not in names)
    held_now = {d: now.latest[d] for d in entries}
    return PreparedRestore(
        contract=contract,
        targets=targets,
        now=held_now,
        then=latest,
        entries=entries,
        adds=adds,
        removes=removes,
        absent=absent,
        base=now.version,
    )


def _refuse_unrestorable(contract: Contract) -> None:
    """Raise BackfillError, with the reason, for a table of which no day can be restored."""
    if can_restore(contract):
        return
    why = "its files hold several days each"
    if contract.is_landed:
        why = "what landed is never put back"
    if contract.external:
        why = f"others write it, in {contract.external}"
    raise _restore_error(
        contract, why, "Put back the tables that are made from it, or correct what landed"
    )


def restore_partitions(lake: Lake, wanted: RestoreRequest, provenance: Provenance) -> int | None:
    """Restore the days in one commit; returns its version, None if all are held so. Raises as
    `prepare_restore`, and Conflict where another commit wrote days meanwhile."""
    lake.refuse_shared(wanted.contract.name)
    with table_lock(lake.place, wanted.contract.name):
        prepared = prepare_restore(lake, wanted)
        if not prepared.entries:
            return None
        path = lake.table_place(wanted.contract.name)
        by_schema = schema_contract(wanted.contract, open_table(path))
        receipt = _restore_receipt(prepared, provenance)
        adds = [StagedFile(path, f.path, f.partition) for f in prepared.adds]
        return commit_files(
            path,
            by_schema,
            receipt,
            adds,
            prepared.removes,
            newer_writes_check(path, prepared.base),
        )


def release_partitions(
    lake: Lake, contract: Contract, days: Collection[date], provenance: Provenance
) -> list[int]:
    """Release held days: each gets again the receipt that it had at the version it was restored to,
    so that its own inputs decide whether it is fresh or stale.

    Commits once per write that made the days and gives the versions; days that are not held are
    left out. After a kill the other days are still held.
    """
    lake.refuse_shared(contract.name)
    path = lake.table_place(contract.name)
    with table_lock(lake.place, contract.name):
        view, asked = LOGS.state(path, contract.day_column), {*days}
        held = [day for day in view.held_days if day in asked]
        refuse_closed_days(contract, view, held)
        foreign = sorted(view.foreign & set(held))
        if foreign:
            culprit = (
                f"another program wrote {foreign[0]} after it was put back: its receipt is of "
                "other rows"
            )
            raise _restore_error(
                contract, culprit, "Put it back once more with `--over-newer`, then release it"
            )
        history = list(read_commits(path)) if held else []
        by_origin: dict[int, list[date]] = defaultdict(list)
        for day in held:
            by_origin[_original_version(history, day, view.latest[day].version)].append(day)
        newest, committed = view.version, list[int]()
        for origin in sorted(by_origin):
            newest = commit_receipt(
                path,
                _release_receipt(history, origin, by_origin[origin], provenance),
                newer_writes_check(path, newest),
            )
            committed.append(newest)
        return committed


def can_restore(contract: Contract) -> bool:
    """Whether days of the table can be restored: not of a landed table, nor if a file holds several
    days."""
    return not (contract.is_landed or contract.external) and contract.is_by_day


def _refuse_newer_writes(wanted: RestoreRequest, now: TableView) -> None:
    """Raise Superseded where a day was written after the restore of it was decided."""
    rewritten = []
    for day in wanted.targets:
        receipt = now.latest.get(day)
        if receipt is None or receipt.version != wanted.seen.get(day):
            rewritten.append(day)
    if rewritten:
        counted = wanted.contract.calendar.count_text(len(rewritten))
        raise Superseded(
            f"the table {wanted.contract.name}",
            f"{counted} from {min(rewritten)} were written while the rollback was decided",
            "Nothing was written",
            "Look again without --yes, then decide again",
        )


def _refuse_unknown_versions(wanted: RestoreRequest, views: Mapping[int, TableView]) -> None:
    """Raise if a version does not exist, or if a foreign commit had changed a day at that
    version."""
    for day, target in sorted(wanted.targets.items()):
        if target not in views:
            raise _restore_error(
                wanted.contract,
                f"it has no version {target}",
                "Name one that `backfill-assets show` lists",
            )
        if day in views[target].foreign:
            culprit = (
                f"at version {target} the rows of {day} were another program's, and no receipt "
                "names them"
            )
            raise _restore_error(wanted.contract, culprit, "Name a version before that")


def _file_changes(
    path: Place, contract: Contract, targets: Mapping[date, int]
) -> tuple[tuple[LiveFile, ...], tuple[LiveFile, ...]]:
    """Files to add and files to remove so that the days have the content of their target
    versions."""
    if not targets:
        return (), ()
    days_by_version = defaultdict[int, list[date]](list)
    wanted = set[LiveFile]()
    for day, target in targets.items():
        days_by_version[target].append(day)
    for version, days in days_by_version.items():
        if exists_at(version):
            wanted |= _files_of_days(LOGS.opened(path, version), contract, days)
    live = _files_of_days(open_table(path), contract, targets)
    return tuple(sorted(wanted - live, key=BY_PATH)), tuple(sorted(live - wanted, key=BY_PATH))


def _files_of_days(
    table: "DeltaTable", contract: Contract, days: Collection[date]
) -> set[LiveFile]:
    """The data files that hold these days."""
    return {*files_of_days(live_files(table, contract.partition_column), contract, days)}


def files_of_held_days(
    lake: Lake, contract: Contract, days: Collection[date]
) -> tuple[list[LiveFile], list[LiveFile]]:
    """The data files that hold these days now, and which of them are gone or altered."""
    path = lake.table_place(contract.name)
    held = sorted(_files_of_days(open_table(path), contract, days), key=BY_PATH)
    return held, gone_or_altered(path, held)


def _checked_columns(path: Place, contract: Contract, files: Sequence[LiveFile]) -> frozenset[str]:
    """The names of all columns of these files. Raises if one is gone, altered, or does not fit
    `contract`, which has the columns of the table's schema; it may lack columns that may be NULL,
    and have narrower types."""
    names = frozenset[str]()
    fix = "Make the days again instead: `backfill-assets backfill`"
    gone = gone_or_altered(path, files)
    if gone:
        shown = ", ".join(f.path for f in gone[:SHOWN_FILES])
        raise _restore_error(
            contract,
            f"{len(gone)} of {len(files)} file(s) that the days held are gone or altered, first "
            f"{shown}",
            f"{fix}; `[retention] rollback_days` says how long files are to be kept",
        )
    for file in files:
        try:
            schema = footer_in(path, file.path).schema
            names |= {*schema.names}
            misfit = columns_misfit(schema, contract, contract.nullable_columns)
        except BackfillError:  # of a store that does not answer now
            raise
        except (OSError, pa.ArrowInvalid) as error:
            misfit = f"not to be read ({error})"
        if misfit:
            culprit = f"the columns of {file.path}, which {file.partition} held, are {misfit}"
            raise _restore_error(contract, culprit, fix)
    return names


def _restore_error(contract: Contract, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"the table {contract.name}", culprit, "Nothing was put back", fix)


def _restore_receipt(prepared: PreparedRestore, provenance: Provenance) -> Receipt:
    """The receipt of a restore; it has code, settings and parameters if all days agree in them."""
    origins = {(s.code_digest, s.settings_digest, s.parameters) for s in prepared.then.values()}
    code, settings, parameters = origins.pop() if len(origins) == 1 else ("", "", "")
    tags = {PARAMETERS: parameters} if parameters else {}
    tags |= {**provenance.tags, **target_tags(prepared.targets)}
    plain = Receipt(
        "",
        prepared.contract.name,
        ROLLBACK,
        prepared.entries,
        code_digest=code,
        settings_digest=settings,
    )
    return _signed_receipt(plain, tags, provenance)


def _signed_receipt(receipt: Receipt, tags: Mapping[str, str], provenance: Provenance) -> Receipt:
    """The receipt as that of a new write: by whom, why, and how long it took."""
    return replace(
        receipt,
        write_id=uuid.uuid4().hex,
        run_id=provenance.run_id,
        note=provenance.note,
        tags=tags,
        seconds=round(time.monotonic() - provenance.began, 3),
    )


def _original_version(history: Sequence[Commit], day: date, version: int) -> int:
    """The version of the write whose content `day` holds since its hold at `version`;
    `NO_VERSION` if it was never made."""
    while True:
        receipt = _receipt_at(history, version)
        if receipt is None or receipt.reason == JUDGE:  # others wrote what the day holds
            return version
        if receipt.days[day].built is not Built.HELD:
            return version
        target = restored_version(receipt, day)
        if target is None:
            culprit = (
                f"the receipt of version {version} holds {day} and does not say to which version "
                "it was put back"
            )
            fix = "Put the day back once more, naming the version, then release it"
            raise BackfillError(
                f"the table {receipt.table}", culprit, "Its hold was not ended", fix
            )
        before = [c.version for c in history if c.names(day) and c.version <= target]
        if not before:
            return NO_VERSION
        version = before[-1]


def _receipt_at(history: Sequence[Commit], version: int) -> Receipt | None:
    # That of an adopted table does not begin with 0.
    return history[version - history[0].version].receipt


def _release_receipt(
    history: Sequence[Commit], origin: int, days: Sequence[date], provenance: Provenance
) -> Receipt:
    """Receipt of the write `origin` repeated for these days; for days never written, one that makes
    them stale."""
    before = _receipt_at(history, origin) if exists_at(origin) else None
    if before is None:  # signed as the write that was undone, with the digest of no inputs at all
        receipts = [commit.receipt for commit in history if commit.receipt is not None]
        undone = next(receipt for receipt in receipts if days[0] in receipt.days)
        before = replace(undone, days=dict.fromkeys(days, NEVER_MADE_ENTRY))
    entries = {}
    for day in days:
        entry = before.days[day]
        is_held = entry.built is Built.HELD
        entries[day] = replace(entry, built=Built.COMPLETE) if is_held else entry
    tags = {PARAMETERS: before.tags[PARAMETERS]} if PARAMETERS in before.tags else {}
    released = replace(before, reason=RELEASE, days=entries)
    return _signed_receipt(released, {**tags, **provenance.tags}, provenance)
