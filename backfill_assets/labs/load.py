"""Lab `load`: the same three days written three times by append and by replacing each day; the totals tell.

Not here: the incident that this mistake becomes (`incident`).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backfill_assets.labs.lakes import append, events, first_events, make_lake, replace_by_day, totals
from backfill_assets.labs.model import LabStep

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
ORDERS = events((NOON + timedelta(days=n // 2), 100 + 10 * n) for n in range(6))
RUNS = {"first run": ORDERS, "run that died after a day": ORDERS[:2], "the same run again": ORDERS}


def steps(folder: Path) -> Iterator[LabStep]:
    """Write six orders of three days by each strategy: whole, by a run that dies half-way, and once more."""
    right = sum(row["value"] for row in ORDERS)
    for form, write in (("append", append), ("replace each day", replace_by_day)):
        lake = make_lake(folder / form, NOON.date())
        table, seen = first_events(lake), list[tuple[object, ...]]()
        for run, rows in RUNS.items():
            write(lake, table, rows)
            found = totals(lake, table)
            seen.append((run, *found.values(), sum(found.values())))
        commits = sum(c.receipt is not None for c in lake.store.commits(table.name))
        text = f"The orders are the same at each run. {commits} commit(s) carry a receipt."
        columns = ("total after the", *map(str, found), "all")
        yield LabStep(f"Strategy: {form}", text, columns, seen, form, right, seen[-1][-1])
