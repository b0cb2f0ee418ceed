"""Rollback of a plan, a chunk of it, or days of a table: which days go to which versions by
receipts; and release.

Elsewhere: files and commits (`plans.restore`), words in receipts (`kernel.core.plans`), days that
become stale (`reading.downstream`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TypedDict

from pydantic import ConfigDict

from backfill_assets.kernel.core.answers import DaySpan
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import contiguous_ranges, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG, RELEASE, ROLLBACK
from backfill_assets.kernel.core.receipts import Provenance, Receipt
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.log.adopted import JUDGE
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import UnfinishedSwitch, record_versions, switch_tables
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans import restore
from backfill_assets.plans.files import find_plan, is_running, plan_ids
from backfill_assets.plans.model import Plan
from backfill_assets.plans.policy import Days, RollbackOptions
from backfill_assets.plans.restore import PreparedRestore, RestoreForm, RestoreRequest
from backfill_assets.reading.downstream import stale_after_entries

UNDOING = (ROLLBACK, RELEASE)
NOTHING_PUT_BACK = "Nothing was put back"
# Of a table or a day: versions with their receipts, ascending.
Writes = Sequence[tuple[int, Receipt]]


class RollbackRequest(RollbackOptions):
    """A `plan` (or `chunk`), or `days` of `table` to `to_version`."""

    model_config = ConfigDict(frozen=True)

    days: Days | None = None

    def __str__(self) -> str:
        """E.g. `the plan 2024…, chunk 2`, or `the table staging, 2024-03-01..2024-03-04`."""
        if self.plan:
            part = f", chunk {self.chunk}" if self.chunk else ""
            return f"the plan {self.plan}{part}"
        part = f", {self.days}" if self.days else ""
        return f"the table {self.table}{part}"

    @property
    def tags(self) -> dict[str, str]:
        """The tags of its receipts, without the version."""
        tags = {PLAN_TAG: self.plan, CHUNK_TAG: self.chunk}
        return {tag: value for tag, value in tags.items() if value}

    def signed(self, provenance: Provenance) -> Provenance:
        """The provenance of its receipts, with its note and tags."""
        return replace(
            provenance,
            note=self.note or provenance.note,
            tags={**provenance.tags, **self.tags},
        )

    def has(self, contract: Contract, key: date) -> bool:
        """Whether it names a day of the partition of `key`, which a table may leave out by now."""
        return self.days is None or any(day in self.days for day in contract.calendar.span(key))

    def names(self, receipt: Receipt) -> bool:
        """Whether a receipt is of this plan and chunk."""
        if receipt.tags.get(PLAN_TAG) != self.plan:
            return False
        return self.chunk in ("", receipt.tags.get(CHUNK_TAG))


class RollbackForm(TypedDict):
    """What was put back, or would be, and which days that makes stale."""

    done: bool
    tables: Sequence[RestoreForm]
    stale: Mapping[str, Sequence[DaySpan]]  # per table
    untouched: Sequence[str]


@dataclass(frozen=True)
class RollbackReport:
    """A rollback, previewed or done."""

    tables: tuple[PreparedRestore, ...]
    # per table the other days that it makes stale
    stale: Mapping[str, frozenset[date]] = field(default_factory=dict)
    untouched: tuple[str, ...] = ()  # landed tables that the plan wrote: a rollback changes none

    @property
    def is_done(self) -> bool:
        """Whether anything was written."""
        return any(t.version is not None for t in self.tables)

    def to_dict(self) -> RollbackForm:
        """The report as JSON values; days as ranges, both ends included."""
        return {
            "done": self.is_done,
            "tables": [t.to_dict() for t in self.tables],
            "stale": days_as_json(self.stale),
            "untouched": list(self.untouched),
        }

    def lines(self) -> Iterator[str]:
        """The report for people, a line per table."""
        yield from (
            f"{name} keeps its days: what landed is never put back" for name in self.untouched
        )
        if not self.tables:
            yield (
                "Nothing to put back: these days hold what they held before, or were never written."
            )
        yield from map(str, self.tables)
        verb = "is now" if self.is_done else "will be"
        yield from (
            f"{name}: {ranges_text(days)} {verb} stale" for name, days in self.stale.items()
        )


def days_as_json(days: Mapping[str, Iterable[date]]) -> dict[str, list[DaySpan]]:
    """Days per table as JSON values: ranges, both ends included."""
    found = dict[str, list[DaySpan]]()
    for name, dates in days.items():
        found[name] = [{"from": str(r.start), "to": str(r.last)} for r in contiguous_ranges(dates)]
    return found


def preview_rollback(lake: Lake, pipeline: Pipeline, request: RollbackRequest) -> RollbackReport:
    """Find what the rollback would do; writes nothing. Raises BackfillError with the reason if it
    cannot be done."""
    chosen, untouched = _chosen_restores(lake, pipeline, request)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    if not request.over_newer:
        _refuse_foreign_days(states, chosen)
    prepared = [restore.prepare_restore(lake, wanted) for wanted in chosen]
    moving = tuple(p for p in prepared if p.entries)
    stale = (
        stale_after_entries(states, {p.contract.name: p.entries for p in moving}) if moving else {}
    )
    return RollbackReport(moving, stale, untouched)


def _refuse_foreign_days(states: States, chosen: Iterable[RestoreRequest]) -> None:
    """Raise BackfillError where another program wrote days that are to be put back."""
    for wanted in chosen:
        foreign = states.view.table(wanted.contract.name).foreign & set(wanted.targets)
        if foreign:
            culprit = f"{ranges_text(foreign)} written since by a program that leaves no receipt"
            raise _table_error(
                wanted.contract, culprit, "If that is to be undone too, add --over-newer"
            )


def roll_back(
    lake: Lake, pipeline: Pipeline, request: RollbackRequest, provenance: Provenance
) -> RollbackReport:
    """Roll back in one commit per table, the last table first, so that no run reads days that are
    about to go.

    Previews everything before the first commit. After a kill, the same call does the rest. Raises
    BackfillError where a process runs the plan that is to be put back as a whole: it would go on
    behind the rollback.
    """
    is_whole_plan = not request.chunk and request.plan in plan_ids(lake)
    if is_whole_plan:
        _refuse_running(lake, find_plan(lake, request.plan))
    previewed = preview_rollback(lake, pipeline, request)
    done: list[PreparedRestore] = []
    with _switching_tables(lake, pipeline, request, [t.contract.name for t in previewed.tables]):
        for table in reversed(previewed.tables):
            seen = {day: source.version for day, source in table.now.items()}
            wanted = RestoreRequest(table.contract, table.targets, seen)
            version = restore.restore_partitions(lake, wanted, request.signed(provenance))
            done.insert(0, replace(table, version=version))
    return replace(previewed, tables=tuple(done))


def _refuse_running(lake: Lake, plan: Plan) -> None:
    """Raise BackfillError where a process runs the plan."""
    if is_running(lake, plan):
        fix = (
            f"Stop it first: `backfill-assets plan pause {plan.id}`, and wait until its chunk is "
            "done"
        )
        raise plan.error("another process is running it", NOTHING_PUT_BACK, fix)


@contextmanager
def _switching_tables(
    lake: Lake, pipeline: Pipeline, request: RollbackRequest, tables: Sequence[str]
) -> Iterator[None]:
    """Show readers the tables as they were until all are put back; a single table needs no
    switch."""
    if request.plan:
        names_chunk = bool(request.chunk) and request.plan in plan_ids(lake)
        of_chunk = f" --chunk {request.chunk}" if names_chunk else ""
        fix = f"Finish it with `backfill-assets rollback --plan {request.plan}{of_chunk} --yes`"
        work = UnfinishedSwitch(f"{request.plan}{of_chunk}", f"the rollback of {request}", fix)
        with switch_tables(lake, pipeline.contracts, tables, work):
            yield
        return
    yield
    record_versions(lake, pipeline.contracts, f"rollback of {request}")


def release_days(
    lake: Lake,
    pipeline: Pipeline,
    request: RollbackRequest,
    provenance: Provenance,
    act: bool = True,
) -> dict[str, tuple[date, ...]]:
    """Release held days, per table: put back by a rollback of the plan (and chunk), or `days` of
    `table`. Only lists them unless `act`. Raises BackfillError if there are none."""
    held_days = _held_days(lake, pipeline, request)
    if not held_days:
        fix = "`backfill-assets status` shows held days"
        raise BackfillError(str(request), "none of its days is held", "Nothing was done", fix)
    if not act:
        return held_days
    signed = request.signed(provenance)
    for contract in pipeline.contracts:
        if contract.name in held_days:
            restore.release_partitions(lake, contract, held_days[contract.name], signed)
    record_versions(lake, pipeline.contracts, f"release of {request}")
    return held_days


def _held_days(
    lake: Lake, pipeline: Pipeline, request: RollbackRequest
) -> dict[str, tuple[date, ...]]:
    """Per table the held days that a request names; tables without any are left out."""
    view, part = read_view(lake, pipeline.contracts), ChunkPart(lake, request)
    found: dict[str, tuple[date, ...]] = {}
    for contract in named_contracts(pipeline, request):
        held = view.table(contract.name).held_days
        if request.plan and held:
            put_back = _newest_receipts(_table_history(lake, contract))
            held = [d for d in held if part.is_held_by(request, d, put_back[d])]
        if held := [d for d in held if request.has(contract, d)]:
            found[contract.name] = tuple(held)
    return found


def _newest_receipts(history: Writes) -> dict[date, Receipt]:
    """Per day the newest receipt that is none of a judge's: of a held day that which put it
    back."""
    newest = dict[date, Receipt]()
    for _, receipt in history:
        if receipt.reason != JUDGE:
            newest |= dict.fromkeys(receipt.days, receipt)
    return newest


def _chosen_restores(
    lake: Lake, pipeline: Pipeline, request: RollbackRequest
) -> tuple[list[RestoreRequest], tuple[str, ...]]:
    """The restores, upstream first; and the landed tables that the plan wrote."""
    chosen, untouched = list[RestoreRequest](), list[str]()
    has_written, part = False, ChunkPart(lake, request)
    for contract in named_contracts(pipeline, request):
        history = _table_history(lake, contract)
        if request.plan and not any(part.is_written_by(request, r) for _, r in history):
            continue
        has_written = True
        if request.plan and contract.is_landed:
            untouched.append(contract.name)
            continue
        choice = _restore_choice(contract, history, request, part)
        if choice.targets:
            chosen.append(choice)
    if not has_written:
        raise BackfillError(
            str(request),
            "no receipt names it",
            NOTHING_PUT_BACK,
            "`backfill-assets audit` lists all writes",
        )
    return chosen, tuple(untouched)


def named_contracts(pipeline: Pipeline, request: RollbackRequest) -> list[Contract]:
    """The contract of the named table, or all; raises BackfillError for an unknown table."""
    if request.table:
        return [pipeline.contract(request.table, "Nothing was done")]
    return list(pipeline.contracts)


def _table_history(lake: Lake, contract: Contract) -> Writes:
    return [
        (c.version, c.receipt) for c in lake.store.commits(contract.name) if c.receipt is not None
    ]


class ChunkPart:
    """The days of the chunk of a request: what the plan's boundary chunk wrote of them belongs to
    it, and so does what a rollback of the whole plan holds. No days if no chunk is named or the
    plan's file is gone."""

    def __init__(self, lake: Lake, request: RollbackRequest) -> None:
        self.plan, self.boundary = request.plan, ""
        self._days = dict[str, frozenset[date]]()  # by table
        if request.chunk.isdigit() and request.plan in plan_ids(lake):
            plan = find_plan(lake, request.plan)
            chunk = plan.chunk(int(request.chunk))
            self._days = {table: frozenset(plan.keys(chunk, table)) for table in plan.tables}
            self.boundary = str(plan.chunks[-1].number) if plan.has_boundary else ""

    def days_of(self, table: str) -> frozenset[date]:
        """The days of a table that the chunk makes."""
        return self._days.get(table, frozenset())

    def has_rewritten(self, receipt: Receipt) -> bool:
        """Whether the boundary chunk wrote days of the chunk; it may be the only one that did."""
        if (receipt.tags.get(PLAN_TAG), receipt.tags.get(CHUNK_TAG)) != (self.plan, self.boundary):
            return False
        return not self.days_of(receipt.table).isdisjoint(receipt.days)

    def is_written_by(self, request: RollbackRequest, receipt: Receipt) -> bool:
        """Whether a receipt is of what is asked for, or of the boundary chunk with days of it."""
        return request.names(receipt) or self.has_rewritten(receipt)

    def is_held_by(self, request: RollbackRequest, day: date, receipt: Receipt) -> bool:
        """Whether a receipt that holds a day is of a rollback of what is asked for, or of the whole
        plan."""
        if request.names(receipt):
            return True
        of_plan = receipt.tags.get(PLAN_TAG) == self.plan and CHUNK_TAG not in receipt.tags
        return of_plan and day in self.days_of(receipt.table)


