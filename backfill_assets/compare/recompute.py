"""Days computed again from the inputs that their receipts name, and compared with what was written;
commits nothing.

Not here: the engine that computes them and the report (`compare.prove`). A day whose receipt
does not say how its rows came about is passed over, with the reason.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from backfill_assets.compare.differences import DayDifference, SampleRow, find_differences
from backfill_assets.engines.lake_session import LakeSession, explaining_losses
from backfill_assets.engines.session import open_session
from backfill_assets.intake.ledger import read_arrivals
from backfill_assets.intake.placing import placed_rows
from backfill_assets.kernel.core.contracts import Contract, InputKind
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.receipts import Built, Receipt
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import DayReceipt, Deliveries, LakeView
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.tables.view import writes_of
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.computing import days_read, stage_days
from backfill_assets.kernel.write.derived import profile_staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_COMPARABLE = {
    Built.HELD: "a rollback put it back",
    Built.MERGED: "a merge kept rows that its inputs do not give",
    Built.PENDING: "it is pending, and empty on purpose",
}
UNNAMED_INPUTS = "its receipt does not name the versions of its inputs"
DayReceipts = Mapping[date, DayReceipt]


@dataclass(frozen=True)
class SessionOnOwnServer(LakeSession):
    """A lake's session on a server of its own, whose state lies in the folder `home` and not in the
    lake's."""

    home: Path = Path()

    def for_reading(self) -> "SparkSession":
        """A live session on that server, started if need be; `spark` gives the same one."""
        return open_session(self.home, self.engine)


@dataclass(frozen=True)
class Recomputed:
    """One day computed again, compared with its receipt."""

    day: date
    rows: int  # as written
    rows_again: int = 0
    equal: bool = True  # whether the fingerprints are
    passed_over: str = ""  # why it was not computed; "": it was


@dataclass(frozen=True)
class RecomputeVerdict:
    """The days of a table computed again, and the differences where rows differ."""

    table: str
    days: tuple[Recomputed, ...]
    differing: tuple[DayDifference, ...] = ()
    samples: tuple[SampleRow, ...] = ()
    unit: str = "day"  # what each of the days is, e.g. `month`

    def plus(self, more: "RecomputeVerdict") -> "RecomputeVerdict":
        """Return the verdict of these days and of `more`, of the same table."""
        joined = self.days + more.days, self.differing + more.differing, self.samples + more.samples
        return RecomputeVerdict(self.table, *joined, self.unit)


class RefusedTable(TypedDict):
    """A table that could not be computed, and why."""

    table: str
    reason: str


class RecomputationForm(TypedDict):
    """Days computed again: how many, how many differ, and the tables."""

    compared: int
    differing: int
    tables: Sequence[RecomputeVerdict]
    refused: Sequence[RefusedTable]


@dataclass(frozen=True)
class Recomputation:
    """The verdict of each table, and the tables that could not be computed, with the reason."""

    verdicts: tuple[RecomputeVerdict, ...]
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def compared(self) -> int:
        """Return the days of tables that were computed again."""
        return self.compared_by_unit.total()

    @property
    def compared_by_unit(self) -> Counter[str]:
        """Return how many days, months and others of tables were computed again."""
        counted = Counter[str]()
        for verdict in self.verdicts:
            counted[verdict.unit] += sum(not day.passed_over for day in verdict.days)
        return counted

    @property
    def differing(self) -> int:
        """Return the days of tables whose rows are others."""
        return sum(not d.equal for v in self.verdicts for d in v.days)

    def to_dict(self) -> RecomputationForm:
        """Return the verdicts as JSON values."""
        return {
            "compared": self.compared,
            "differing": self.differing,
            "tables": json_of(self.verdicts),
            "refused": [{"table": table, "reason": reason} for table, reason in self.refused],
        }


