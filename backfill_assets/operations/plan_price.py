"""What a plan costs, learnt from the receipts of past writes of the lake; said to be a guess where there are none.

Lives here: seconds by number of days with an interval, rows and bytes. Does not live here: the real figures afterwards,
which are the plan's own receipts (`plan_progress`). Processor seconds go with seconds, as past receipts tell them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import add
from statistics import median

from backfill_assets.core.plans import ChunkKind, PlanChunk, Price, TableImpact
from backfill_assets.core.states import States
from backfill_assets.lake.store import Commit

GUESS_FIXED_SECONDS, GUESS_DAY_SECONDS = 2.0, 0.05  # a small table on two cores
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
    processor seconds per second (None: no receipt tells).

    Of a size that was never written nobody knows how much of the seconds is fixed: then the interval also holds what
    seconds per day alone would say (`per_day_alone`: least, most).
    """

    fixed: float
    per_day: float
    factor: float
    day_rows: float
    row_bytes: float
    writes: int
    sizes: tuple[int, int] = (0, 10**9)
    per_day_alone: tuple[float, float] = (0.0, 0.0)
    busy: float | None = None

    def price(self, days: int, rows: int | None = None) -> Price:
        """The price of one write of so many days; of none it is nothing."""
        if not days:
            return Price(0.0, 0.0, 0.0, 0, 0, max(self.writes, 1), 0.0)
        seconds = self.fixed + self.per_day * days
        told = round(self.day_rows * days) if rows is None else rows
        least, most = seconds / self.factor, seconds * self.factor
        if UNLIKE * days < self.sizes[0]:
            least = min(least, self.per_day_alone[0] * days)
        elif days > UNLIKE * self.sizes[1]:
            most = max(most, self.per_day_alone[1] * days)
        cpu = seconds * self.busy if self.busy is not None else None
        return Price(seconds, least, most, told, round(told * self.row_bytes), self.writes, cpu)


def model_of(log: Sequence[Commit], row_bytes: float) -> Model:
    """What the table's receipts teach. Only writes that made rows count: a receipt alone costs next to nothing."""
    made = [c.receipt for c in log if c.receipt is not None and c.receipt.seconds is not None and c.receipt.days]
    made = made[-NEWEST_WRITES:]
    points = [(len(r.days), float(r.seconds or 0)) for r in made]
    rows = sum(e.rows for r in made for e in r.days.values())
    day_rows = rows / max(sum(n for n, _ in points), 1)
    if not points:
        return Model(GUESS_FIXED_SECONDS, GUESS_DAY_SECONDS, GUESS_FACTOR, day_rows, row_bytes, 0)
    fixed, per_day = _fitted(points)
    off = sorted(max(s, 0.05) / max(fixed + per_day * n, 0.05) for n, s in points)
    cut = len(off) // ENOUGH_WRITES  # of many writes the oddest are left out at each end
    seen = max(off[-1 - cut], 1 / off[cut])
    unsure = 1 + (GUESS_FACTOR - 1) / (1 + len(points)) if len(points) < ENOUGH_WRITES else 1.0
    busy = [float(r.cpu_seconds) / max(float(r.seconds or 0), 0.05) for r in made if r.cpu_seconds is not None]
    sizes, alone = [n for n, _ in points], [s / n for n, s in points]
    return Model(
        fixed, per_day, max(LEAST_FACTOR, seen * unsure), day_rows, row_bytes, len(points),
        (min(sizes), max(sizes)), (min(alone) / LEAST_FACTOR, max(alone) * LEAST_FACTOR),
        median(busy) if busy else None,
    )  # fmt: skip


def _fitted(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Fixed seconds and seconds per day, neither below nothing: by medians, so that one cold start teaches nothing.

    Seconds per day are the median slope between writes of unlike size (Theil and Sen); without such, a guess.
    """
    slopes = [(s - t) / (n - m) for i, (n, s) in enumerate(points) for m, t in points[:i] if n != m]
    per_day = max(median(slopes), 0.0) if len(slopes) >= FEWEST_SLOPES else GUESS_DAY_SECONDS
    per_day = min(per_day, median([s / n for n, s in points]))
    return max(median([s - per_day * n for n, s in points]), 0.0), per_day


def priced(
    states: States, found: Iterable[TableImpact], chunks: Sequence[PlanChunk], models: Mapping[str, Model]
) -> tuple[dict[str, Price], dict[int, Price]]:
    """The price per table and per chunk. The seams cost nothing where nothing follows, which nobody knows before."""
    per_table: dict[str, Price] = {}
    per_chunk: dict[int, list[Price]] = {c.number: [] for c in chunks}
    for impact in found:
        days = impact.days()
        worked = [c for c in chunks if c.kind is not ChunkKind.SEAMS]
        prices = {c.number: _one(states, impact.table, models, [d for d in c.days if d in days]) for c in worked}
        for number, price in prices.items():
            per_chunk[number].append(price)
        if days:
            per_table[impact.table] = reduce(add, prices.values())
    return per_table, {number: reduce(add, prices) for number, prices in per_chunk.items() if prices}


def _one(states: States, table: str, models: Mapping[str, Model], days: Sequence[date]) -> Price:
    """The price of one write: rows of days that are there as they are, of others as of an ordinary day."""
    model, stamps = models[table], states.view.table(table).stamps
    known = [stamps[d].entry.rows for d in days if d in stamps]
    rows = sum(known) + round(model.day_rows * (len(days) - len(known)))
    return model.price(len(days), rows)