def _restore_choice(
    contract: Contract, history: Writes, request: RollbackRequest, part: ChunkPart
) -> RestoreRequest:
    """The target version per day; raises BackfillError for days written since by another run, and a
    future version."""
    head = history[-1][0] if history else -1
    if request.to_version is not None and request.to_version > head:
        fix = f"`backfill-assets audit --table {contract.name}` lists all writes"
        raise _table_error(
            contract, f"it has no version {request.to_version}: its newest is {head}", fix
        )
    targets, seen, newer = {}, {}, dict[date, tuple[int, Receipt]]()
    for day, writes in _writes_by_day(contract, history, request).items():
        undone = _undone_versions(day, writes, request, part)
        if not undone:
            continue
        targets[day] = undone[0] - 1 if request.to_version is None else request.to_version
        newest_version, _ = writes[-1]
        seen[day] = newest_version  # a write after this one is refused when the day is put back
        for version, receipt in writes:
            if version > undone[-1] and receipt.reason not in UNDOING:
                newer[day] = version, receipt
    if newer and not request.over_newer:
        raise _written_since_error(contract, newer)
    return RestoreRequest(contract, targets, seen)


def _undone_versions(
    day: date, writes: Writes, request: RollbackRequest, part: ChunkPart
) -> list[int]:
    """The versions of the writes of a day that the request undoes, ascending."""
    if request.plan:
        return _versions_of_plan(day, writes, request, part)
    return [] if request.to_version is None else _versions_after(writes, request.to_version)


