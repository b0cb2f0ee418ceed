"""How far a plan is, read from receipts: per chunk what it wrote and replaced, its state, its price
and real figures.

Elsewhere: marks and locks (`files`), the gate's rules (`plans.gate`). No state of a chunk is
stored: a kill loses nothing, and a rerun goes on where the plan stood.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from typing import Any, NamedTuple, TypedDict, TypeVar

from backfill_assets.kernel.core.answers import DaySpan
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.kernel.core.receipts import KEPT, DayEntry, Receipt
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import (
    FINISHED,
    Acceptance,
    Resumption,
    all_acceptances,
    find_plan,
    next_subcommand,
    past_resumptions,
    plan_state,
    why_waiting,
)
from backfill_assets.plans.model import PLAN_REASON, ChunkKind, Plan, PlanChunk, Price
from backfill_assets.plans.pace import wait_for_turn

Number = TypeVar("Number", int, float)
COLD_SECONDS = 10.0  # what the first work of an engine that has just started takes longer


class ChunkState(StrEnum):
    """What is known of a chunk."""

    PENDING = "pending"  # nothing of it is written
    BEGUN = "begun"  # some of its days are: it is running, or was killed or refused
    DONE = "done"  # every day of every table is the plan's, or right as it is
    HELD = "held"  # put back by a rollback: left alone until released


@dataclass
class ChunkWrites:
    """A chunk's writes of one table: receipts by version, ascending, and the days' entries after
    them."""

    receipts: dict[int, Receipt] = field(default_factory=dict)
    after: dict[date, DayEntry] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The version of the last write; -1 without any."""
        return max(self.receipts, default=-1)

    @property
    def ids(self) -> set[str]:
        """The write ids."""
        return {receipt.write_id for receipt in self.receipts.values()}

    @property
    def days(self) -> list[date]:
        """The days that the chunk wrote in this table, ascending; it skips days that are right
        already."""
        return sorted(self.after)


@dataclass(frozen=True)
class PlanWrites:
    """A plan's writes of one table per chunk."""

    chunks: Mapping[int, ChunkWrites] = field(default_factory=dict)
    # version of the newest rollback or release of a chunk
    put_back: Mapping[int, int] = field(default_factory=dict)

    @property
    def base(self) -> int:
        """The table's version before the plan's first write; -1: there was no table."""
        first_writes = [min(own.receipts) for own in self.chunks.values() if own.receipts]
        return min(first_writes, default=0) - 1

    def of(self, chunk: int) -> ChunkWrites:
        """The writes of a chunk."""
        return self.chunks.get(chunk, ChunkWrites())

    def is_put_back(self, chunk: int) -> bool:
        """Whether a rollback undid the chunk in this table, and no write of the chunk followed."""
        return self.put_back.get(chunk, -1) > self.of(chunk).last

    def ids(self, chunk: int | None = None) -> set[str]:
        """The write ids of a chunk; without one, of all."""
        found = set[str]()
        for number, writes in self.chunks.items():
            if chunk in (None, number):
                found |= writes.ids
        return found


def plan_writes(plan_id: str, log: Iterable[tuple[int, Receipt]]) -> PlanWrites:
    """Sort a table's receipts (ascending, each with its version) by the plan's chunks."""
    chunks: dict[int, ChunkWrites] = {}
    put_back: dict[int, int] = {}
    for version, receipt in log:
        if receipt.tags.get(PLAN_TAG) != plan_id:
            continue
        number = receipt.tags.get(CHUNK_TAG, "")
        named = [int(number)] if number.isdigit() else []
        if receipt.reason != PLAN_REASON:  # a rollback or release, of one chunk or of all
            put_back |= dict.fromkeys(named or chunks, version)
            continue
        for chunk in named:
            own = chunks.setdefault(chunk, ChunkWrites())
            own.receipts[version] = receipt
            own.after |= receipt.days
    return PlanWrites(chunks, put_back)


def writes_of_plan(lake: Lake, plan: Plan, table: str) -> PlanWrites:
    """A plan's writes of one table, from the commits since the plan was made; of a table that was
    moved away and made anew since, from all."""
    pinned = max(plan.pins.versions.get(table, -1), 0)
    commits = [*lake.store.commits(table, after=pinned - 1)]
    # The pinned version itself is older than the plan, unless it is one of a table made anew.
    if not commits or commits[0].at > plan.created:
        commits = [*lake.store.commits(table)]
    return plan_writes(plan.id, ((c.version, c.receipt) for c in commits if c.receipt))


@dataclass(frozen=True)
class TableBefore:
    """A table as gates compare a plan's writes with it."""

    lake: Lake  # of a plan in a candidate: the lake beside the candidate
    version: int  # -1: there is no table
    entries: Mapping[date, DayEntry]


