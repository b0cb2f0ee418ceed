"""What a plan costs, learnt from the receipts of past writes of the lake; said to be a guess where there are none.

Lives here: seconds by number of days with an interval, rows and bytes, of writes with a warm engine, of the first ones
with a cold one, and of the seams. Does not live here: what a plan costs besides its writes (`plan_besides`), and the
real figures afterwards, which are the plan's own receipts (`plan_progress`). Processor seconds go with seconds, as past
receipts tell them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from operator import add
from statistics import median

from backfill_assets.core.contracts import Basis, Contract
from backfill_assets.core.plans import ChunkKind, PlanChunk, Price, TableImpact
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.states import States
from backfill_assets.lake.store import Commit
from backfill_assets.operations.plan_impact import FORCED

GUESS_FIXED_SECONDS, GUESS_DAY_SECONDS = 2.0, 0.05  # a small table on two cores
GUESS_WARMING = (1.0, 10.0, 4.0)  # what a cold engine adds to the first write of a table: seconds, at most, of CPU
GUESS_FACTOR = 4.0  # how far a guess may be off, both ways
LEAST_FACTOR = 1.5  # few writes show less than all of the scatter: no interval is narrower
ENOUGH_WRITES = 8  # from here on the scatter that was seen is believed
FEWEST_SLOPES = 3
UNLIKE = 2  # by which factor a size differs that teaches little of another
NEWEST_WRITES = 40  # older ones tell of another machine and another size


@dataclass(frozen=True)
class Model:
    """Seconds of a write as `fixed + per_day * days`, between these divided by and multiplied with `factor`; the rows
    of a day and the bytes of a row. `writes` are those it was learnt from, of `sizes` days (least, most). `busy` are
    processor seconds per second (None: no receipt tells). `warming` is what the first write of a cold engine takes
    longer, once it is open: seconds as expected and at most, and processor seconds, those of opening it among them. It
    does not grow with the days: a cold write of a size that no warm one had teaches nothing of it (`_alike`).

    Of a size that was never written nobody knows how much of the seconds is fixed: then the interval also holds what
    seconds per day alone would say (`per_day_alone`: least, most) and, of a smaller one, the seconds of the cheapest
    write that was seen (`whole`), as if all of them were fixed.
    """

    fixed: float
    per_day: float
    factor: float
    day_rows: float
    row_bytes: float
    writes: int
    sizes: tuple[int, int] = (0, 10**9)
    per_day_alone: tuple[float, float] = (0.0, 0.0)
    whole: float = 0.0
    busy: float | None = None
    warming: tuple[float, float, float] = GUESS_WARMING

    def price(self, days: int, rows: int | None = None, is_first: bool = False) -> Price:
        """The price of one write of so many days; of none it is nothing. `is_first`: the engine may be cold."""
        if not days:
            return Price(0.0, 0.0, 0.0, 0, 0, max(self.writes, 1), 0.0)
        seconds = self.fixed + self.per_day * days
        told = round(self.day_rows * days) if rows is None else rows
        least, most = seconds / self.factor, seconds * self.factor
        if UNLIKE * days < self.sizes[0]:
            least, most = min(least, self.per_day_alone[0] * days), max(most, self.whole * LEAST_FACTOR)
        elif days > UNLIKE * self.sizes[1]:
            most = max(most, self.per_day_alone[1] * days)
        cpu = seconds * self.busy if self.busy is not None else None
        if is_first:
            seconds, most = seconds + self.warming[0], most + self.warming[1]
            cpu = cpu + self.warming[2] if cpu is not None else None
        return Price(seconds, least, most, told, round(told * self.row_bytes), self.writes, cpu)


def model_of(log: Sequence[Commit], row_bytes: float, cold: Collection[str] = ()) -> Model:
    """What the table's receipts teach. Only writes that made rows count: a receipt alone costs next to nothing.

    `cold` are the runs that began with an engine that had just been started: they teach the rest only where all were.
    """
    every = [c.receipt for c in log if c.receipt is not None and c.receipt.seconds is not None and c.receipt.days]
    made = ([r for r in every if r.run_id not in cold] or every)[-NEWEST_WRITES:]
    points = [(len(r.days), r.work_seconds) for r in made]
    rows = sum(e.rows for r in made for e in r.days.values())
    day_rows = rows / max(sum(n for n, _ in points), 1)
    if not points:
        return Model(GUESS_FIXED_SECONDS, GUESS_DAY_SECONDS, GUESS_FACTOR, day_rows, row_bytes, 0)
    fixed, per_day = _fitted(points)
    off = sorted(max(s, 0.05) / max(fixed + per_day * n, 0.05) for n, s in points)
    cut = len(off) // ENOUGH_WRITES  # of many writes the oddest are left out at each end
    seen = max(off[-1 - cut], 1 / off[cut])
    unsure = 1 + (GUESS_FACTOR - 1) / (1 + len(points)) if len(points) < ENOUGH_WRITES else 1.0
    busy = [float(r.cpu_seconds) / max(r.work_seconds, 0.05) for r in made if r.cpu_seconds is not None]
    sizes, alone = [n for n, _ in points], [s / n for n, s in points]
    cold_made = [r for r in every if r.run_id in cold and _alike(len(r.days), sizes)][-NEWEST_WRITES:]
    return Model(
        fixed, per_day, max(LEAST_FACTOR, seen * unsure), day_rows, row_bytes, len(points),
        (min(sizes), max(sizes)), (min(alone) / LEAST_FACTOR, max(alone) * LEAST_FACTOR),
        min(s for _, s in points),
        median(busy) if busy else None,
        _warming(cold_made, fixed, per_day, median(busy) if busy else 0.0),
    )  # fmt: skip


def _alike(days: int, sizes: Sequence[int]) -> bool:
    """Whether writes of these sizes tell what one of so many days takes. Of a cold write of years beside warm ones of
    weeks, what lies over a line drawn through the latter is the error of that line rather than the cold part."""
    return min(sizes) <= UNLIKE * days and days <= UNLIKE * max(sizes)


def _warming(made: Sequence[Receipt], fixed: float, per_day: float, busy: float) -> tuple[float, float, float]:
    """What writes of a cold engine took longer than others: seconds in the middle and at most, processor seconds."""
    if not made:
        return GUESS_WARMING
    usual = {r.write_id: fixed + per_day * len(r.days) for r in made}
    longer = [max(r.work_seconds - usual[r.write_id], 0.0) for r in made]
    cpu = [max(r.cpu_seconds - busy * usual[r.write_id], 0.0) for r in made if r.cpu_seconds is not None]
    unsure = LEAST_FACTOR + (GUESS_FACTOR - LEAST_FACTOR) / (1 + len(made))
    return median(longer), max(*longer, 1.0) * unsure, median(cpu) if cpu else 0.0


def _fitted(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Fixed seconds and seconds per day, neither below nothing: by medians, so that one cold start teaches nothing.

    Seconds per day are the median slope between writes of unlike size (Theil and Sen); without such, what is left of
    all seconds where the fixed ones are a guess.
    """
    slopes = [(s - t) / (n - m) for i, (n, s) in enumerate(points) for m, t in points[:i] if n != m]
    guess = median([(s - GUESS_FIXED_SECONDS) / n for n, s in points])
    per_day = max(median(slopes) if len(slopes) >= FEWEST_SLOPES else guess, 0.0)
    per_day = min(per_day, median([s / n for n, s in points]))
    return max(median([s - per_day * n for n, s in points]), 0.0), per_day


