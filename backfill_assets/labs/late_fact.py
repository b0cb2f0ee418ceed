"""Lab `late-fact`: a sale of Monday arrives on Wednesday; Monday's total by arrival time, by event time, and rebuilt.

Not here: how late rows come in a lake of one's own (`operations.lateness`).
"""

from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from backfill_assets.core.days import DayRange, ranges
from backfill_assets.labs.lakes import land, load, make_lake
from backfill_assets.labs.model import LabStep
from backfill_assets.lake.home import Lake
from backfill_assets.pipeline.chosen import chosen_pipeline

MONDAY = date(2024, 3, 4)
TUESDAY, WEDNESDAY, END = (MONDAY + timedelta(days=n) for n in (1, 2, 3))
RIGHT = 250


def totals(lake: Lake, table: str, column: str, where: str = "true") -> Counter[date]:
    """The sum of `value` per day of a table."""
    found = Counter[date]()
    for row in lake.store.rows(table, columns=(column, "value"), where=where):
        found[row[column]] += int(row["value"])
    return found


def steps(folder: Path) -> Iterator[LabStep]:
    """Load Monday and Tuesday, then Wednesday with the late sale, and look at Monday three ways."""
    lake = make_lake(folder, MONDAY)
    landed, events = chosen_pipeline(lake).contracts[:2]
    land(lake, "monday", f"{MONDAY} 20:00:00", [("a", f"{MONDAY} 09:00:00", 100), ("b", f"{MONDAY} 15:00:00", 100)])
    land(lake, "tuesday", f"{TUESDAY} 20:00:00", [("c", f"{TUESDAY} 11:00:00", 70)])
    load(lake, DayRange(MONDAY, WEDNESDAY))
    before = totals(lake, events.name, events.day_column)
    yield LabStep("Tuesday night", f"Two sales of Monday arrived, {before[MONDAY]} in all. A third one, of 50, was "
                  f"made on Monday and is still on its way: the right total is {RIGHT}.")  # fmt: skip
    late = ("late", f"{MONDAY} 23:00:00", 50)
    land(lake, "wednesday", f"{WEDNESDAY} 20:00:00", [("d", f"{WEDNESDAY} 10:00:00", 80), late])
    done = load(lake, DayRange(MONDAY, END))
    by_arrival = totals(lake, landed.name, landed.day_column)
    rebuilt = totals(lake, events.name, events.day_column, "known_until IS NULL")
    once = Counter({**before, WEDNESDAY: rebuilt[WEDNESDAY]})
    ways = {"arrival time": by_arrival, "event time, each day once": once, "event time, late days again": rebuilt}
    yield LabStep(
        "Wednesday night: the late sale is here", "Totals per day, by three ways to count it.",
        ("total by", "Monday", "Tuesday", "Wednesday"),
        [(way, *(found[d] for d in DayRange(MONDAY, END))) for way, found in ways.items()],
    )  # fmt: skip
    why = {
        "arrival time": "The sale counts on the day it came: Monday stays too low, Wednesday is too high, for ever.",
        "event time, each day once": "Monday was computed before the sale came, and nobody computes it again.",
        "event time, late days again": "The ledger of arrivals names the days that a delivery touches. The load wrote "
        f"{ranges(done[events.name].changed)}; Tuesday kept its files.",
    }
    for way, found in ways.items():
        yield LabStep(f"By {way}", why[way], form=f"Monday by {way}", expected=RIGHT, found=found[MONDAY])