def table_before_plan(lake: Lake, contract: Contract, writes: PlanWrites) -> TableBefore:
    """The table before the plan's first write; in a candidate, the newest version of the table in
    the lake beside it."""
    before_lake = lake
    version: int | None = writes.base
    if lake.base_lake is not None:
        before_lake, version = lake.base_lake, None  # the newest
    view = before_lake.store.view(contract.name, contract.day_column, version)
    entries = {day: receipt.entry for day, receipt in view.latest.items()}
    return TableBefore(before_lake, view.version, entries)


class TookForm(TypedDict):
    """What writes cost as JSON values; None: nothing is written, or nobody measured."""

    seconds: float | None
    cpu_s: float | None
    rows: int | None
    bytes: int | None


class ChunkProgressForm(TookForm, DaySpan):
    """A chunk of a plan as JSON values; `expected_s`: the least, the likely and the most."""

    number: int
    kind: ChunkKind
    state: ChunkState
    todo: Mapping[str, int]  # days per table
    expected_s: tuple[float, float, float] | None
    expected_cpu_s: float | None
    expected_rows: int | None
    expected_bytes: int | None
    kept: int


@dataclass(frozen=True)
class Took:
    """What writes cost."""

    seconds: float  # without the wait for an engine
    cpu: float | None  # processor seconds; None: no receipt has them
    rows: int
    bytes: int | None  # of new data files; None: no receipt has them
    kept: int = 0  # rows of a merge that the new ones lack

    @classmethod
    def of(cls, writes: Iterable[ChunkWrites]) -> "Took | None":
        """The sums over writes; None without any."""
        receipts, entries = list[Receipt](), list[DayEntry]()
        for written in writes:
            receipts += written.receipts.values()
            entries += written.after.values()
        if not receipts:
            return None
        return cls(
            seconds=sum(r.work_seconds for r in receipts),
            cpu=_known_sum(r.cpu_seconds for r in receipts),
            rows=sum(e.rows for e in entries),
            bytes=_known_sum(r.bytes for r in receipts),
            kept=sum(e.counts.get(KEPT, 0) for e in entries),
        )

    def to_dict(self) -> TookForm:
        """The same as JSON values."""
        return {"seconds": self.seconds, "cpu_s": self.cpu, "rows": self.rows, "bytes": self.bytes}


