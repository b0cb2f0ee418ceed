"""The gate after a chunk: the figures gathered, and the verdict of the pure rules on them.

Lives here: receipts before and after, and the independent read-back of the written files by an engine that did not
write them. Does not live here: layers against each other (`plan_layers`), the rules (`core.plan_gates`) and acting on
them (`plan_run`).
"""

from collections.abc import Mapping

from backfill_assets.core.errors import GateRefused
from backfill_assets.core.plan_gates import GateFinding, TableEvidence, judge_chunk
from backfill_assets.core.plan_states import PlanWrites
from backfill_assets.core.plans import Plan, PlanChunk
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.plan_layers import layers
from backfill_assets.operations.why import ranges

SHOWN = 5


def judge(
    lake: Lake, pipeline: Pipeline, plan: Plan, chunk: PlanChunk, writes: Mapping[str, PlanWrites]
) -> list[GateFinding]:
    """Everything that the gate refuses about what the chunk wrote; empty: the next chunk may run. Reads the files."""
    found: list[GateFinding] = []
    for name in plan.tables:
        evidence = _evidence(lake, pipeline, plan, chunk, name, writes[name])
        if evidence is not None:
            found += judge_chunk(evidence, plan.policy.tolerances)
    return found + layers(lake, pipeline, chunk, writes)


def _evidence(
    lake: Lake, pipeline: Pipeline, plan: Plan, chunk: PlanChunk, name: str, own: PlanWrites
) -> TableEvidence | None:
    contract, ids = pipeline.table(name).contract, own.ids.get(chunk.number, frozenset())
    stamps = lake.store.view(name, contract.day_column).stamps
    # A plan that goes on after a kill may have rebuilt days of this chunk with another one since: that one answers.
    after = {d: e for d, e in own.after.get(chunk.number, {}).items() if d in stamps and stamps[d].write_id in ids}
    if not after:
        return None
    base = own.base[chunk.number]
    before = {d: e for d, e in own.before.get(chunk.number, {}).items() if d in after}
    moved = {d for d, e in before.items() if e.content != after[d].content}
    with_means = plan.policy.tolerances.means is not None and moved and base >= 0
    return TableEvidence(
        contract, before, after, own.earlier,
        {d: p for d, p in audit_table(lake, contract, days=after, altered=True).items() if d is not None},
        {d: p for d, p in audit_table(lake, contract, base, moved).items() if d is not None} if with_means else {},
    )  # fmt: skip


def refusal(plan: Plan, chunk: PlanChunk, found: list[GateFinding], put_back: bool, failed: str = "") -> GateRefused:
    """The error of a failed gate: days, columns, figures, what stands, and what to do next. `failed`: why the chunk
    could not be put back (empty: it was, or nobody asked for it)."""
    shown = "; ".join(f"{f.table} {f.day} {f.rule}: {f.told}" for f in found[:SHOWN])
    more = f"; {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    tables = [f"{t} {ranges({f.day for f in found if f.table == t})}" for t in dict.fromkeys(f.table for f in found)]
    which = f"--plan {plan.id} --chunk {chunk.number}"
    command = f"backfill-assets {'release' if put_back else 'rollback'} {which} --yes"
    return GateRefused(
        f"the gate of chunk {chunk.number} ({chunk.days}) of the plan {plan.id}",
        f"{len(found)} finding(s) on {', '.join(tables)}: {shown}{more}",
        f"The chunk {'was put back and is held' if put_back else 'is written'}, no later one was run"
        + (f"; putting it back failed: {failed.rstrip('.')}" if failed else ""),
        f"Correct the cause; `{command}` and `backfill-assets plan cancel {plan.id}` let all days go, then plan again"
        if put_back
        else f"Look at these days; put it back with `{command}`, or go on with "
        f"`backfill-assets run {plan.id} --accept {chunk.number}` if it is as it should be",
    ).with_facts(plan=plan.id, chunk=str(chunk.number), **{"release" if put_back else "rollback": command})
