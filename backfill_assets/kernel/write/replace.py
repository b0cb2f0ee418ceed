"""The only writer: compares a candidate with the receipts, then replaces exactly the changed days
in one commit.

Not here: computing a candidate (`kernel.write.derived`), judging it (`kernel.write.gates`), and the
commit itself (`kernel.tables.store`).

The daily run, a range backfill, late data and plans go through `replace_days`. A rollback computes
no rows (`restore`); the days it holds are refused here, too, because it may come while they are
computed.
"""

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Protocol

import stamina

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.days import ranges
from backfill_assets.kernel.core.engines import ENGINE, IRREPRODUCIBLE, disagreement
from backfill_assets.kernel.core.errors import DaysHeld, Superseded
from backfill_assets.kernel.core.readings import columns_of, lacking_columns
from backfill_assets.kernel.core.receipts import (
    Built,
    DayEntry,
    Provenance,
    Receipt,
    shared_mapping,
)
from backfill_assets.kernel.core.rooms import added
from backfill_assets.kernel.core.view import TableView
from backfill_assets.kernel.core.write_mode import OVERWRITE, WriteMode
from backfill_assets.kernel.tables.committer import Conflict
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged, sweep

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


@dataclass(frozen=True)
class Published:
    """The result of a write."""

    version: int  # the table's, afterwards
    write_id: str  # "": nothing was committed
    changed: frozenset[date] = frozenset()  # days whose rows were replaced
    receipted: frozenset[date] = frozenset()  # days that got only a receipt
    # changed days to which the same inputs, code and settings gave other rows before
    irreproducible: frozenset[date] = frozenset()


def replace_days(lake: Lake, write: Write, digests_now: DigestsNow) -> Published:
    """Make the table hold `write` for its days, in at most one commit; staged files that it does
    not use are deleted.

    `digests_now` gives the input digests from the current heads, for the fence. Raises Superseded
    when a newer receipt touched one of the days, or a fence asks for it, and our inputs are
    not the newest; DaysHeld when a rollback put one of them back; Conflict when conflicts do not
    end.
    """
    with lake.store.lock(write.contract.name):
        return replace_days_locked(lake, write, digests_now)


def replace_days_locked(lake: Lake, write: Write, digests_now: DigestsNow) -> Published:
    """Do what `replace_days` does; the caller holds the table's lock."""
    table = write.contract.name
    sweep(lake, table, write.staged.write_id if write.staged is not None else "")
    for attempt in stamina.retry_context(on=Conflict, attempts=CONFLICT_ATTEMPTS, timeout=None):
        with attempt:
            view = lake.store.view(table, write.contract.day_column)
            _fence(lake, write, view, digests_now)
            return _commit(lake, write, view)
    raise AssertionError("unreachable: the retry context returns or raises")


def _fence(lake: Lake, write: Write, view: TableView, digests_now: DigestsNow) -> None:
    held = sorted(
        d
        for d in write.entries
        if (r := view.latest.get(d)) is not None and r.entry.built is Built.HELD
    )
    if held:
        raise days_held(write.contract, held)
    wrote = {
        d
        for d in write.entries
        if (r := view.latest.get(d)) is not None and r.version > write.base_version
    }
    asked = set() if write.mode.keeps_standing_rows else wrote
    inputs = write.provenance.inputs or {}
    fences: tuple[Fence, ...] = added("fences")
    doubts = [doubt for fence in fences if (doubt := fence(lake, inputs))]
    if doubts:
        asked = {*write.entries}
    current = digests_now(asked) if asked else {}
    behind = {d for d in asked if current[d] != write.entries[d].input_digest} | (
        wrote if write.mode.keeps_standing_rows else set()
    )
    if behind:
        why = "were written by another run from newer inputs" if behind & wrote else doubts[0]
        raise Superseded(
            f"the table {write.contract.name}",
            f"{len(behind)} day(s) from {min(behind)} {why}",
            "Nothing was written",
            "Run again: it reads the newest inputs",
        )


