"""Days computed once more from the inputs that their receipts name, to be held against what was written; nothing is
committed.

Lives here: the view that a write saw, the rows it would give today, staged, compared by fingerprint and dropped. Does
not live here: which engine computes them and what is said of it (`operations.check_engine`). What came since does not
reach it. A day is passed over, with the reason, where its receipt does not say how its rows came about.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.days import from_inclusive
from backfill_assets.core.digests import days_of
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.receipts import Built, DayEntry, Receipt
from backfill_assets.core.states import States
from backfill_assets.core.view import LakeView, Stamp
from backfill_assets.engine.session import open_session
from backfill_assets.lake.audit import audit
from backfill_assets.lake.differences import DayDifference, SampleRow, Sides, differences
from backfill_assets.lake.ledger import read_arrivals
from backfill_assets.lake.model import Table
from backfill_assets.lake.session import LakeSession, telling_losses
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.view import writes_of
from backfill_assets.lake.writing import conform, stage
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.landed_changes import compared
from backfill_assets.load.making import made
from backfill_assets.load.raw import placed_again
from backfill_assets.load.sail import refuse_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAID = {
    Built.HELD: "a rollback put it back", Built.MERGED: "a merge kept rows that its inputs do not give",
    Built.PENDING: "it is pending, and empty on purpose",
}  # fmt: skip

UNNAMED = "its receipt does not name the versions of its inputs"


@dataclass(frozen=True)
class SessionElsewhere(LakeSession):
    """A lake's session on a server of its own, whose state lies in the folder `home` and not in the lake's."""

    home: Path = Path()

    def spark(self) -> "SparkSession":
        """A live session on that server, started if need be."""
        return open_session(self.home, self.engine)


@dataclass(frozen=True)
class Recomputed:
    """One day: its rows as written and as computed again, and whether their fingerprints are equal; or why it was
    passed over (`passed_over`, "" where it was computed)."""

    day: date
    rows: int
    rows_again: int = 0
    equal: bool = True
    passed_over: str = ""


@dataclass(frozen=True)
class RecomputeVerdict:
    """What computing days of a table again gave, and what differs where it does."""

    table: str
    days: tuple[Recomputed, ...]
    differing: tuple[DayDifference, ...] = ()
    samples: tuple[SampleRow, ...] = ()


class _AsThen(States):
    """The states that a write saw, by its receipt: its frontier, and what it said of its days."""

    def __init__(
        self, then: States, view: LakeView, frontier: datetime | None, entries: Mapping[date, DayEntry]
    ) -> None:
        super().__init__(then.contracts.values(), view, then.codes)
        self._frontier, self._entries = frontier, entries

    def frontier(self, table: str) -> datetime | None:
        """The frontier that the receipt names."""
        return self._frontier

    def is_pending(self, contract: Contract, day: date) -> bool:
        """Whether the write said so."""
        return self.built_as(contract.name, day) is Built.PENDING

    def built_as(self, table: str, day: date) -> Built:
        """What the write said of the day."""
        return self._entries[day].built if day in self._entries else Built.COMPLETE


@telling_losses()
def recompute(request: RebuildRequest) -> RecomputeVerdict:
    """The days of the request by the engine of its session, each held against its receipt. Commits nothing, and
    deletes what it staged. Raises what a rebuild raises before its commit."""
    refuse_settings(request.lake_session.lake.settings, request.pipeline.contracts, request.table.name)
    states, table = request.states(), request.table
    stamps = {d: s for d in request.days if (s := states.stamp(table.name, d)) is not None}
    passed = {d: why for d, s in stamps.items() if (why := _passed_over(states, table, d, s))}
    verdict = RecomputeVerdict(
        table.name, tuple(Recomputed(d, stamps[d].entry.rows, passed_over=w) for d, w in passed.items())
    )
    left = {d: s for d, s in stamps.items() if d not in passed}
    groups = [_landed(request, states, left)] if table.is_landed else _written_together(request, states, left)
    for found in groups:
        verdict = RecomputeVerdict(
            table.name, (*verdict.days, *found.days), (*verdict.differing, *found.differing),
            (*verdict.samples, *found.samples),
        )  # fmt: skip
    return replace(verdict, days=tuple(sorted(verdict.days, key=lambda d: d.day)))


def _passed_over(states: States, table: Table, day: date, stamp: Stamp) -> str:
    """Why a day cannot be held against its receipt; "" where it can."""
    if stamp.entry.built in SAID:
        return SAID[stamp.entry.built]
    if day in states.view.table(table.name).foreign:
        return "another program wrote it"
    if not states.codes[table.name].are_of(stamp):
        return "it was made with other code or settings"
    return ""


def _landed(request: RebuildRequest, states: States, stamps: Mapping[date, Stamp]) -> RecomputeVerdict:
    """Arrival days of a landed table, from its files, where these are as they were."""
    name = request.table.name
    request = replace(request, lake_session=request.lake_session.of_source(request.table.contract.source))
    found, _, _ = compared(request.lake_session)
    gone = {d for record in (*found.altered, *found.missing) for d in record.days}
    other = [d for d, s in stamps.items() if d in gone or states.digests.of(name, d) != s.entry.input_digest]
    told = [Recomputed(d, stamps[d].entry.rows, passed_over="its landed files are not as they were") for d in other]
    todo = [d for d in stamps if d not in other]
    if not todo:
        return RecomputeVerdict(name, tuple(told))
    placed = placed_again(request, states, todo)
    try:
        verdict = _held_against(request, {d: stamps[d] for d in todo}, placed.raw.staged, placed.raw.profiles)
    finally:
        placed.drop()
    return replace(verdict, days=(*told, *verdict.days))


def _written_together(
    request: RebuildRequest, states: States, stamps: Mapping[date, Stamp]
) -> Iterator[RecomputeVerdict]:
    """The days of other tables, those at once that were made from the same versions up to the same frontier."""
    groups, receipts = defaultdict[str, dict[date, Stamp]](dict), dict[str, Receipt]()
    needed = {i.table for i in request.table.contract.inputs}
    for receipt, made_by in writes_of(request.lake_session.lake.store, request.table.name, stamps):
        if receipt is None or not needed <= {*receipt.inputs}:
            yield _all_passed_over(request, made_by, UNNAMED)
            continue
        key = f"{sorted(receipt.inputs.items())} {receipt.frontier}"
        groups[key] |= made_by
        receipts[key] = receipt
    for key, days in groups.items():
        yield _again(request, states, receipts[key], days)


def _all_passed_over(request: RebuildRequest, stamps: Mapping[date, Stamp], why: str) -> RecomputeVerdict:
    return RecomputeVerdict(
        request.table.name, tuple(Recomputed(d, s.entry.rows, passed_over=why) for d, s in stamps.items())
    )


def _again(request: RebuildRequest, states: States, receipt: Receipt, stamps: Mapping[date, Stamp]) -> RecomputeVerdict:
    contract = request.table.contract
    view = _view_then(request, states, receipt)
    then = _AsThen(states, view, receipt.frontier, {d: s.entry for d, s in stamps.items()})
    lost = _lost_input(request, then, stamps)
    if lost:
        return _all_passed_over(request, stamps, lost)
    days = from_inclusive(min(stamps), max(stamps))
    asked = replace(request, days=days)
    frame = made(asked, then, sorted(stamps), [d for d in days if d not in stamps])
    staged = stage(request.lake_session.lake, contract, conform(frame, contract), len(stamps))
    try:
        return _held_against(asked, stamps, staged, audit(request.lake_session.lake, staged.paths, contract))
    finally:
        staged.drop()


def _view_then(request: RebuildRequest, states: States, receipt: Receipt) -> LakeView:
    """Today's view with the inputs at the versions that the receipt names, and the ledgers that named those."""
    store, view = request.lake_session.lake.store, states.view
    tables, delivered = dict(view.tables), dict(view.delivered)
    for wanted in request.table.contract.inputs:
        version, above = receipt.inputs[wanted.table], states.contracts[wanted.table]
        tables[wanted.table] = store.view(wanted.table, above.day_column, version)
        if wanted.basis is Basis.ARRIVALS:
            source = view.source(wanted.table)
            named = [c.version for c in store.commits(source.ledger_name)
                     if c.receipt is not None and c.receipt.inputs.get(wanted.table, -1) <= version]  # fmt: skip
            ledger = max(named, default=-1)
            tables[source.ledger_name] = replace(source.ledger, version=ledger, inputs={wanted.table: version})
            delivered[wanted.table] = replace(source.delivered, arrivals=read_arrivals(store, ledger, source.name))
    return replace(view, tables=tables, delivered=delivered)


