"""What a person should be able to answer of the newest plan before and after its backfill.

Not here: the items of loads, and the list of both (`reports.checklist`, to which the room offers
these).
"""

from collections.abc import Callable, Iterator
from functools import partial

from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import find_plan, plan_ids
from backfill_assets.plans.progress import ChunkState, Progress, read_progress

NEVER_PLANNED = "no backfill was ever planned"
PLAN_FIX = "backfill-assets plan --from DAY --to DAY --tables TABLE"


Answer = tuple[bool, str, str]  # whether it holds, the evidence, and what mends it


def plan_items(lake: Lake, pipeline: Pipeline) -> Iterator[tuple[str, Answer]]:
    """Judge the newest plan of today's tables: yield what a person should be able to answer before
    and after a backfill, each by its name."""
    tables, plans = (
        {c.name for c in pipeline.contracts},
        (find_plan(lake, i) for i in reversed(plan_ids(lake))),
    )
    newest = next((plan for plan in plans if tables.issuperset(plan.tables)), None)
    current = read_progress(lake, pipeline, newest) if newest else None
    for name, judge in PLANNED.items():
        yield name, judge(current) if current else (False, NEVER_PLANNED, PLAN_FIX)


def _strategy_answer(current: Progress) -> Answer:
    """Whether no key occurs twice in the days to write, so that the strategy has one row to write
    or match per key."""
    unique, text, fix = _preflight_answer(current, "keys unique")
    keys = "; ".join(
        f"{t} by {', '.join(current.states.contracts[t].key)}" for t in current.plan.tables
    )
    return (
        unique,
        f"{current.plan.id}: {current.plan.policy.mode.text or 'overwrite'}; {keys}; {text}",
        fix,
    )


def _chunks_answer(current: Progress) -> Answer:
    gates, chunks = current.plan.policy.canary, len(current.plan.chunks)
    evidence = f"{chunks} chunk(s) with a gate after each; {gates} day(s) first, alone"
    return gates > 0, evidence, f"{PLAN_FIX} --canary 1"


def _preflight_answer(current: Progress, name: str = "") -> Answer:
    """Whether these ticks of the preflight hold, or all."""
    ticks = [t for t in current.plan.preflight if name in ("", t.name)]
    failed = [f"{t.name}: {t.told}" for t in ticks if not t.passed]
    if not ticks:
        return False, "an older version made the plan, without this check", PLAN_FIX
    well = ticks[0].told if name else f"the preflight passed: {', '.join(t.name for t in ticks)}"
    return not failed, "; ".join(failed) or well, PLAN_FIX


def _range_answer(current: Progress) -> Answer:
    """Whether the plan makes every day that its writes change, or all the following days were made
    since."""
    of = current.states.of
    left = {
        i.table: [
            d for s in i.follows for d in s if not current.is_done or of(i.table, d) is State.STALE
        ]
        for i in current.plan.impacts
    }
    if follows := [f"{table} {ranges_text(days)}" for table, days in left.items() if days]:
        return (
            False,
            f"not made by this plan, and its writes change them: {'; '.join(follows)}",
            "backfill-assets catch-up",
        )
    policy = current.plan.policy
    spread = f"{policy.order}, at most {policy.max_parallel} chunk(s) at once"
    return (
        True,
        f"{current.plan.days} of {', '.join(current.plan.tables)}, {spread}; no day that follows "
        "is left",
        "",
    )


def _gates_answer(current: Progress) -> Answer:
    done = [c.chunk.number for c in current.chunks if c.state is ChunkState.DONE]
    evidence = (
        f"{len(done)} of {len(current.chunks)} chunk(s) passed their gate; the plan is "
        f"{current.state}"
    )
    return (
        current.is_done and current.state == "finished",
        evidence,
        f"backfill-assets run {current.plan.id}",
    )


PLANNED: dict[str, Callable[[Progress], Answer]] = {
    "a key and a write strategy": _strategy_answer,
    "chunks, each validated": _chunks_answer,
    "the last rerun was equal": partial(_preflight_answer, name="last rerun equal"),
    "safe to run again": partial(_preflight_answer),
    "exact range, order, parallelism": _range_answer,
    "verified before others rely on it": _gates_answer,
}