def _writes_by_day(
    contract: Contract, history: Writes, request: RollbackRequest
) -> dict[date, list[tuple[int, Receipt]]]:
    """The writes of every day of the request, ascending; of a month with one of its days."""
    writes_of: dict[date, list[tuple[int, Receipt]]] = {}
    for version, receipt in history:
        for day in receipt.days:
            if request.has(contract, day):
                writes_of.setdefault(day, []).append((version, receipt))
    return writes_of


def _versions_of_plan(
    day: date, writes: Writes, request: RollbackRequest, part: ChunkPart
) -> list[int]:
    """The versions of the plan's newest unbroken series of writes of a day; none if it was put back
    already."""
    versions: list[int] = []
    for version, receipt in reversed(writes):
        is_rewritten = day in part.days_of(receipt.table) and part.has_rewritten(receipt)
        if request.names(receipt) or is_rewritten:
            if receipt.reason in UNDOING:
                break
            versions.insert(0, version)
        elif versions:
            break
    return versions


def _versions_after(writes: Writes, version: int) -> list[int]:
    """The version of the first write of a day after `version`, and the following versions of the
    same run."""
    later = [write for write in writes if write[0] > version]
    if not later:
        return []
    (first, receipt), *others = later
    if not receipt.run_id:
        return [first]
    return [first, *(at for at, other in others if other.run_id == receipt.run_id)]


def _written_since_error(
    contract: Contract, newer: Mapping[date, tuple[int, Receipt]]
) -> BackfillError:
    """The error for days that another run wrote since (`newer`: version and receipt per day)."""
    first = min(newer)
    version, receipt = newer[first]
    run = f", run {receipt.run_id[:8]}" if receipt.run_id else ""
    return _table_error(
        contract,
        f"{ranges_text(newer)} written since by another run: {first} as version {version} "
        f"({receipt.reason}{run})",
        f"Look with `backfill-assets show {contract.name} {first}`; if that is to be undone too, "
        "add --over-newer",
    )


def _table_error(contract: Contract, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"the table {contract.name}", culprit, NOTHING_PUT_BACK, fix)
