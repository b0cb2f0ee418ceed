"""Making a plan: what a range of days will touch, what it will cost, whether it may run, and what it is pinned to.

Lives here: putting the parts together, from the lake's logs alone: no JVM, under a second on 1,096 days. Does not live
here: the parts (`plan_impact`, `plan_price`, `plan_preflight`, `plan_pins`), its file (`plan_files`), running it
(`plan_run`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import MOST_CHUNK_DAYS, ChunkKind, Plan, PlanChunk, PlanCode, Policy, cut
from backfill_assets.core.who import whoami
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.load.merging import refuse_merge
from backfill_assets.operations.plan_besides import besides, is_up, runs_of
from backfill_assets.operations.plan_files import new_id
from backfill_assets.operations.plan_impact import impacts
from backfill_assets.operations.plan_look import look_ahead
from backfill_assets.operations.plan_pins import take_pins
from backfill_assets.operations.plan_preflight import preflight
from backfill_assets.operations.plan_price import priced, rate_of


@dataclass(frozen=True)
class PlanRequest:
    """What someone asks to be planned. `most_days` caps a chunk; `user` and the words go into the plan. `look`: read
    what landed by today's settings, which needs the engine. `code` is told in the plan; the caller works by it."""

    days: DayRange
    tables: tuple[str, ...]
    policy: Policy
    reason: str = ""
    note: str = ""
    most_days: int = MOST_CHUNK_DAYS
    user: str = ""
    look: bool = False
    code: PlanCode | None = None


def make_plan(lake: Lake, pipeline: Pipeline, asked: PlanRequest, now: datetime | None = None) -> Plan:
    """The frozen plan of a request. Writes nothing; a plan whose preflight failed is made too, and refused when run."""
    chunks = cut(asked.days, asked.policy.chunk, asked.policy.canary, asked.policy.order)
    _refuse_unsafe(pipeline, asked, chunks)
    created = now or utc_now()
    states = pipeline.states(read_view(lake, pipeline.contracts))
    logs = {t.name: list(lake.store.commits(t.name)) for t in pipeline.tables}
    frontiers = {name: {c.version: c.receipt.frontier for c in log if c.receipt} for name, log in logs.items()}
    found = impacts(states, frontiers, asked.tables, asked.days, asked.policy)
    runs = runs_of(logs.values())
    rates = {i.table: rate_of(logs[i.table], lake.store.row_bytes(i.table)) for i in found}
    per_table, per_chunk = priced(states, found, chunks, rates)
    plan = Plan(
        id=new_id(created),
        created=created,
        user=asked.user or whoami(),
        days=asked.days,
        tables=asked.tables,
        chunks=chunks,
        policy=asked.policy,
        pins=take_pins(lake, pipeline, states),
        impacts=tuple(replace(i, price=per_table.get(i.table)) for i in found),
        prices=per_chunk,
        besides=besides(runs, chunks, asked.policy.max_parallel, is_up(lake), len(asked.tables)),
        reason=asked.reason,
        note=asked.note,
        retention_days=lake.settings.retention.rollback_days,
        look=look_ahead(lake, states, asked.days) if asked.look else None,
        code=asked.code,
    )
    return replace(plan, preflight=preflight(lake, pipeline, states, plan))


def _refuse_unsafe(pipeline: Pipeline, asked: PlanRequest, chunks: Sequence[PlanChunk]) -> None:
    largest = max(len(c.days) for c in chunks if c.kind is not ChunkKind.SEAMS)
    if largest > asked.most_days:
        raise BackfillError(
            "the chunk",
            f"{largest} days in one run are more than {asked.most_days}: what is wrong shows late, and is "
            "a large thing to put back",
            "Nothing was planned",
            f"Use --chunk 7d, or say --max-chunk-days {largest} if you mean it",
        )
    if asked.policy.keep_removed and not asked.policy.merges:
        raise BackfillError(
            "--keep-removed", "an overwrite keeps no row of a day", "Nothing was planned",
            "Say --write-mode merge with it, or leave it away",
        )  # fmt: skip
    contracts = [pipeline.table(name).contract for name in asked.tables]
    for contract in contracts if asked.policy.merges else ():
        refuse_merge(contract, contracts)


def refuse_append() -> BackfillError:
    """The error of the write mode that no correction may use, and the incident that it prevents."""
    return BackfillError(
        "the write mode append",
        "rows of a day that is there already would count twice: a backfill by append has doubled three years of sums "
        "while the job succeeded and no alert came",
        "Nothing was planned",
        "Use --write-mode overwrite: each day is replaced as a whole, however often",
    )
