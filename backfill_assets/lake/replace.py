"""The only writer: compare a candidate with the receipts, then replace exactly the changed days in one commit.

Lives here: the comparison, the fence against newer inputs, which files come and go, and the receipt. Does not live
here: computing a candidate (`load.derived`), judging it (`core.gates`), and the commit itself (`lake.committer`).

Everything that changes rows goes through `replace_days`: the daily run, a range backfill, late data, a rollback.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

import stamina

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import Superseded
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.core.view import TableView
from backfill_assets.lake.committer import Conflict, LiveFile, commit_files, ensure_table, live_files, open_table
from backfill_assets.lake.home import Lake
from backfill_assets.lake.lock import table_lock
from backfill_assets.lake.log import table_view
from backfill_assets.lake.merge import merge_days
from backfill_assets.lake.staging import Staged, StagedFile, sweep

CONFLICT_ATTEMPTS = 5  # each one re-reads the log; a day is fought over by two or three writers at most
DigestsNow = Callable[[Iterable[date]], Mapping[date, str]]


@dataclass(frozen=True)
class Provenance:
    """Who writes, why, with which code and settings, from which input versions, and the frontier they were seen at.

    `began` is when the work was asked for, on this process's monotonic clock (seconds).
    """

    reason: str
    run_id: str = ""
    note: str = ""
    code_digest: str = ""
    settings_digest: str = ""
    frontier: datetime | None = None
    inputs: Mapping[str, int] | None = None
    tags: Mapping[str, str] | None = None
    began: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Write:
    """What should stand in a table for some days: their rows (`staged`; None: no rows at all), and what the receipt
    will say. `base_version` is the table's version when the work began.
    """

    contract: Contract
    staged: Staged | None
    entries: Mapping[date, DayEntry]
    base_version: int
    provenance: Provenance
    always: bool = False  # commit the receipt even if nothing moved: it names newer input versions
    force: bool = False  # write the rows even if they are what is there


@dataclass(frozen=True)
class Published:
    """What a publish did: the table's version, the days whose rows were replaced, and those only re-receipted."""

    version: int
    write_id: str
    changed: frozenset[date] = frozenset()
    receipted: frozenset[date] = frozenset()

    @property
    def committed(self) -> bool:
        """Whether there is a new commit at all."""
        return bool(self.write_id)


def replace_days(lake: Lake, write: Write, digests_now: DigestsNow) -> Published:
    """Make the table hold `write` for its days, in at most one commit; what was staged and not published is deleted.

    `digests_now` gives the input digests from the current heads, for the fence. Raises Superseded when a newer receipt
    touched one of the days and our inputs are not the newest; Conflict when conflicts do not end.
    """
    path = lake.table_path(write.contract.name)
    with table_lock(lake.locks, write.contract.name):
        sweep(lake, write.contract.name)
        for attempt in stamina.retry_context(on=Conflict, attempts=CONFLICT_ATTEMPTS, timeout=None):
            with attempt:
                view = table_view(path, write.contract.day_column)
                _fence(write, view, digests_now)
                return _commit(lake, write, view)
    raise AssertionError("unreachable: the retry context returns or raises")


def _fence(write: Write, view: TableView, digests_now: DigestsNow) -> None:
    touched = [d for d in write.entries if (s := view.stamps.get(d)) is not None and s.version > write.base_version]
    if not touched:
        return
    now = digests_now(touched)
    behind = [d for d in touched if now[d] != write.entries[d].input_digest]
    if behind:
        raise Superseded(
            f"the table {write.contract.name}",
            f"{len(behind)} day(s) from {min(behind)} were written by another run from newer inputs",
            "Nothing was written",
            "Run again: it reads the newest inputs",
        )


def _differences(write: Write, view: TableView) -> tuple[frozenset[date], frozenset[date]]:
    """The days whose rows differ from the receipts, and those of which only inputs, code or settings moved."""
    changed, moved = set(), set()
    code = (write.provenance.code_digest, write.provenance.settings_digest)
    for day, entry in write.entries.items():
        stamp = view.stamps.get(day)
        if (
            stamp is None
            or day in view.foreign
            or write.force
            or (stamp.entry.rows, stamp.entry.fingerprint) != (entry.rows, entry.fingerprint)
        ):
            changed.add(day)
        elif stamp.entry != entry or (stamp.code_digest, stamp.settings_digest) != code:
            moved.add(day)
    return frozenset(changed), frozenset(moved)


def _commit(lake: Lake, write: Write, view: TableView) -> Published:
    changed, moved = _differences(write, view)
    published: Sequence[StagedFile] = ()
    version, write_id = view.version, ""
    if changed or moved or write.always:
        path = lake.table_path(write.contract.name)
        ensure_table(path, write.contract, lake.settings.retention.rollback_days)
        receipt = _receipt(write, sorted(changed | moved))
        # A day that never had rows needs no data commit: its receipt says that it is empty.
        rows_move = {d for d in changed if write.entries[d].rows or _had_rows(view, d)}
        published, removes = _files(lake, write, rows_move)
        version, write_id = commit_files(path, write.contract, receipt, published, removes), receipt.write_id
    if write.staged is not None:
        write.staged.keep({str(f.path) for f in published})
    return Published(version, write_id, changed, moved)


def _files(lake: Lake, write: Write, days: set[date]) -> tuple[Sequence[StagedFile], Sequence[LiveFile]]:
    """The files that come and those that go, for these days to be replaced."""
    contract = write.contract
    if not days:
        return (), ()
    live = live_files(open_table(lake.table_path(contract.name)), contract.partition_column)
    if contract.partition_column != contract.day_column:
        return merge_days(lake, contract, write.staged, live, days)
    named = {str(d) for d in days}
    staged = write.staged.files if write.staged is not None else ()
    return [f for f in staged if f.partition in named], [f for f in live if f.partition in named]


def _had_rows(view: TableView, day: date) -> bool:
    stamp = view.stamps.get(day)
    return day in view.foreign or (stamp is not None and stamp.entry.rows > 0)


def _receipt(write: Write, days: list[date]) -> Receipt:
    p = write.provenance
    return Receipt(
        write_id=write.staged.write_id if write.staged is not None else uuid.uuid4().hex,
        table=write.contract.name,
        reason=p.reason,
        run_id=p.run_id,
        note=p.note,
        days={d: write.entries[d] for d in days},
        code_digest=p.code_digest,
        settings_digest=p.settings_digest,
        frontier=p.frontier,
        inputs=p.inputs or {},
        tags=p.tags or {},
        seconds=round(time.monotonic() - p.began, 3),
    )