def days_held(contract: Contract, days: Sequence[date]) -> DaysHeld:
    """The refusal to write days (ascending) that a rollback put back, with the command that
    releases them."""
    return DaysHeld(
        f"the table {contract.name}",
        f"{ranges(days)} put back by a rollback and held",
        "Nothing was written",
        f"Name days without them, or let them go first: `backfill-assets release {contract.name} "
        "--from "
        f"{days[0]} --to {days[-1]}`",
    )


def _differences(write: Write, view: TableView) -> tuple[frozenset[date], frozenset[date]]:
    """Days whose rows, or the names of whose columns, differ from the receipts, and days of which
    only inputs, code or settings changed."""
    changed, receipt_only = set(), set()
    code = (write.provenance.code_digest, write.provenance.settings_digest)
    for day, entry in write.entries.items():
        receipt = view.latest.get(day)
        renamed = receipt is not None and lacking_columns(receipt.entry, _columns(write, entry))
        if (
            receipt is None
            or renamed
            or day in view.foreign
            or write.force
            or receipt.entry.content != entry.content
        ):
            changed.add(day)
        elif receipt.entry != entry or (receipt.code_digest, receipt.settings_digest) != code:
            receipt_only.add(day)
    return frozenset(changed), frozenset(receipt_only)


def _commit(lake: Lake, write: Write, view: TableView) -> Published:
    changed, receipt_only = _differences(write, view)
    if not (changed or receipt_only or write.always):
        if write.staged is not None:
            write.staged.drop()
        return Published(view.version, "")
    irreproducible = _irreproducible(write, view)
    days = {
        d: _with_columns(write, d, view.latest[d].entry if d in receipt_only else None)
        for d in write.entries
    }
    receipt = _receipt(write, {d: days[d] for d in sorted(changed | receipt_only)}, irreproducible)
    # A day that never had rows needs no data commit: its receipt says that it is empty.
    had_rows = view.foreign | {
        d for d, day_receipt in view.latest.items() if day_receipt.entry.rows
    }
    with_rows = {d for d in changed if write.entries[d].rows or d in had_rows}
    version = lake.store.replace_days(
        write.contract, write.staged, with_rows, receipt, view.version
    )
    return Published(version, receipt.write_id, changed, receipt_only, irreproducible)


def _columns(write: Write, entry: DayEntry) -> list[Column]:
    """The contract's columns that the rows of a day have."""
    return [c for c in write.contract.columns if entry.columns is None or c.name in entry.columns]


def _with_columns(write: Write, day: date, kept: DayEntry | None) -> DayEntry:
    """The entry of a day with the columns of its files: the written ones, or the files that stay
    (`kept`)."""
    entry = write.entries[day]
    columns = columns_of(write.contract) if entry.columns is None else entry.columns
    if kept is not None and kept.columns is not None:
        columns = shared_mapping({n: kind for n, kind in kept.columns.items() if n in columns})
    return replace(entry, columns=columns)


def _irreproducible(write: Write, view: TableView) -> frozenset[date]:
    """Days that got other rows than before from the same inputs, code and settings; none for a
    merge or a ledger."""
    provenance = write.provenance
    code, engine = (
        (provenance.code_digest, provenance.settings_digest),
        (provenance.tags or {}).get(ENGINE, ""),
    )
    if not (write.mode.gives_what_inputs_say and write.contract.inputs):
        return frozenset()
    rebuilt = write.entries.keys() & view.latest.keys()
    return frozenset(
        d for d in rebuilt if disagreement(view.latest[d], write.entries[d], code, engine)
    )


def _receipt(
    write: Write, days: Mapping[date, DayEntry], irreproducible: Collection[date]
) -> Receipt:
    provenance = write.provenance
    irreproducible_tags = (
        {IRREPRODUCIBLE: ",".join(map(str, sorted(irreproducible)))} if irreproducible else {}
    )
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
        inputs=provenance.inputs or {},
        tags={**(provenance.tags or {}), **irreproducible_tags},
        seconds=round(time.monotonic() - provenance.began, 3),
        cpu_seconds=provenance.cpu_seconds,
        start_seconds=provenance.start_seconds,
    )
