"""What a catch-up would make now, table by table: which days, why, and about how long it takes.

Here: plain values with their lines, for launchpads and pages of runs. Not here: which days need a
rebuild (`kernel.core.needs`), prices (`plans`) and reasons (`reports`), which are left out where
those rooms are not installed, and making the days (`catching_up`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass
from datetime import date
from typing import Any

from backfill_assets.kernel.core.calendars import counts_text
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.claims import days_of_active_plans
from backfill_assets.reading.downstream import stale_after_needed

SHOWN_RANGES = 4
NOTHING = "nothing: every day before today (UTC) that can be is up to date"
BriefReason = Callable[[States, str, date, State], str]
PriceDays = Callable[[Lake, str, int], Any]  # a price with `seconds` and `writes`


@dataclass(frozen=True)
class NeededDays:
    """The days of a table that need a rebuild."""

    table: str
    days: frozenset[date]
    why: str  # the reason of most of them
    other_reasons: int = 0  # how many days have another one
    # Days that become stale where the days before them, or of inputs, come out otherwise.
    may_follow: int = 0
    seconds: float | None = None  # at the averages of past writes; None: nobody prices
    is_guess: bool = False  # the table has no past write with a time
    left_to: str = ""  # who makes them in place of a catch-up
    unit: str = "day"  # what each of them is, e.g. `month`

    def __str__(self) -> str:
        """The table, its days, why, and the time, as one line."""
        unit = self.unit if len(self.days) == 1 else f"{self.unit}s"
        parts = [f"{self.table}: {len(self.days)} {unit}, {ranges_text(self.days, SHOWN_RANGES)}"]
        if self.days and self.why:
            others = f" (and {self.other_reasons} otherwise)" if self.other_reasons else ""
            parts.append(f"{self.why}{others}")
        if self.seconds is not None and not self.left_to:
            parts.append(f"{_seconds_text(self.seconds)}{' (a guess)' if self.is_guess else ''}")
        if self.may_follow:
            parts.append(f"up to {self.may_follow} more may follow")
        if self.left_to:
            parts.append(f"left to {self.left_to}")
        return "; ".join(parts)


def needed_days_of(
    lake: Lake, states: States, tables: Collection[str] | None = None
) -> list[NeededDays]:
    """Return the days that need a rebuild, upstream first, without tables that need none; of
    `tables` only, unless that is None. Reads states, logs for prices, and marks of plans; no
    engine."""
    found, follows = rebuild_needs(states, {}, utc_today()), stale_after_needed(states)
    planned = days_of_active_plans(lake)
    needed = list[NeededDays]()
    for name, days in found.needed.items():
        if tables is not None and name not in tables:
            continue
        kept = planned.get(name, set())
        made_by = states.contracts[name].made_by
        asset = f"the asset {made_by}" if made_by else ""
        parts = {"an active plan": days & kept, asset: days - kept}
        for left_to, part in parts.items():
            if part:
                needed.append(_needed_part(lake, states, name, part, left_to, follows[name]))
    return needed


def _needed_part(
    lake: Lake, states: States, table: str, days: Set[date], left_to: str, follows: Set[date]
) -> NeededDays:
    """Return these days of a table with their reasons and their price."""
    reasons = Counter(_day_reasons(states, table, days))
    why, count = reasons.most_common(1)[0]
    price_days: PriceDays | None = offered_function("price_days")
    price = price_days(lake, table, len(days)) if price_days is not None else None
    return NeededDays(
        table,
        frozenset(days),
        why,
        other_reasons=len(days) - count,
        may_follow=len(follows),
        seconds=None if price is None else price.seconds,
        is_guess=price is not None and not price.writes,
        left_to=left_to,
        unit=states.contracts[table].calendar.unit,
    )


def _day_reasons(states: States, table: str, days: Collection[date]) -> Iterator[str]:
    """Yield the reason of each day; its state where no room has reasons."""
    brief_reason: BriefReason | None = offered_function("brief_reason")
    for day in sorted(days):
        state = states.of(table, day)
        yield state.value if brief_reason is None else brief_reason(states, table, day, state)


def needed_lines(needed: Collection[NeededDays]) -> list[str]:
    """Return a line per table and one with the sum of days and seconds; one that says so where
    nothing is needed."""
    made = [part for part in needed if not part.left_to]
    if not needed:
        return [NOTHING]
    counts = Counter[str]()
    for part in made:
        counts[part.unit] += len(part.days)
    seconds = [part.seconds for part in made if part.seconds is not None]
    took = f", {_seconds_text(sum(seconds))}" if seconds else ""
    return [*map(str, needed), f"in all: {counts_text(counts)} of {len(made)} table(s){took}"]


def _seconds_text(seconds: float) -> str:
    """Return the time to compute, write and check, without the start of a run and its engine."""
    return f"about {seconds:.0f} s to compute" if seconds >= 1 else "under 1 s to compute"


def with_inputs(states: States, tables: Collection[str]) -> list[str]:
    """Return these tables and all that they are made from, upstream first."""
    wanted = set(tables)
    for name in reversed([*states.contracts]):
        if name in wanted:
            wanted.update(read.table for read in states.contracts[name].inputs)
    return [name for name in states.contracts if name in wanted]
