"""What receipts say of a plan's chunks: what each wrote and replaced, its state, and which gates are proven.

Elsewhere: reading the logs (`plan_progress`), the gate's rules (`core.plan_gates`). No state is stored anywhere:
a kill loses nothing, and a rerun goes on where it stood.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from backfill_assets.core.plans import CHUNK_TAG, PLAN_REASON, PLAN_TAG
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.core.states import State, States
from backfill_assets.operations.plan_model import ChunkKind, Plan, PlanChunk


class ChunkState(StrEnum):
    """What is known of a chunk."""

    PENDING = "pending"  # nothing of it is written
    BEGUN = "begun"  # some of its days are: it is running, or was killed or refused
    DONE = "done"  # every day of every table is the plan's, or right as it is
    HELD = "held"  # put back by a rollback: left alone until released


@dataclass
class ChunkWrites:
    """A chunk's writes of one table: the table's version before the first one (-1: there was no table) and of the last
    one, their write ids, the partition records before and after, and sums of what they cost. `seconds` are without the
    wait for an engine; `cpu` are processor seconds and `bytes` those of new data files (None: no receipt has them)."""

    base: int = -1
    last: int = -1
    ids: set[str] = field(default_factory=set)
    before: dict[date, DayEntry] = field(default_factory=dict)
    after: dict[date, DayEntry] = field(default_factory=dict)
    seconds: float = 0.0
    cpu: float | None = None
    bytes: int | None = None

    def add(self, version: int, receipt: Receipt, now: Mapping[date, DayEntry]) -> None:
        """Add the write of `version`; `now` are the table's partition records before it."""
        self.base = self.base if self.ids else version - 1
        self.last = version
        self.ids.add(receipt.write_id)
        self.seconds += receipt.work_seconds
        if receipt.cpu_seconds is not None:
            self.cpu = (self.cpu or 0.0) + receipt.cpu_seconds
        if receipt.bytes is not None:
            self.bytes = (self.bytes or 0) + receipt.bytes
        self.before |= {d: now[d] for d in receipt.days if d in now and d not in self.after}
        self.after |= receipt.days


@dataclass(frozen=True)
class PlanWrites:
    """A plan's writes of one table per chunk. `earlier` are the partition records before the plan began, `put_back`
    the version of the newest rollback or release of a chunk."""

    chunks: Mapping[int, ChunkWrites] = field(default_factory=dict)
    earlier: Mapping[date, DayEntry] = field(default_factory=dict)
    put_back: Mapping[int, int] = field(default_factory=dict)

    def is_put_back(self, chunk: int) -> bool:
        """Whether a rollback undid the chunk in this table, and no write of the chunk followed."""
        last = self.chunks[chunk].last if chunk in self.chunks else -1
        return self.put_back.get(chunk, -1) > last

    def ids(self, chunk: int | None = None) -> set[str]:
        """The write ids of a chunk; without one, of all."""
        return {i for number, made in self.chunks.items() if chunk in (None, number) for i in made.ids}


def plan_writes(plan_id: str, log: Iterable[tuple[int, Receipt]]) -> PlanWrites:
    """Sort a table's receipts (ascending, each with its version) by the plan's chunks."""
    chunks: dict[int, ChunkWrites] = {}
    put_back: dict[int, int] = {}
    now: dict[date, DayEntry] = {}
    earlier: Mapping[date, DayEntry] = now
    for version, receipt in log:
        chunk = chunk_of(plan_id, receipt)
        if chunk is not None:
            earlier = earlier if chunks else dict(now)
            chunks.setdefault(chunk, ChunkWrites()).add(version, receipt, now)
        elif receipt.tags.get(PLAN_TAG) == plan_id:  # a rollback or release, of one chunk or of all
            named = receipt.tags.get(CHUNK_TAG, "")
            put_back |= dict.fromkeys([int(named)] if named.isdigit() else chunks, version)
        now.update(receipt.days)
    return PlanWrites(chunks, earlier, put_back)


