"""What a person should be able to answer of the newest plan before and after its backfill.

Not here: the items of loads, and the list of both (`reports.checklist`, to which the room offers
these).
"""

from collections.abc import Callable, Iterator, Set
from datetime import date
from functools import partial

from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import find_plan, plan_ids
from backfill_assets.plans.model import Plan, TableImpact
from backfill_assets.plans.progress import ChunkState, Progress, read_progress

NEVER_PLANNED = "no backfill was ever planned"
PLAN_FIX = "backfill-assets plan --from DAY --to DAY --tables TABLE"


Answer = tuple[bool, str, str]  # whether it holds, the evidence, and what mends it


def plan_items(lake: Lake, pipeline: Pipeline) -> Iterator[tuple[str, Answer]]:
    """Judge the newest plan of today's tables: yield what a person should be able to answer before
    and after a backfill, each by its name."""
    newest = _newest_plan(lake, {contract.name for contract in pipeline.contracts})
    if newest is None:
        for name in PLANNED:
            yield name, (False, NEVER_PLANNED, PLAN_FIX)
        return
    current = read_progress(lake, pipeline, newest)
    for name, judge in PLANNED.items():
        yield name, judge(current)


def _newest_plan(lake: Lake, tables: Set[str]) -> Plan | None:
    """The newest plan that makes none but these tables, those of today's pipeline; None without
    one. Plans of tables that were removed since cannot be judged any more."""
    for plan_id in reversed(plan_ids(lake)):
        plan = find_plan(lake, plan_id)
        if tables >= {*plan.tables}:
            return plan
    return None


def _strategy_answer(current: Progress) -> Answer:
    """Whether no key occurs twice in the days to write, so that the strategy has one row to write
    or match per key."""
    is_unique, text, fix = _preflight_answer(current, "keys unique")
    plan, contracts = current.plan, current.states.contracts
    keys = [f"{table} by {', '.join(contracts[table].key)}" for table in plan.tables]
    strategy = plan.policy.mode.text or "overwrite"
    return is_unique, f"{plan.id}: {strategy}; {'; '.join(keys)}; {text}", fix


def _chunks_answer(current: Progress) -> Answer:
    """Whether a canary comes first; a gate comes after each chunk of every plan."""
    canary_days, chunks = current.plan.policy.canary, len(current.plan.chunks)
    evidence = f"{chunks} chunk(s) with a gate after each; {canary_days} day(s) first, alone"
    return canary_days > 0, evidence, f"{PLAN_FIX} --canary 1"


def _preflight_answer(current: Progress, name: str = "") -> Answer:
    """Whether the check `name` of the preflight passed; without a name, whether all did."""
    ticks = [t for t in current.plan.preflight if name in ("", t.name)]
    failed = [f"{t.name}: {t.told}" for t in ticks if not t.passed]
    if not ticks:
        return False, "an older version made the plan, without this check", PLAN_FIX
    well = ticks[0].told if name else f"the preflight passed: {', '.join(t.name for t in ticks)}"
    return not failed, "; ".join(failed) or well, PLAN_FIX


def _range_answer(current: Progress) -> Answer:
    """Whether the plan makes every day that its writes change, or all the following days were made
    since."""
    left = list[str]()
    for impact in current.plan.impacts:
        if days := _days_left(current, impact):
            left.append(f"{impact.table} {ranges_text(days)}")
    if left:
        evidence = f"not made by this plan, and its writes change them: {'; '.join(left)}"
        return False, evidence, "backfill-assets catch-up"
    plan, policy = current.plan, current.plan.policy
    spread = f"{policy.order}, at most {policy.max_parallel} chunk(s) at once"
    evidence = f"{plan.days} of {', '.join(plan.tables)}, {spread}; no day that follows is left"
    return True, evidence, ""


def _days_left(current: Progress, impact: TableImpact) -> list[date]:
    """The days of a table that follow from the plan and were not made since; all of them while the
    plan is under way."""
    days = [day for span in impact.follows for day in span]
    if not current.is_done:
        return days
    return [day for day in days if current.states.of(impact.table, day) is State.STALE]


def _gates_answer(current: Progress) -> Answer:
    """Whether the plan is finished and all its chunks still stand."""
    done = sum(chunk.state is ChunkState.DONE for chunk in current.chunks)
    evidence = (
        f"{done} of {len(current.chunks)} chunk(s) passed their gate; the plan is {current.state}"
    )
    is_verified = current.is_done and current.state == "finished"
    return is_verified, evidence, f"backfill-assets run {current.plan.id}"


PLANNED: dict[str, Callable[[Progress], Answer]] = {
    "a key and a write strategy": _strategy_answer,
    "chunks, each validated": _chunks_answer,
    "the last rerun was equal": partial(_preflight_answer, name="last rerun equal"),
    "safe to run again": partial(_preflight_answer),
    "exact range, order, parallelism": _range_answer,
    "verified before others rely on it": _gates_answer,
}
