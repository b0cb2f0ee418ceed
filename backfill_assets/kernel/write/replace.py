"""The only writer: compares a candidate with the receipts, then replaces exactly the changed days
in one commit.

Not here: computing a candidate (`kernel.write.derived`), judging it (`kernel.write.gates`), and the
commit itself (`kernel.tables.store`).

The daily run, a range backfill, late data and plans go through `replace_days`. A rollback computes
no rows (`plans.restore`); the days it holds are refused here, too, because it may come while they
are computed.
"""

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Protocol

import stamina

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.engines import ENGINE, IRREPRODUCIBLE, rebuild_disagreement
from backfill_assets.kernel.core.errors import DaysHeld, Superseded
from backfill_assets.kernel.core.readings import contract_columns, lacking_columns
from backfill_assets.kernel.core.receipts import (
    DayEntry,
    Provenance,
    Receipt,
    shared_mapping,
)
from backfill_assets.kernel.core.rooms import added_by_rooms
from backfill_assets.kernel.core.view import DayReceipt, TableView
from backfill_assets.kernel.core.write_mode import OVERWRITE, WriteMode
from backfill_assets.kernel.tables.committer import Conflict
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import FIRST_COMMIT, Staged, sweep_writes

# Each one re-reads the log; a day is fought over by two or three writers at most.
CONFLICT_ATTEMPTS = 5
DigestsNow = Callable[[Iterable[date]], Mapping[date, str]]


class Fence(Protocol):
    """What a room asks before each commit of derived or landed rows (`Room.fences`)."""

    def __call__(self, lake: Lake, inputs: Mapping[str, int]) -> str:
        """Why days made from these versions of tables must be held against the newest inputs, as
        the end of a sentence about them; empty where they need not."""


@dataclass(frozen=True)
class Write:
    """Rows to write for some days, and what the receipt will say."""

    contract: Contract
    staged: Staged | None  # the rows; None: the days become empty
    entries: Mapping[date, DayEntry]
    base_version: int  # the table's version when the work began
    provenance: Provenance
    # Commit the receipt even if nothing changed: it names newer input versions.
    always: bool = False
    force: bool = False  # write the rows even if the table holds the same
    mode: WriteMode = OVERWRITE
    alone: bool = False  # refuse it where anything was committed since `base_version`


@dataclass(frozen=True)
class WriteResult:
    """The result of a write."""

    version: int  # the table's, afterwards
    write_id: str  # "": nothing was committed
    changed: frozenset[date] = frozenset()  # days whose rows were replaced
    receipted: frozenset[date] = frozenset()  # days that got only a receipt
    # changed days to which the same inputs, code and settings gave other rows before
    irreproducible: frozenset[date] = frozenset()


def replace_days(lake: Lake, write: Write, digests_now: DigestsNow) -> WriteResult:
    """Make the table hold `write` for its days, in at most one commit; staged files that it does
    not use are deleted.

    `digests_now` gives the input digests from the current heads, for the fence. Raises Superseded
    when a newer receipt touched one of the days, or a fence asks for it, and our inputs are not the
    newest, and when a write that is to be `alone` is not; DaysHeld when a rollback put one of the
    days back, or one is closed; Conflict when conflicts do not end.
    """
    with lake.store.lock(write.contract.name):
        return replace_days_locked(lake, write, digests_now)


def replace_days_locked(lake: Lake, write: Write, digests_now: DigestsNow) -> WriteResult:
    """Do what `replace_days` does; the caller holds the table's lock."""
    table = write.contract.name
    sweep_writes(lake, table, write.staged.write_id if write.staged is not None else "")
    for attempt in stamina.retry_context(on=Conflict, attempts=CONFLICT_ATTEMPTS, timeout=None):
        with attempt:
            view = lake.store.view(table, write.contract.day_column)
            _refuse_superseded(lake, write, view, digests_now)
            return _commit_differences(lake, write, view)
    raise AssertionError("unreachable: the retry context returns or raises")


def _refuse_superseded(lake: Lake, write: Write, view: TableView, digests_now: DigestsNow) -> None:
    """Raise DaysHeld where a day is held or closed, and Superseded where other rows than these
    would come of the newest inputs."""
    refuse_left_alone(write.contract, view, write.entries)
    if write.alone and view.version > max(write.base_version, FIRST_COMMIT):
        raise _superseded_error(write, "another run wrote it since this one read it")
    rewritten = set[date]()
    for day in write.entries.keys() & view.latest.keys():
        if view.latest[day].version > write.base_version:
            rewritten.add(day)
    # A merge was made for the rows that stood: a rewritten day is behind, whatever its digest.
    is_merge = write.mode.keeps_standing_rows
    fences: tuple[Fence, ...] = added_by_rooms("fences")
    answers = [fence(lake, write.provenance.inputs) for fence in fences]
    doubts = [answer for answer in answers if answer]
    in_question = set() if is_merge else rewritten
    if doubts:
        in_question = {*write.entries}
    current = digests_now(in_question) if in_question else {}
    behind = {d for d in in_question if current[d] != write.entries[d].input_digest}
    if is_merge:
        behind |= rewritten
    if not behind:
        return
    why = "were written by another run from newer inputs" if behind & rewritten else doubts[0]
    counted = write.contract.calendar.count_text(len(behind))
    raise _superseded_error(write, f"{counted} from {min(behind)} {why}")


def _superseded_error(write: Write, culprit: str) -> Superseded:
    return Superseded(
        f"the table {write.contract.name}",
        culprit,
        "Nothing was written",
        "Run again: it reads the newest inputs",
    )