def chunk_of(plan_id: str, receipt: Receipt) -> int | None:
    """The number of the plan's chunk that wrote this receipt; None for other writes and for rollbacks of the plan."""
    if receipt.tags.get(PLAN_TAG) != plan_id or receipt.reason != PLAN_REASON:
        return None
    number = receipt.tags.get(CHUNK_TAG, "")
    return int(number) if number.isdigit() else None


def undone(plan: Plan, chunk: PlanChunk, states: States, writes: Mapping[str, PlanWrites]) -> dict[str, list[date]]:
    """Per table, upstream first, the days of the chunk that are still to be made; tables without such are left out.

    A day is made if the plan wrote it last, or if it is known to be right; only the boundary chunk's own writes count
    for the boundary chunk. A day of raw is made once its ledger names it, because tables made from the ledger would
    lack it before. Held days are never among them.
    """
    found: dict[str, list[date]] = {}
    boundary = chunk.kind is ChunkKind.BOUNDARY
    for table in plan.tables:
        ids = writes[table].ids(chunk.number if boundary else None)
        days = [d for d in chunk.days if not _is_made(plan, states, table, d, ids, boundary)]
        if days:
            found[table] = days
    return found


def written(left: Mapping[str, Collection[date]], states: States, writes: Mapping[str, PlanWrites]) -> frozenset[str]:
    """The tables whose days to be made (`left`, of `undone`) were all written last by the plan: it was killed before
    raw's ledger named them, and need not write them again, even by force."""
    found = {t: [states.stamp(t, d) for d in days] for t, days in left.items()}
    return frozenset(
        t for t, stamps in found.items() if all(s is not None and s.write_id in writes[t].ids() for s in stamps)
    )


def _is_made(plan: Plan, states: States, table: str, day: date, ids: Collection[str], boundary: bool) -> bool:
    stamp = states.stamp(table, day)
    if stamp is not None and stamp.write_id in ids and states.is_whole(table, day, stamp):
        return True
    if states.of(table, day) is State.HELD:
        return True
    settled = states.is_settled(table, day, plan.policy.merges)
    return settled and (boundary or not plan.policy.force)


def chunk_state(plan: Plan, chunk: PlanChunk, states: States, writes: Mapping[str, PlanWrites]) -> ChunkState:
    """The state of a chunk now: held, done, begun or pending (first match)."""
    if chunk.kind is not ChunkKind.BOUNDARY and held_days(plan.tables, chunk, states):
        return ChunkState.HELD
    if not undone(plan, chunk, states, writes):
        return ChunkState.DONE
    return ChunkState.BEGUN if any(chunk.number in w.chunks for w in writes.values()) else ChunkState.PENDING


def held_days(tables: Sequence[str], chunk: PlanChunk, states: States) -> dict[str, list[date]]:
    """Per table the held days of the chunk: put back by a rollback, and not released."""
    held = {t: [d for d in chunk.days if states.of(t, d) is State.HELD] for t in tables}
    return {table: days for table, days in held.items() if days}


def gate_is_passed(plan: Plan, chunk: PlanChunk, writes: Mapping[str, PlanWrites]) -> bool:
    """Whether receipts prove that the gate was passed: a chunk of a later wave wrote, which it may only after that."""
    waves = plan.waves()
    own_wave = next(i for i, wave in enumerate(waves) if chunk in wave)
    later = {c.number for wave in waves[own_wave + 1 :] for c in wave}
    proofs = []
    for own in writes.values():
        newest = max((made.last for number, made in own.chunks.items() if number in later), default=None)
        # Where it was made again after a rollback, its newest write is newer than theirs: that one was not judged yet.
        last = own.chunks[chunk.number].last if chunk.number in own.chunks else -1
        proofs += [newest > last] if newest is not None else []
    return bool(proofs) and all(proofs)
