"""Lab `late-fact`: a sale of Monday arrives on Wednesday; Monday's total by arrival time, by event time, and rebuilt.

Not here: how late rows come in a lake of one's own (`operations.lateness`).
"""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from backfill_assets.core.days import DayRange, ranges
from backfill_assets.labs.lakes import first_events, land, load, make_lake, totals
from backfill_assets.labs.model import LabStep
from backfill_assets.pipeline.chosen import chosen_pipeline

MONDAY, TUESDAY, WEDNESDAY, END = (date(2024, 3, 4) + timedelta(days=n) for n in range(4))
SALES = {  # by the evening of their arrival: key, instant of the sale, amount
    MONDAY: [("a", f"{MONDAY} 09:00:00", 100), ("b", f"{MONDAY} 15:00:00", 100)],
    TUESDAY: [("c", f"{TUESDAY} 11:00:00", 70)],
    WEDNESDAY: [("d", f"{WEDNESDAY} 10:00:00", 80), ("late", f"{MONDAY} 23:00:00", 50)],
}
WHY = {
    "arrival time": "The sale counts on the day it came: Monday is too low and Wednesday too high, for ever.",
    "event time, each day once": "Monday was computed before the sale came, and nobody computes it again.",
    "event time, late days again": "The ledger of arrivals names the event days of a delivery.",
}


def steps(folder: Path) -> Iterator[LabStep]:
    """Load each evening what arrived, and look at Monday three ways after Wednesday."""
    lake, once = make_lake(folder, MONDAY), dict[date, int]()
    table, landed = first_events(lake), chosen_pipeline(lake).contracts[0]
    for evening, sales in SALES.items():
        land(lake, str(evening), f"{evening} 20:00:00", sales)
        done = load(lake, DayRange(MONDAY, evening + timedelta(days=1)))
        once = {**totals(lake, table), **once}
    found = [totals(lake, landed), once, totals(lake, table, "known_until IS NULL")]
    rows = [(way, *(by_day[d] for d in SALES)) for way, by_day in zip(WHY, found, strict=True)]
    text = (
        f"On Monday 250 were sold, 50 of it known since Wednesday. Its load wrote {ranges(done[table.name].changed)}."
    )
    yield LabStep("Totals on Wednesday night", text, ("total by", "Monday", "Tuesday", "Wednesday"), rows)
    for (way, why), by_day in zip(WHY.items(), found, strict=True):
        yield LabStep(f"By {way}", why, form=f"Monday by {way}", expected=250, found=by_day[MONDAY])
