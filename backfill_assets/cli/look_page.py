"""A plan's look ahead as people read it: which days gain or lose rows, which lie beyond the range, what follows.

Lives here: the lines and rows. Does not live here: looking (`operations.plan_impact`) and the rest of a plan
(`plan_page`).
"""

from collections.abc import Iterator

from backfill_assets.core.days import DayRange, contiguous
from backfill_assets.operations.plan_model import PlanLook

LOOK_COLUMNS = ("table", "day", "gains", "loses", "other content", "in the range")
LISTED_DAYS = 31


def look_rows(look: PlanLook, days: DayRange) -> list[list[str]]:
    """The days that gain or lose keys, up to a month of them, first those beyond the range."""
    moved = sorted((m for m in look.moves if m.gains or m.loses), key=lambda m: m.day in days)
    return [
        [m.table, str(m.day), f"+{m.gains}", f"-{m.loses}", str(m.changes), "yes" if m.day in days else "no"]
        for m in moved[:LISTED_DAYS]
    ]


def look_lines(look: PlanLook, days: DayRange) -> Iterator[str]:
    """What a person should know besides: sums, days beyond the range, what follows."""
    if not look.moves:
        yield "look: with today's settings what landed gives what stands there"
        return
    for table in dict.fromkeys(m.table for m in look.moves):
        mine = [m for m in look.moves if m.table == table]
        moved = sum(1 for m in mine if m.gains or m.loses)
        told = f"{moved} day(s) gain or lose rows (+{sum(m.gains for m in mine)} -{sum(m.loses for m in mine)})"
        yield f"look: {table}: {told}, {sum(m.changes for m in mine)} row(s) on {len(mine)} day(s) change content"
    if beyond := look.beyond(days):
        first, last = min(beyond[0], days.start), max(beyond[-1], days.last)
        spans = ", ".join(map(str, contiguous(beyond)))
        yield f"beyond the range: {spans} gain or lose rows too; plan --from {first} --to {last} to make them with it"
    for table, follows in look.follows.items():
        yield f"follows from these: {table} {', '.join(map(str, follows))}"