def refuse_left_alone(contract: Contract, view: TableView, days: Iterable[date]) -> None:
    """Raise DaysHeld, with the command that allows a write, where some of the days are closed, or a
    rollback put them back."""
    asked = {*days}
    refuse_closed_days(contract, view, asked)
    held = [day for day in view.held_days if day in asked]
    if not held:
        return
    raise DaysHeld(
        f"the table {contract.name}",
        f"{ranges_text(held)} put back by a rollback and held",
        "Nothing was written",
        f"Name days without them, or let them go first: `backfill-assets release {contract.name} "
        f"--from {held[0]} --to {held[-1]}`",
    )


def refuse_closed_days(contract: Contract, view: TableView, days: Iterable[date]) -> None:
    """Raise DaysHeld, with the command that opens them again, where some of the days are
    closed."""
    closed = sorted(day for day in days if view.is_closed(day))
    if view.closure is None or not closed:
        return
    why = f": {view.closure.note}" if view.closure.note else ""
    raise DaysHeld(
        f"the table {contract.name}",
        f"{ranges_text(closed)} closed, with all days up to {view.closure.until}{why}",
        "Nothing was written",
        f"Name days after {view.closure.until}, or open them first: `backfill-assets reopen "
        f"--tables {contract.name} --from {closed[0]} --note WHY`",
    )


def _differing_days(write: Write, view: TableView) -> tuple[frozenset[date], frozenset[date]]:
    """Days whose rows, or the names of whose columns, differ from the receipts, and days of which
    only inputs, code or settings changed."""
    changed, receipt_only = set(), set()
    for day, entry in write.entries.items():
        receipt = view.latest.get(day)
        may_differ = day in view.foreign or write.force
        if receipt is None or may_differ or _has_other_rows(write, receipt.entry, entry):
            changed.add(day)
        elif receipt.entry != entry or _code_of(receipt) != _code_of(write.provenance):
            receipt_only.add(day)
    return frozenset(changed), frozenset(receipt_only)


def _has_other_rows(write: Write, before: DayEntry, entry: DayEntry) -> bool:
    """Whether the rows of a day, or the names of their columns, are not what its entry before
    says."""
    return before.content != entry.content or bool(
        lacking_columns(before, _entry_columns(write, entry))
    )


def _code_of(source: Provenance | DayReceipt) -> tuple[str, str]:
    """The digests of the code and of the settings that made rows."""
    return source.code_digest, source.settings_digest


def _commit_differences(lake: Lake, write: Write, view: TableView) -> WriteResult:
    """Commit the days that differ from the view, if there are any."""
    changed, receipt_only = _differing_days(write, view)
    if not (changed or receipt_only or write.always):
        if write.staged is not None:
            write.staged.drop()
        return WriteResult(view.version, "")
    irreproducible = _irreproducible_days(write, view)
    days, with_rows = {}, set[date]()
    for day in sorted(changed | receipt_only):
        before = view.latest.get(day)
        days[day] = _with_columns(write, day, None if day in changed else before)
        # A day that never had rows needs no data commit: its receipt says that it is empty.
        had_rows = day in view.foreign or (before is not None and before.entry.rows > 0)
        if day in changed and (had_rows or write.entries[day].rows):
            with_rows.add(day)
    receipt = _write_receipt(write, days, irreproducible)
    version = lake.store.replace_days(
        write.contract, write.staged, with_rows, receipt, view.version
    )
    return WriteResult(version, receipt.write_id, changed, receipt_only, irreproducible)


def _entry_columns(write: Write, entry: DayEntry) -> list[Column]:
    """The contract's columns that the rows of a day have."""
    return [c for c in write.contract.columns if entry.columns is None or c.name in entry.columns]


def _with_columns(write: Write, day: date, kept: DayReceipt | None) -> DayEntry:
    """The entry of a day with the columns of its files: the written ones, or the files that stay
    (of the receipt `kept`)."""
    entry = write.entries[day]
    columns = contract_columns(write.contract) if entry.columns is None else entry.columns
    if kept is not None and kept.entry.columns is not None:
        stay = {name: kind for name, kind in kept.entry.columns.items() if name in columns}
        columns = shared_mapping(stay)
    return replace(entry, columns=columns)


def _irreproducible_days(write: Write, view: TableView) -> frozenset[date]:
    """Days that got other rows than before from the same inputs, code and settings; none for a
    merge or a ledger."""
    if not (write.mode.gives_what_inputs_say and write.contract.inputs):
        return frozenset()
    code = _code_of(write.provenance)
    engine = write.provenance.tags.get(ENGINE, "")
    found = set[date]()
    for day in write.entries.keys() & view.latest.keys():
        if rebuild_disagreement(view.latest[day], write.entries[day], code, engine):
            found.add(day)
    return frozenset(found)


def _write_receipt(
    write: Write, days: Mapping[date, DayEntry], irreproducible: Collection[date]
) -> Receipt:
    """The receipt of a write of these days; `irreproducible`: those to which the same inputs, code
    and settings gave other rows before."""
    provenance, tags = write.provenance, dict(write.provenance.tags)
    if irreproducible:
        tags[IRREPRODUCIBLE] = ",".join(map(str, sorted(irreproducible)))
    return Receipt(
        write_id=write.staged.write_id if write.staged is not None else uuid.uuid4().hex,
        table=write.contract.name,
        reason=provenance.reason,
        run_id=provenance.run_id,
        note=provenance.note,
        days=days,
        code_digest=provenance.code_digest,
        settings_digest=provenance.settings_digest,
        frontier=provenance.frontier,
        inputs=provenance.inputs,
        tags=tags,
        seconds=round(time.monotonic() - provenance.began, 3),
        cpu_seconds=provenance.cpu_seconds,
        start_seconds=provenance.start_seconds,
    )
