"""What the writes of a plan cost: seconds per day of past writes of the table, times days; a guess where it has none.

Lives here: seconds with an interval, rows, bytes and processor seconds per table and chunk. Does not live here: what a
plan costs besides its writes (`plan_besides`), and the real figures afterwards, which are the plan's own receipts
(`plan_progress`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from operator import add

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.plans import ChunkKind, PlanChunk, Price, TableImpact
from backfill_assets.core.states import States
from backfill_assets.lake.store import Commit
from backfill_assets.operations.plan_impact import FORCED

WRITE_SECONDS = 1.0  # of any write, whatever its days: measured 0.3 to 2 on two cores
GUESS_DAY_SECONDS = 0.05  # a small table on two cores
LEAST_FACTOR, GUESS_FACTOR = 1.5, 4.0  # how far an expectation may be off, both ways: after many writes, after none
NEWEST_WRITES = 40  # older ones tell of another machine and another size


@dataclass(frozen=True)
class Rate:
    """What a day of a table costs: seconds beyond those of any write, rows, and bytes per row. `writes` are those that
    it was learnt from (0: a guess); `busy` are processor seconds per second (None: no receipt tells)."""

    day_seconds: float
    day_rows: float
    row_bytes: float
    writes: int
    busy: float | None = None

    def price(self, days: int, rows: int | None = None) -> Price:
        """The price of one write of so many days; of none it is nothing."""
        if not days:
            return Price(0.0, 0.0, 0.0, 0, 0, max(self.writes, 1), 0.0)
        seconds = WRITE_SECONDS + self.day_seconds * days
        factor = LEAST_FACTOR + (GUESS_FACTOR - LEAST_FACTOR) / (1 + self.writes)
        told = round(self.day_rows * days) if rows is None else rows
        cpu = seconds * self.busy if self.busy is not None else None
        return Price(
            seconds, seconds / factor, seconds * factor, told, round(told * self.row_bytes), self.writes, cpu
        )  # fmt: skip


def rate_of(log: Sequence[Commit], row_bytes: float) -> Rate:
    """What the newest writes of a table that made rows say, all together: a load of years among them counts most."""
    found = (c.receipt for c in log if c.receipt is not None and c.receipt.seconds is not None and c.receipt.days)
    made = [*found][-NEWEST_WRITES:]
    if not made:
        return Rate(GUESS_DAY_SECONDS, 0.0, row_bytes, 0)
    days, rows = sum(len(r.days) for r in made), sum(e.rows for r in made for e in r.days.values())
    beyond = sum(max(r.work_seconds - WRITE_SECONDS, 0.0) for r in made)
    known = [(r.cpu_seconds, r.work_seconds) for r in made if r.cpu_seconds is not None]
    busy = sum(cpu for cpu, _ in known) / max(sum(s for _, s in known), 0.05) if known else None
    return Rate(beyond / days, rows / days, row_bytes, len(made), busy)


def priced(
    states: States, found: Sequence[TableImpact], chunks: Sequence[PlanChunk], rates: Mapping[str, Rate]
) -> tuple[dict[str, Price], dict[int, Price]]:
    """The price per table and per chunk. That of a table holds no seams, whose days nobody knows before."""
    per_table: dict[str, Price] = {}
    per_chunk: dict[int, list[Price]] = {c.number: [] for c in chunks}
    over_cuts = reaching_over(states.contracts.values(), [i.table for i in found if i.days()])
    worked = [c for c in chunks if c.kind is not ChunkKind.SEAMS]
    for impact in found:
        days = impact.days()
        if not days:
            continue
        prices = {c.number: _one(states, impact.table, rates, days & {*c.days}) for c in worked}
        for number, price in prices.items():
            per_chunk[number].append(price)
        per_table[impact.table] = reduce(add, prices.values())
        if impact.table in over_cuts and len(chunks) > len(worked):
            whole = _one(states, impact.table, rates, days)
            cuts = (len(worked) - 1) * max(i.before + i.after + 1 for i in states.contracts[impact.table].inputs)
            at_cuts = rates[impact.table].price(min(cuts, len(days)))
            per_chunk[chunks[-1].number].append(_of_seams(at_cuts, whole, impact))
    return per_table, {number: reduce(add, prices) for number, prices in per_chunk.items() if prices}


def reaching_over(contracts: Iterable[Contract], planned: Collection[str]) -> frozenset[str]:
    """The planned tables (given upstream first) of which a later chunk can change inputs of an earlier one."""
    reaching: set[str] = set()
    for contract in contracts:
        inputs = [i for i in contract.inputs if i.table in planned]
        if contract.name in planned and any(
            i.table in reaching or i.before or i.after or i.basis is not Basis.CONTENT for i in inputs
        ):
            reaching.add(contract.name)
    return frozenset(reaching)


def _of_seams(price: Price, whole: Price, impact: TableImpact) -> Price:
    """Of the seams nobody knows how many days they are: none, where chunks change nothing, up to all, once more. Days
    that are only forced are expected to change nothing."""
    if set(impact.write) <= {FORCED}:
        return Price(0.0, 0.0, whole.most, 0, 0, whole.writes, 0.0 if whole.cpu is not None else None)
    return replace(price, least=0.0, most=max(price.most, whole.most))


def _one(states: States, table: str, rates: Mapping[str, Rate], days: Collection[date]) -> Price:
    """The price of one write: rows of days that are there as they are, of others as of an ordinary day."""
    rate, stamps = rates[table], states.view.table(table).stamps
    known = [stamps[d].entry.rows for d in days if d in stamps]
    return rate.price(len(days), sum(known) + round(rate.day_rows * (len(days) - len(known))))