class _StatesOfWrite(States):
    """States as a write saw them, by its receipt: its frontier, and whether it built each day
    complete."""

    def __init__(
        self, now: States, view: LakeView, frontier: datetime | None, latest: DayReceipts
    ) -> None:
        super().__init__(now.contracts.values(), view, now.codes)
        self._frontier, self._latest = frontier, latest

    def frontier(self, table: str) -> datetime | None:
        """The frontier that the receipt names."""
        return self._frontier

    def is_pending(self, contract: Contract, day: date) -> bool:
        """Whether the write called the day pending."""
        return self.built_as(contract.name, day) is Built.PENDING

    def built_as(self, table: str, day: date) -> Built:
        """How the write built the day."""
        return self._latest[day].entry.built if day in self._latest else Built.COMPLETE


@explaining_losses()
def recompute_days(request: RebuildRequest, *, by_any_code: bool = False) -> RecomputeVerdict:
    """Compute the days of the request on the engine of its session, and compare each with its
    receipt.

    `by_any_code`: also days that were made with other code or settings. Commits nothing and deletes
    what it staged. Raises BackfillError for a table whose rows others give, before an engine
    starts, and what a rebuild raises before its commit.
    """
    request.table.refuse_given()
    request.lake_session.refuse_expressions([request.table])
    states, table = request.known.states, request.table
    verdict = RecomputeVerdict(table.name, (), unit=table.contract.calendar.unit)
    skipped = list[Recomputed]()
    latest = dict[date, DayReceipt]()
    for day in request.days:
        receipt = states.latest(table.name, day)
        if receipt is None:
            continue
        if why := _passed_over(states, table.name, day, receipt, by_any_code):
            skipped.append(Recomputed(day, receipt.entry.rows, passed_over=why))
        else:
            latest[day] = receipt
    for states_then, group in _groups_by_versions(request, states, latest):
        if isinstance(states_then, str):
            for day, receipt in group.items():
                skipped.append(Recomputed(day, receipt.entry.rows, passed_over=states_then))
            continue
        span = inclusive_range(min(group), max(group))
        verdict = verdict.plus(_recompute_group(replace(request, days=span), states_then, group))
    days = sorted((*skipped, *verdict.days), key=attrgetter("day"))
    return replace(verdict, days=tuple(days))


def _passed_over(
    states: States, table: str, day: date, receipt: DayReceipt, by_any_code: bool
) -> str:
    """Why a day cannot be compared with its receipt; "" where it can."""
    if receipt.entry.built in NOT_COMPARABLE:
        return NOT_COMPARABLE[receipt.entry.built]
    if day in states.view.table(table).foreign:
        return "another program wrote it"
    codes = states.codes[table]
    if not by_any_code and (not codes.are_of(receipt) or receipt.code_digest in codes.earlier):
        return "it was made with other code or settings"
    is_landed = states.contracts[table].is_landed
    if is_landed and states.digests.of(table, day) != receipt.entry.input_digest:
        return "its landed files are not as they were"
    return ""


def _groups_by_versions(
    request: RebuildRequest, states: States, latest: DayReceipts
) -> Iterator[tuple[States | str, DayReceipts]]:
    """Yield days made from the same versions up to the same frontier, with the states as then or
    why they are lost."""
    if request.table.is_landed:
        if latest:
            yield states, latest
        return
    groups, receipts = defaultdict[str, dict[date, DayReceipt]](dict), dict[str, Receipt]()
    needed = {i.table for i in request.table.contract.inputs}
    for receipt, written_days in writes_of(
        request.lake_session.lake.store, request.table.name, latest
    ):
        if receipt is None or not needed <= {*receipt.inputs}:
            yield UNNAMED_INPUTS, written_days
            continue
        key = f"{sorted(receipt.inputs.items())} {receipt.frontier}"
        groups[key] |= written_days
        receipts[key] = receipt
    for key, days in groups.items():
        view = _view_at_heads(
            request, _view_then(request, states, receipts[key]), states.view, days
        )
        past = _StatesOfWrite(states, view, receipts[key].frontier, days)
        yield _lost_input(request, past, days) or past, days


