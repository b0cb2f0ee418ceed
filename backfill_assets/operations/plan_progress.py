"""How far a plan is, read from the lake: its state, and chunk by chunk the expected and the real figures.

Elsewhere: the rules of a chunk's state (`plan_states`), marks and locks (`plan_files`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backfill_assets.core.receipts import KEPT
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.operations.plan_files import CANCELLED, FINISHED, WAITING, active_plans, is_running, marked
from backfill_assets.operations.plan_model import ChunkKind, Plan, PlanChunk, Price
from backfill_assets.operations.plan_states import (
    ChunkState,
    ChunkWrites,
    PlanWrites,
    chunk_state,
    plan_writes,
    undone,
)


@dataclass(frozen=True)
class Took:
    """What writes cost: seconds without the wait for an engine, processor seconds and bytes of new data files (None: no
    receipt has them), rows; of a merge the rows `kept` that the new ones lack."""

    seconds: float
    cpu: float | None
    rows: int
    bytes: int | None
    kept: int = 0

    @classmethod
    def of(cls, writes: Iterable[ChunkWrites]) -> "Took | None":
        """The sums over writes; None without any."""
        found = list(writes)
        if not found:
            return None
        cpu = [w.cpu for w in found if w.cpu is not None]
        size = [w.bytes for w in found if w.bytes is not None]
        entries = [e for w in found for e in w.after.values()]
        return cls(
            sum(w.seconds for w in found),
            sum(cpu) if cpu else None,
            sum(e.rows for e in entries),
            sum(size) if size else None,
            sum(e.counts.get(KEPT, 0) for e in entries),
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"seconds": self.seconds, "cpu_s": self.cpu, "rows": self.rows, "bytes": self.bytes}


@dataclass(frozen=True)
class ChunkProgress:
    """One chunk: its state, the number of days per table that are still to be made, its price, and the real figures of
    its receipts (None: it has none yet)."""

    chunk: PlanChunk
    state: ChunkState
    todo: Mapping[str, int]
    price: Price | None
    took: Took | None

    def to_dict(self) -> dict[str, Any]:
        """The chunk as JSON values."""
        price, took = self.price, self.took
        return {
            "number": self.chunk.number, "from": str(self.chunk.days.start), "to": str(self.chunk.days.last),
            "kind": self.chunk.kind.value, "state": self.state.value, "todo": dict(self.todo),
            "expected_s": [price.least, price.seconds, price.most] if price else None,
            "expected_cpu_s": price.cpu if price else None, "expected_rows": price.rows if price else None,
            "expected_bytes": price.bytes if price else None, "kept": took.kept if took else 0,
            **(took.to_dict() if took else dict.fromkeys(("seconds", "cpu_s", "rows", "bytes"))),
        }  # fmt: skip


@dataclass(frozen=True)
class Progress:
    """A plan with its chunks as they are now. `told` is its state (`state_of`), `why` the reason of a stop or pause."""

    plan: Plan
    told: str
    states: States
    writes: Mapping[str, PlanWrites]
    chunks: tuple[ChunkProgress, ...] = field(default=())
    why: str = ""

    @property
    def is_done(self) -> bool:
        """Whether every chunk is done; a chunk of a finished plan that was rolled back since is not."""
        return all(c.state is ChunkState.DONE for c in self.chunks)

    def took(self, table: str) -> Took | None:
        """The real figures of the plan's writes of a table so far; None without any."""
        return Took.of(self.writes[table].chunks.values()) if table in self.writes else None

    def took_in_all(self) -> Took | None:
        """The real figures of all writes of the plan so far; None without any."""
        return Took.of(made for own in self.writes.values() for made in own.chunks.values())


def progress(lake: Lake, pipeline: Pipeline, plan: Plan) -> Progress:
    """Read how far the plan is now."""
    writes = {name: _writes(lake, plan, name) for name in plan.tables}
    states = pipeline.states(read_view(lake, pipeline.contracts))
    told = state_of(lake, plan)
    found = [_chunk(plan, c, states, writes, told) for c in plan.chunks]
    if found[-1].chunk.kind is ChunkKind.BOUNDARY and any(c.state is not ChunkState.DONE for c in found[:-1]):
        found[-1] = replace(found[-1], state=ChunkState.PENDING)  # its days are known once all else is made
    return Progress(plan, told, states, writes, tuple(found), why_waiting(lake, plan, told))


def seconds_left(now: Progress, chunk: PlanChunk) -> float:
    """The price of the chunks from this one on that are not done, at the pace of those that are."""
    done = [c for c in now.chunks if c.state is ChunkState.DONE]
    known = [(c.took.seconds, c.price.seconds) for c in done if c.took and c.price and c.price.seconds]
    pace = sum(took for took, _ in known) / sum(price for _, price in known) if known else 1.0
    left = [c for c in now.chunks if c.state is not ChunkState.DONE and c.chunk.number >= chunk.number]
    return pace * sum(c.price.seconds for c in left if c.price)


def _writes(lake: Lake, plan: Plan, table: str) -> PlanWrites:
    return plan_writes(plan.id, ((c.version, c.receipt) for c in lake.store.commits(table) if c.receipt is not None))


def state_of(lake: Lake, plan: Plan) -> str:
    """The state of a plan by its marks: `new`, `active`, `paused`, `stopped` (its last run ended early with a reason),
    `finished` or `cancelled`. A plan whose runner was killed is `active`."""
    ended = marked(lake, plan.id, "ended")
    if ended is not None:
        return CANCELLED if ended.startswith(CANCELLED) else FINISHED
    if marked(lake, plan.id, "paused") is not None:
        return "paused"
    if marked(lake, plan.id, "stopped") is not None:
        return "stopped"
    return "new" if marked(lake, plan.id, "started") is None else "active"


def why_waiting(lake: Lake, plan: Plan, told: str) -> str:
    """Why a plan in the state `told` waits for a person; empty if it does not."""
    return next((marked(lake, plan.id, name) or "" for name in WAITING if name == told), "")


def held_back(lake: Lake, also_idle: bool = False) -> dict[str, str]:
    """Per id of an active plan that waits for a person, a line: why, which days it holds back, and which command frees
    them. `also_idle`: also plans whose runner was killed."""
    found = {}
    for plan in active_plans(lake):
        told = state_of(lake, plan)
        if told not in WAITING and not (also_idle and not is_running(lake, plan)):
            continue
        why = f" ({why_waiting(lake, plan, told)})" if told in WAITING else " and no process runs it"
        verb = f"plan resume {plan.id}`, then `backfill-assets run" if told == "paused" else "run"
        found[plan.id] = (
            f"the plan {plan.id} is {told}{why}; nothing else makes {plan.days} of {', '.join(plan.tables)} until it "
            f"ends: `backfill-assets {verb} {plan.id}`, or `backfill-assets plan cancel {plan.id}`"
        )
    return found


def _chunk(plan: Plan, chunk: PlanChunk, states: States, writes: Mapping[str, PlanWrites], told: str) -> ChunkProgress:
    state = chunk_state(plan, chunk, states, writes)
    is_put_back = any(w.is_put_back(chunk.number) for w in writes.values())
    if told == FINISHED and state is not ChunkState.HELD and not is_put_back:
        state = ChunkState.DONE  # days that became stale since belong to those who look after new data
    todo = {} if state is ChunkState.DONE else undone(plan, chunk, states, writes)
    mine = [w.chunks[chunk.number] for w in writes.values() if chunk.number in w.chunks]
    return ChunkProgress(
        chunk, state, {table: len(days) for table, days in todo.items()}, plan.prices.get(chunk.number), Took.of(mine)
    )