def _known_sum(figures: Iterable[Number | None]) -> Number | None:
    """The sum of the figures that are known; None where none is."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class ChunkProgress:
    """One chunk of a plan."""

    chunk: PlanChunk
    state: ChunkState
    todo: Mapping[str, int]  # number of days per table that are still to be made
    price: Price | None
    took: Took | None  # by its receipts; None: it has none yet

    def to_dict(self) -> ChunkProgressForm:
        """The chunk as JSON values."""
        values: ChunkProgressForm = json_of(self._named_values())
        return values

    def _named_values(self) -> dict[str, Any]:
        return {
            "number": self.chunk.number,
            "from": str(self.chunk.days.start),
            "to": str(self.chunk.days.last),
            "kind": self.chunk.kind.value,
            "state": self.state.value,
            "todo": dict(self.todo),
            **_expected_figures(self.price),
            **_real_figures(self.took),
        }


def _expected_figures(price: Price | None) -> dict[str, Any]:
    """The price of a chunk as JSON values, each None without one."""
    if price is None:
        names = ("expected_s", "expected_cpu_s", "expected_rows", "expected_bytes")
        return dict.fromkeys(names)
    return {
        "expected_s": [price.least, price.seconds, price.most],
        "expected_cpu_s": price.cpu,
        "expected_rows": price.rows,
        "expected_bytes": price.bytes,
    }


def _real_figures(took: Took | None) -> dict[str, Any]:
    """What a chunk cost as JSON values, each None before its first write."""
    if took is None:
        return {"kept": 0, **dict.fromkeys(("seconds", "cpu_s", "rows", "bytes"))}
    return {"kept": took.kept, **took.to_dict()}


@dataclass(frozen=True)
class Progress:
    """A plan with its chunks as they are now."""

    plan: Plan
    state: str  # by `state_of`
    states: States
    writes: Mapping[str, PlanWrites]
    chunks: tuple[ChunkProgress, ...] = ()
    why: str = ""  # the reason of a stop or pause
    resumed: tuple[Resumption, ...] = ()  # who ended pauses
    accepted: tuple[Acceptance, ...] = ()  # findings of gates that a person accepted
    going_on: str = ""  # the subcommand that lets it go on
    hours: str = ""  # until when the lake's rate lets no chunk begin; "": one may

    @property
    def is_done(self) -> bool:
        """Whether every chunk is done; a chunk of a finished plan that was rolled back since is
        not."""
        return all(c.state is ChunkState.DONE for c in self.chunks)

    def took(self, *tables: str) -> Took | None:
        """The real figures of the plan's writes of these tables so far (none: all); None without
        any write."""
        written = list[ChunkWrites]()
        for table in tables or self.writes:
            if table in self.writes:
                written += self.writes[table].chunks.values()
        return Took.of(written)

    def write_ids(self, chunk: PlanChunk) -> list[str]:
        """The ids of a chunk's writes, ascending."""
        ids = set[str]()
        for writes in self.writes.values():
            ids |= writes.ids(chunk.number)
        return sorted(ids)

    def seconds_left(self, chunk: PlanChunk) -> float:
        """Expected seconds for `chunk` and later unfinished chunks, scaled by actual/expected of
        finished ones. The first finished chunk, which may have started an engine, counts only if it
        is the only one, less `COLD_SECONDS`."""
        expected = 0.0
        for one in self.chunks[chunk.number - 1 :]:
            if one.state is not ChunkState.DONE and one.price is not None:
                expected += one.price.seconds
        return self._pace() * expected

    def _pace(self) -> float:
        """Actual by expected seconds of the finished chunks; 1 before any is. The first one, which
        may have waited for an engine to start, counts only if it is alone, less `COLD_SECONDS`."""
        done = list[tuple[float, float]]()
        for one in self.chunks:
            if one.state is not ChunkState.DONE or one.took is None or one.price is None:
                continue
            if one.price.seconds:
                done.append((one.took.seconds, one.price.seconds))
        timed = done[1:] or [(max(spent - COLD_SECONDS, price), price) for spent, price in done]
        if not timed:
            return 1.0
        return sum(spent for spent, _ in timed) / sum(price for _, price in timed)

    def undone(self, chunk: PlanChunk) -> dict[str, list[date]]:
        """Per table, upstream first, the days of the chunk that are still to be made; tables
        without such are left out.

        A day is made if the plan wrote it last, or if it is known to be right; only the boundary
        chunk's own writes count for the boundary chunk. A day of raw is made once its ledger names
        it, because tables made from the ledger would lack it before. Held days are never among
        them.
        """
        number = chunk.number if chunk.kind is ChunkKind.BOUNDARY else None
        ids = {table: self.writes[table].ids(number) for table in self.plan.tables}
        is_forced = self.plan.policy.force and number is None
        todo = dict[str, list[date]]()
        for table in self.plan.tables:
            own = self.plan.keys(chunk, table)
            days = [d for d in own if not self._is_made(table, d, ids[table], is_forced)]
            if days:
                todo[table] = days
        return todo

    def _is_made(self, table: str, day: date, own_ids: Collection[str], is_forced: bool) -> bool:
        """Whether nothing is left to do for the day; `own_ids` are the writes that count."""
        receipt = self.states.latest(table, day)
        is_written = (
            receipt is not None
            and receipt.write_id in own_ids
            and self.states.is_whole(table, day, receipt)
        )
        if is_written or self.states.of(table, day).is_left_alone:
            return True
        return not is_forced and self.states.is_settled(table, day, self.plan.policy.mode)

    def written(self, todo: Mapping[str, Collection[date]]) -> frozenset[str]:
        """The tables of `todo` (from `undone`) whose days the plan wrote last: it was killed before
        raw's ledger named them, and need not write them again, even by force."""
        found = set[str]()
        for table, days in todo.items():
            latest = [self.states.latest(table, day) for day in days]
            writers = {None if receipt is None else receipt.write_id for receipt in latest}
            if writers <= self.writes[table].ids():
                found.add(table)
        return frozenset(found)

    def gate_is_passed(self, chunk: PlanChunk) -> bool:
        """Whether receipts prove that the gate was passed: a chunk of a later wave, which waits for
        it, wrote."""
        waves = self.plan.waves()
        own_wave = next(i for i, wave in enumerate(waves) if chunk in wave)
        proofs = list[bool]()
        for own in self.writes.values():
            later = [own.of(c.number).last for wave in waves[own_wave + 1 :] for c in wave]
            newest = max(later, default=-1)
            # A chunk that was made again after a rollback wrote later than the later waves did: its
            # gate has not judged that write yet.
            if newest >= 0:
                proofs.append(newest > own.of(chunk.number).last)
        return bool(proofs) and all(proofs)

    def held_days(self, chunk: PlanChunk) -> dict[str, list[date]]:
        """Per table the held days of the chunk: put back by a rollback, and not released."""
        held_days = dict[str, list[date]]()
        for table in self.plan.tables:
            own = self.plan.keys(chunk, table)
            days = [d for d in own if self.states.of(table, d) is State.HELD]
            if days:
                held_days[table] = days
        return held_days