def _view_then(request: RebuildRequest, states: States, receipt: Receipt) -> LakeView:
    """Today's view with the inputs at the versions that the receipt names, and the ledgers that
    named these versions."""
    store, view = request.lake_session.lake.store, states.view
    tables, delivered = dict(view.tables), dict(view.delivered)
    for wanted in request.table.contract.inputs:
        version, above = receipt.inputs[wanted.table], states.contracts[wanted.table]
        tables[wanted.table] = store.view(wanted.table, above.day_column, version)
        if wanted.kind is InputKind.ARRIVALS:
            source = view.source(wanted.table)
            ledger = _ledger_version(store, source.ledger_name, wanted.table, version)
            tables[source.ledger_name] = replace(
                source.ledger, version=ledger, inputs={wanted.table: version}
            )
            arrivals = read_arrivals(store, ledger, source.name)
            delivered[wanted.table] = replace(
                delivered.get(wanted.table, Deliveries()), arrivals=arrivals
            )
    return replace(view, tables=tables, delivered=delivered)


def _ledger_version(store: TableStore, ledger: str, table: str, version: int) -> int:
    """The newest version of a ledger made from no newer version of the table; -1 for none."""
    named = [-1]
    for commit in store.commits(ledger):
        if commit.receipt is not None and commit.receipt.inputs.get(table, -1) <= version:
            named.append(commit.version)
    return max(named)


def _view_at_heads(
    request: RebuildRequest, past: LakeView, now: LakeView, days: Collection[date]
) -> LakeView:
    """View `past` with each input at its newest version where the days to read hold the same rows
    since: upkeep may have deleted the files of the older version."""
    tables = dict(past.tables)
    for wanted in request.table.contract.inputs:
        read, then = days_read(past, wanted, days), past.table(wanted.table)
        head = now.table(wanted.table)
        changed = [d for d in read if head.latest.get(d) != then.latest.get(d)]
        if changed or head.foreign & read:
            continue
        tables[wanted.table] = replace(then, version=head.version)
        if wanted.kind is InputKind.ARRIVALS:
            ledger = past.source(wanted.table).ledger_name
            tables[ledger] = replace(tables[ledger], inputs={wanted.table: head.version})
    return replace(past, tables=tables)


def _lost_input(request: RebuildRequest, past: States, days: Collection[date]) -> str:
    """Name the version of an input that lacks files of the days to read; "" where all files
    exist."""
    for wanted in request.table.contract.inputs:
        read, version = days_read(past.view, wanted, days), past.view.table(wanted.table).version
        store, contract = request.lake_session.lake.store, past.contracts[wanted.table]
        files = store.files(contract, version, read, altered=True)
        if files and None in files[0].table.sizes([f.name for f in files]).values():
            return (
                f"files of version {version} of {wanted.table} are gone: they are kept for "
                "[retention] rollback_days"
            )
    return ""


def _recompute_group(
    request: RebuildRequest, states_then: States, latest: DayReceipts
) -> RecomputeVerdict:
    """Stage the days as they were made then, compare them, and delete what was staged."""
    if request.table.is_landed:
        source = request.lake_session.of_source(request.table.contract.source)
        placed = placed_rows(replace(request, lake_session=source), states_then, sorted(latest))
        try:
            return _compare_group(request, latest, placed.raw.staged, placed.raw.profiles)
        finally:
            placed.drop()
    staged = stage_days(request, states_then, sorted(latest))
    try:
        return _compare_group(request, latest, staged, profile_staged(request, staged))
    finally:
        staged.drop()


def _compare_group(
    request: RebuildRequest,
    latest: DayReceipts,
    staged: Staged | None,
    profiles: Mapping[date | None, DayProfile],
) -> RecomputeVerdict:
    """Each day beside its receipt; rows of other days are left out."""
    lake, contract, days = request.lake_session.lake, request.table.contract, []
    for day, receipt in latest.items():
        again = profiles.get(day, DayProfile())
        days.append(
            Recomputed(day, receipt.entry.rows, again.rows, receipt.entry.agrees_with(again))
        )
    differing = [d.day for d in days if not d.equal]
    if not differing:
        return RecomputeVerdict(contract.name, tuple(days))
    before, files = set[str](), () if staged is None else staged.files
    for day in differing:
        before.update(lake.store.data_files(contract, latest[day].version, [day]))
    after = [f.path for f in files if f.day in differing]
    span = inclusive_range(min(differing), max(differing))
    difference = find_differences(lake, contract, sorted(before), after, span)
    return RecomputeVerdict(contract.name, tuple(days), difference.days, difference.samples)