def priced(
    states: States, found: Sequence[TableImpact], chunks: Sequence[PlanChunk], models: Mapping[str, Model]
) -> tuple[dict[str, Price], dict[int, Price]]:
    """The price per table and per chunk. That of a table holds no seams, which nobody knows before."""
    per_table: dict[str, Price] = {}
    per_chunk: dict[int, list[Price]] = {c.number: [] for c in chunks}
    over_cuts = reaching_over(states.contracts.values(), [i.table for i in found if i.days()])
    for impact in found:
        days = impact.days()
        worked = [c for c in chunks if c.kind is not ChunkKind.SEAMS]
        prices = {c.number: _one(states, impact.table, models, [d for d in c.days if d in days], c) for c in worked}
        for number, price in prices.items():
            per_chunk[number].append(price)
        if days:
            per_table[impact.table] = reduce(add, prices.values())
        for seams in chunks[len(worked) :] if days and impact.table in over_cuts else ():
            per_chunk[seams.number].append(_of_seams(_one(states, impact.table, models, sorted(days), seams), impact))
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


def _of_seams(price: Price, impact: TableImpact) -> Price:
    """Of the seams nobody knows how many days they are: none, where chunks change nothing, up to all, once more. Days
    that are only forced are expected to change nothing."""
    if set(impact.write) <= {FORCED}:
        return Price(0.0, 0.0, price.most, 0, 0, price.writes, 0.0 if price.cpu is not None else None)
    return replace(price, least=0.0)


def _one(states: States, table: str, models: Mapping[str, Model], days: Sequence[date], chunk: PlanChunk) -> Price:
    """The price of one write: rows of days that are there as they are, of others as of an ordinary day."""
    model, stamps = models[table], states.view.table(table).stamps
    known = [stamps[d].entry.rows for d in days if d in stamps]
    rows = sum(known) + round(model.day_rows * (len(days) - len(known)))
    return model.price(len(days), rows, is_first=chunk.number == 1)