def read_progress(lake: Lake, pipeline: Pipeline, plan: Plan) -> Progress:
    """Read how far the plan is now. Raises BackfillError if a table of it is none of the lake's any
    more."""
    if gone := {*plan.tables} - {contract.name for contract in pipeline.contracts}:
        fix = f"Bring its file back, or `backfill-assets plan cancel {plan.id}`"
        raise plan.error(
            f"the lake has no table {', '.join(sorted(gone))} any more", "Nothing was done", fix
        )
    writes = {table: writes_of_plan(lake, plan, table) for table in plan.tables}
    state = plan_state(lake, plan)
    current = Progress(
        plan=plan,
        state=state,
        states=pipeline.states(read_view(lake, pipeline.contracts)),
        writes=writes,
        why=why_waiting(lake, plan, state),
        resumed=past_resumptions(lake, plan),
        accepted=all_acceptances(lake, plan),
        going_on=next_subcommand(lake, plan, state),
        hours=_hours_text(lake, plan, state),
    )
    chunks: list[ChunkProgress] = []
    for chunk in plan.chunks:
        is_open = any(made.state is not ChunkState.DONE for made in chunks)
        waits = chunk.kind is ChunkKind.BOUNDARY and is_open
        chunks.append(_chunk_progress(current, chunk, waits))
    return replace(current, chunks=tuple(chunks))


def _hours_text(lake: Lake, plan: Plan, state: str) -> str:
    """Why no chunk of a plan in this state may begin now; "" where one may, or another reason is
    told."""
    wait = wait_for_turn(lake, plan) if state in ("new", "active") else None
    return "" if wait is None else wait.message


def _chunk_progress(current: Progress, chunk: PlanChunk, waits: bool) -> ChunkProgress:
    """The progress of a chunk; a boundary chunk that `waits` is pending: its days are known once
    all else is made."""
    todo = current.undone(chunk)
    state = _chunk_state(current, chunk, is_made=not todo)
    left = {table: len(days) for table, days in todo.items()}
    return ChunkProgress(
        chunk=chunk,
        state=ChunkState.PENDING if waits else state,
        todo={} if state is ChunkState.DONE else left,
        price=current.plan.prices.get(chunk.number),
        took=Took.of(writes.of(chunk.number) for writes in current.writes.values()),
    )


def _chunk_state(current: Progress, chunk: PlanChunk, *, is_made: bool) -> ChunkState:
    """The state of a chunk by the plan's writes; `is_made`: no day of it is left to do."""
    writes = current.writes.values()
    if chunk.kind is not ChunkKind.BOUNDARY and current.held_days(chunk):
        return ChunkState.HELD
    is_put_back = any(own.is_put_back(chunk.number) for own in writes)
    # Days of a finished plan that became stale since are for the sensors or `catch-up`.
    is_finished = current.state == FINISHED and not is_put_back
    if is_made or is_finished:
        return ChunkState.DONE
    has_begun = any(chunk.number in own.chunks for own in writes)
    return ChunkState.BEGUN if has_begun else ChunkState.PENDING


class PlanChange(NamedTuple):
    """What a plan, or one chunk of it, changed in a table."""

    table: str
    days: DayRange  # of the plan or the chunk
    before: int  # the version before the first write
    after: int  # the version of the last write


def plan_changes(lake: Lake, plan_id: str, chunk: int | None, table: str) -> list[PlanChange]:
    """Return what a plan, or its `chunk` alone, changed, per table that it wrote; of `table` alone
    unless that is empty. Raises BackfillError for an unknown plan or chunk, and where nothing was
    written."""
    plan = find_plan(lake, plan_id)
    chosen = None if chunk is None else plan.chunk(chunk)
    found = []
    for name in plan.tables:
        if table not in ("", name):
            continue
        own = set[int]()
        for number, written in writes_of_plan(lake, plan, name).chunks.items():
            if chunk in (None, number):
                own |= written.receipts.keys()
        if own:
            days = [*plan.keys_of(name)] if chosen is None else plan.keys(chosen, name)
            span = inclusive_range(days[0], days[-1])
            found.append(PlanChange(name, span, before=min(own) - 1, after=max(own)))
    if not found:
        what = f"chunk {chunk} of it" if chunk else "it"
        where = f" to {table}" if table else ""
        raise plan.error(
            f"{what} wrote nothing{where}",
            "Nothing was compared",
            f"See `backfill-assets plan show {plan.id}`",
        )
    return found
