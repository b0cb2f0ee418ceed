"""How far a plan is: the state of each chunk, from the plan and from receipts, at every look anew.

Lives here: which writes are the plan's, what a day was before and after a chunk, and the rule of a chunk's state. Does
not live here: reading logs (`operations.plan_progress`), and gates (`core.plan_gates`). No state is stored anywhere, so
that a kill loses nothing and a rerun goes on where it stood.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from backfill_assets.core.plans import CHUNK_TAG, PLAN_REASON, PLAN_TAG, ChunkKind, Plan, PlanChunk
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.core.states import State, States


class ChunkState(StrEnum):
    """What is known of a chunk."""

    PENDING = "pending"  # nothing of it is written
    BEGUN = "begun"  # some of its days are: it is running, or was killed or refused
    DONE = "done"  # every day of every table is the plan's, or right as it is
    HELD = "held"  # put back by a rollback: left alone until released


@dataclass(frozen=True)
class PlanWrites:
    """What one table's receipts say of a plan: its write ids per chunk, and per chunk what its days held before and
    hold since. `base` is the table's version before the chunk's first write (-1: there was no table), `last` that of
    its newest; `seconds` (without the wait for an engine to be opened), `cpu` (processor seconds) and `bytes` (of new
    data files) are sums, the latter two where receipts tell. `earlier` is as all days were before the plan began.
    `put_back` is the version of the newest rollback or release of the chunk."""

    ids: Mapping[int, frozenset[str]] = field(default_factory=dict)
    before: Mapping[int, Mapping[date, DayEntry]] = field(default_factory=dict)
    after: Mapping[int, Mapping[date, DayEntry]] = field(default_factory=dict)
    base: Mapping[int, int] = field(default_factory=dict)
    earlier: Mapping[date, DayEntry] = field(default_factory=dict)
    seconds: Mapping[int, float] = field(default_factory=dict)
    last: Mapping[int, int] = field(default_factory=dict)
    put_back: Mapping[int, int] = field(default_factory=dict)
    cpu: Mapping[int, float] = field(default_factory=dict)
    bytes: Mapping[int, int] = field(default_factory=dict)

    def is_put_back(self, chunk: int) -> bool:
        """Whether a rollback undid the chunk here, and it was not made again since."""
        return self.put_back.get(chunk, -1) > self.last.get(chunk, -1)

    def all_ids(self) -> frozenset[str]:
        """The write ids of all chunks."""
        return frozenset().union(*self.ids.values())


def plan_writes(plan_id: str, log: Iterable[tuple[int, Receipt]]) -> PlanWrites:
    """What a table's receipts (ascending, each with its version) say of the plan."""
    ids: dict[int, set[str]] = {}
    before: dict[int, dict[date, DayEntry]] = {}
    after: dict[int, dict[date, DayEntry]] = {}
    base: dict[int, int] = {}
    seconds: dict[int, float] = {}
    cpu: dict[int, float] = {}
    size: dict[int, int] = {}
    last: dict[int, int] = {}
    put_back: dict[int, int] = {}
    now: dict[date, DayEntry] = {}
    earlier: Mapping[date, DayEntry] | None = None
    for version, receipt in log:
        chunk = chunk_of(plan_id, receipt)
        if chunk is not None:
            earlier = dict(now) if earlier is None else earlier
            base.setdefault(chunk, version - 1)
            last[chunk] = version
            ids.setdefault(chunk, set()).add(receipt.write_id)
            seconds[chunk] = seconds.get(chunk, 0.0) + receipt.work_seconds
            if receipt.cpu_seconds is not None:
                cpu[chunk] = cpu.get(chunk, 0.0) + receipt.cpu_seconds
            if receipt.bytes is not None:
                size[chunk] = size.get(chunk, 0) + receipt.bytes
            kept = before.setdefault(chunk, {})
            written = after.setdefault(chunk, {})
            for day, entry in receipt.days.items():
                if day in now and day not in written:
                    kept[day] = now[day]
                written[day] = entry
        elif receipt.tags.get(PLAN_TAG) == plan_id:  # a rollback or release, of one chunk or of all
            named = receipt.tags.get(CHUNK_TAG, "")
            put_back |= dict.fromkeys([int(named)] if named.isdigit() else ids, version)
        now.update(receipt.days)
    return PlanWrites(
        {c: frozenset(found) for c, found in ids.items()}, before, after, base,
        now if earlier is None else earlier, seconds, last, put_back, cpu, size,
    )  # fmt: skip