def _lost_input(request: RebuildRequest, then: States, days: Collection[date]) -> str:
    """Which version of an input lacks files of the days that are read; "" where all are there."""
    for wanted in request.table.contract.inputs:
        if wanted.basis is Basis.ARRIVALS:
            read = {a for d in days for a, _ in then.view.source(wanted.table).arrivals.get(d, ())}
        else:
            read = {n for d in days for n in days_of(wanted, d, then.view)}
        version = then.view.table(wanted.table).version
        files = request.lake_session.lake.store.data_files(then.contracts[wanted.table], version, read)
        if not all(Path(f).is_file() for f in files):
            return f"files of version {version} of {wanted.table} are gone: they are kept for [retention] rollback_days"
    return ""


def _held_against(
    request: RebuildRequest, stamps: Mapping[date, Stamp], staged: Staged | None,
    profiles: Mapping[date | None, DayProfile],
) -> RecomputeVerdict:  # fmt: skip
    """Each day against its receipt; rows of days that were not asked for are nobody's, and count as differing."""
    found, contract = [], request.table.contract
    for day, stamp in stamps.items():
        again = profiles.get(day, DayProfile())
        found.append(Recomputed(day, stamp.entry.rows, again.rows, stamp.entry.agrees_with(again)))
    differing = [d.day for d in found if not d.equal]
    if not differing:
        return RecomputeVerdict(contract.name, tuple(found))
    store = request.lake_session.lake.store
    before = [f for d in differing for f in store.data_files(contract, stamps[d].version, [d])]
    after = [str(f.path) for f in staged.files if f.day in differing] if staged is not None else []
    told = differences(
        request.lake_session.lake,
        contract,
        Sides(sorted(set(before)), after, from_inclusive(differing[0], differing[-1])),
    )
    return RecomputeVerdict(contract.name, tuple(found), told.days, told.samples)
