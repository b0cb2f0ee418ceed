"""Layers against each other, day by day, after a chunk: what landed is in raw or aside, what is in raw is in staging or
superseded.

Lives here: both accounts of a chunk's days. Does not live here: the account of landed rows (`account`) and what a table
of versions must hold (its `account`, `pipeline.transforms.layers`). No JVM. Figures of two origins are compared: what a
parser and an independent engine counted, and what receipts say.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from backfill_assets.core.contracts import Contract, versions_of
from backfill_assets.core.plan_gates import GateFinding
from backfill_assets.core.plan_states import PlanWrites
from backfill_assets.core.plans import PlanChunk
from backfill_assets.core.receipts import KEPT
from backfill_assets.core.states import State, States
from backfill_assets.lake.audit import connection, selection
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table
from backfill_assets.lake.view import read_view
from backfill_assets.lake.writes import writes_of
from backfill_assets.operations.account import accounts


def layers(lake: Lake, pipeline: Pipeline, chunk: PlanChunk, writes: Mapping[str, PlanWrites]) -> list[GateFinding]:
    """Days of the chunk on which two layers do not add up, upstream first, ascending."""
    view = read_view(lake, pipeline.contracts)
    states = pipeline.states(view)
    found = [
        GateFinding(landed, day, "account", _told(rows))
        for landed, counted in accounts(lake, view).items()
        for day, rows in counted.wrong.items()
        if day in chunk.days
    ]
    for table in pipeline.tables:
        if table.account is not None and table.name in writes:
            found += _versions(lake, states, table, writes[table.name].after.get(chunk.number, {}))
    return found


def _told(rows: int) -> str:
    more = "more landed" if rows > 0 else "fewer landed"
    return f"{abs(rows)} row(s) {more} than raw, quarantine, duplicates and too late rows account for"


def _versions(lake: Lake, states: States, table: Table, written: Mapping[date, object]) -> Iterator[GateFinding]:
    """Of the days written, unless newer deliveries came for them since: those will be made again."""
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
    """Per event day the deliveries in raw at a version, and those superseded. Reads the arrival days that the ledger
    lists for these days, which hold every delivery of their keys."""
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