def chunk_of(plan_id: str, receipt: Receipt) -> int | None:
    """The number of the plan's chunk that wrote this receipt; None where another did, also where it put days back."""
    if receipt.tags.get(PLAN_TAG) != plan_id or receipt.reason != PLAN_REASON:
        return None
    number = receipt.tags.get(CHUNK_TAG, "")
    return int(number) if number.isdigit() else None


def undone(plan: Plan, chunk: PlanChunk, states: States, writes: Mapping[str, PlanWrites]) -> dict[str, list[date]]:
    """Per table, upstream first, the days of the chunk that are still to be made; tables without such are left out.

    A day is made if the plan made it last, or it is known to be right; a day that the seams are for counts as made only
    by themselves. One of raw is made once its ledger names it: what is made from the ledger would lack it before. Held
    days are never among them.
    """
    found: dict[str, list[date]] = {}
    for table in plan.tables:
        own = writes[table]
        seams = chunk.kind is ChunkKind.BOUNDARY
        ids = own.ids.get(chunk.number, frozenset()) if seams else own.all_ids()
        days = [d for d in chunk.days if not _is_made(plan, states, table, d, ids, seams)]
        if days:
            found[table] = days
    return found


def written(left: Mapping[str, Collection[date]], states: States, writes: Mapping[str, PlanWrites]) -> frozenset[str]:
    """Of the tables with days to be made (`undone`) those whose rows the plan wrote last on all of these days: killed
    before it named them in raw's ledger, it need not write them again, whatever it forces."""
    found = {t: [states.stamp(t, d) for d in days] for t, days in left.items()}
    return frozenset(
        t for t, stamps in found.items() if all(s is not None and s.write_id in writes[t].all_ids() for s in stamps)
    )


def _is_made(plan: Plan, states: States, table: str, day: date, ids: Collection[str], seams: bool) -> bool:
    stamp = states.stamp(table, day)
    if stamp is not None and stamp.write_id in ids and states.is_whole(table, day, stamp):
        return True
    if states.of(table, day) is State.HELD:
        return True
    settled = states.is_settled(table, day, plan.policy.merges)
    return settled and (seams or not plan.policy.force)


def chunk_state(plan: Plan, chunk: PlanChunk, states: States, writes: Mapping[str, PlanWrites]) -> ChunkState:
    """The state of a chunk now: held, done, begun or pending (first match)."""
    if chunk.kind is not ChunkKind.BOUNDARY and held_days(plan.tables, chunk, states):
        return ChunkState.HELD
    if not undone(plan, chunk, states, writes):
        return ChunkState.DONE
    return ChunkState.BEGUN if any(w.ids.get(chunk.number) for w in writes.values()) else ChunkState.PENDING


def held_days(tables: Sequence[str], chunk: PlanChunk, states: States) -> dict[str, list[date]]:
    """Per table the days of the chunk that a rollback put back and nobody released."""
    held = {t: [d for d in chunk.days if states.of(t, d) is State.HELD] for t in tables}
    return {table: days for table, days in held.items() if days}


def gate_is_passed(plan: Plan, chunk: PlanChunk, writes: Mapping[str, PlanWrites]) -> bool:
    """Whether receipts prove it: a chunk of a later wave wrote something, and it may only after this one's gate."""
    waves = plan.waves()
    own_wave = next(i for i, wave in enumerate(waves) if chunk in wave)
    later = {c.number for wave in waves[own_wave + 1 :] for c in wave}
    newest = {name: max((w.last[c] for c in later & set(w.last)), default=None) for name, w in writes.items()}
    own = {name: w.last.get(chunk.number, -1) for name, w in writes.items()}
    # Where it was made again after a rollback, its newest write is newer than theirs: that one was not judged yet.
    told = [last > own[name] for name, last in newest.items() if last is not None]
    return bool(told) and all(told)
