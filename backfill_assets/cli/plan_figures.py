"""The figures of a plan as people read them: what it was said to cost, and beside that what it did cost.

Lives here: lines and cells. Does not live here: the page around them (`plan_page`), and the figures themselves
(`operations.plan_price`, `operations.plan_besides`, `operations.plan_progress`).
"""

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from backfill_assets.cli.drawing import number, size
from backfill_assets.core.plans import Plan, Price

if TYPE_CHECKING:
    from backfill_assets.operations.plan_progress import Progress, Took


def total(plan: Plan) -> Price:
    """The price of all chunks."""
    return reduce(add, plan.prices.values(), Price(0.0, 0.0, 0.0, 0, 0, 10**9, 0.0))


def so_far(now: "Progress") -> str:
    """What the chunks that wrote something took, beside what these were said to cost; empty where none did."""
    done = [c for c in now.chunks if c.seconds is not None]
    if not done:
        return ""
    cpu = [c.cpu for c in done if c.cpu is not None]
    expected = sum(c.price.seconds for c in done if c.price)
    rows = number(sum(c.rows or 0 for c in done))
    took = cost(sum(c.seconds or 0.0 for c in done), sum(cpu) if cpu else None)
    told = [c.bytes for c in done if c.bytes is not None]
    brought = f", {size(sum(told))}" if told else ""
    return f"; {len(done)} of {len(now.chunks)} took {took} for {rows} rows{brought}, expected {expected:.0f} s"


def besides(now: "Progress") -> Iterator[str]:
    """What no chunk is charged with, and all of it together."""
    plan = now.plan
    for name, price in sorted(plan.besides.items(), reverse=True):  # the engine is opened before there is a run
        spent = f"; took {now.besides[name]:.1f} s" if name in now.besides else ""
        yield f"{name}: {_seconds(price)}{spent}"
    if plan.besides:
        done = sum(c.seconds or 0.0 for c in now.chunks) + sum(now.besides.values())
        everything = reduce(add, plan.besides.values(), total(plan))
        yield f"in all: {_seconds(everything)}{f'; took {done:.1f} s' if done else ''}"


def whole_cost(took: "Took | None") -> str:
    """The real figures of a table, as its price has them."""
    if took is None:
        return "-"
    brought = f", {size(took.bytes)}" if took.bytes is not None else ""
    return f"{cost(took.seconds, took.cpu)}, {number(took.rows)} rows{brought}"


def cost(seconds: float | None, cpu: float | None) -> str:
    """The real figures, e.g. `12.3 s (20.1 s CPU)`."""
    return "-" if seconds is None else f"{seconds:.1f} s" + (f" ({cpu:.1f} s CPU)" if cpu is not None else "")


def priced(price: Price | None) -> str:
    """What a price says, e.g. `27 s (10..75), 40 s CPU, 1,026 rows, 12 kB`."""
    if price is None or not price.most:
        return "nothing"
    cpu = f", {price.cpu:.0f} s CPU" if price.cpu is not None else ""
    brings = f", {size(price.bytes)}" if price.bytes else ""
    return f"{_seconds(price)}{cpu}, {number(price.rows)} rows{brings}"


def _seconds(price: Price) -> str:
    """E.g. `27 s (10..75, a guess)`."""
    return f"{price.seconds:.0f} s ({price.least:.0f}..{price.most:.0f}{', a guess' if price.is_guess else ''})"
