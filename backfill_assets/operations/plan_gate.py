"""The gate after a chunk: gathers receipts, read-back profiles and row accounts, and gives the findings.

Elsewhere: the rules about one table's days (`core.plan_gates`), the account of landed rows (`account`), acting on
findings (`plan_run`). Needs no JVM: figures of two origins are compared, so that a mistake of either shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from backfill_assets.core.contracts import Contract, versions_of
from backfill_assets.core.errors import GateRefused
from backfill_assets.core.plan_gates import GateFinding, TableEvidence, judge_chunk
from backfill_assets.core.receipts import KEPT
from backfill_assets.core.states import State, States
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.embedded import connection, selection
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table
from backfill_assets.lake.view import writes_of
from backfill_assets.operations.account import accounts
from backfill_assets.operations.plan_model import Plan, PlanChunk
from backfill_assets.operations.plan_progress import Progress
from backfill_assets.operations.plan_states import ChunkWrites, PlanWrites
from backfill_assets.operations.why import ranges

SHOWN = 5


def judge(lake: Lake, pipeline: Pipeline, chunk: PlanChunk, now: Progress) -> list[GateFinding]:
    """Find everything that the gate refuses about what the chunk wrote; empty: the next chunk may run.

    `now` is the plan's progress after the chunk was written. Reads the written files.
    """
    found: list[GateFinding] = []
    for name in now.plan.tables:
        evidence = _evidence(lake, pipeline.table(name).contract, chunk, now)
        if evidence is not None:
            found += judge_chunk(evidence, now.plan.policy.tolerances)
    return found + layers(lake, pipeline, chunk, now.states, now.writes)


def _evidence(lake: Lake, contract: Contract, chunk: PlanChunk, now: Progress) -> TableEvidence | None:
    writes, stamps = now.writes[contract.name], now.states.view.table(contract.name).stamps
    own = writes.chunks.get(chunk.number, ChunkWrites())
    # A plan that goes on after a kill may have rebuilt days of this chunk with another one since: that one answers.
    after = {d: e for d, e in own.after.items() if d in stamps and stamps[d].write_id in own.ids}
    if not after:
        return None
    base = own.base
    before = {d: e for d, e in own.before.items() if d in after}
    moved = {d for d, e in before.items() if e.content != after[d].content}
    with_means = now.plan.policy.tolerances.means is not None and moved and base >= 0
    return TableEvidence(
        contract, before, after, writes.earlier,
        {d: p for d, p in audit_table(lake, contract, days=after, altered=True).items() if d is not None},
        {d: p for d, p in audit_table(lake, contract, base, moved).items() if d is not None} if with_means else {},
    )  # fmt: skip


def refusal(plan: Plan, chunk: PlanChunk, found: list[GateFinding], put_back: bool, failed: str = "") -> GateRefused:
    """The error of a failed gate: days, columns, figures, what is written, and what to do next. `failed`: why the
    rollback of the chunk failed (empty: it did not, or none was wanted)."""
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


def layers(
    lake: Lake, pipeline: Pipeline, chunk: PlanChunk, states: States, writes: Mapping[str, PlanWrites]
) -> list[GateFinding]:
    """Find the days of the chunk on which two layers do not add up, upstream first, ascending: rows that landed against
    raw and rejected rows, deliveries in raw against staging and superseded ones."""
    found = [
        GateFinding(landed, day, "account", _told(rows))
        for landed, counted in accounts(lake, states.view).items()
        for day, rows in counted.wrong.items()
        if day in chunk.days
    ]
    for table in pipeline.tables:
        if table.account is not None and table.name in writes:
            found += _versions(lake, states, table, writes[table.name].chunks.get(chunk.number, ChunkWrites()).after)
    return found


def _told(rows: int) -> str:
    more = "more landed" if rows > 0 else "fewer landed"
    return f"{abs(rows)} row(s) {more} than raw, quarantine, duplicates and too late rows account for"


def _versions(lake: Lake, states: States, table: Table, written: Mapping[date, object]) -> Iterator[GateFinding]:
    """Findings for the days written, without days that are stale by newer deliveries, which will be rebuilt."""
    stamps = {
        day: stamp
        for day in sorted(written)
        if (stamp := states.stamp(table.name, day)) is not None
        and states.of(table.name, day) in (State.FRESH, State.OUTDATED)
    }
    raw = states.contracts[versions_of([table.contract])[table.name]]
    for receipt, days in writes_of(lake.store, table.name, stamps):
        if receipt is None or raw.name not in receipt.inputs:
            continue
        counted = _counted(lake, states, table, raw, receipt.inputs[raw.name], [*days])
        for day in days:
            entry = receipt.days[day]
            came, superseded = counted.get(day, (0, 0))
            rows = entry.rows - entry.counts.get(KEPT, 0)
            if came != rows + superseded:
                told = f"{came} deliveries in {raw.name} are for it, {rows} are here and {superseded} superseded"
                yield GateFinding(table.name, day, "account", told)


def _counted(
    lake: Lake, states: States, table: Table, raw: Contract, version: int, days: Sequence[date]
) -> dict[date, tuple[int, int]]:
    """Per event day the deliveries in raw at a version, and those superseded. Reads the arrival days that the event-day
    index has for these days, which hold every delivery of their keys."""
    if table.account is None:
        return {}
    arrived = {a for d in days for a, _ in states.view.source(raw.name).arrivals.get(d, ())}
    files = lake.store.data_files(raw, version, arrived) if arrived else []
    rows = selection(files, raw)
    wanted = ", ".join(f"DATE '{d}'" for d in days)
    event_day = "CAST(make_timestamp(epoch_us(event_ts)) AS DATE)"
    keys = f"SELECT event_key FROM ({rows}) WHERE op = 'upsert' AND {event_day} IN ({wanted})"
    with connection(lake) as engine:
        engine.execute(f"CREATE TEMP TABLE deliveries AS SELECT * FROM ({rows}) WHERE event_key IN ({keys})")
        return {
            day: (came, gone)
            for day, came, gone in engine.execute(table.account("SELECT * FROM deliveries")).fetchall()
        }
