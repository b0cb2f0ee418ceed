"""Labs about loads: `load`, `late-fact`, `watermark` and `incident`, each the unsafe form beside the safe one.

The same days by append and by replacing each day; a sale of Monday that arrives on Wednesday; the usual script that
takes rows beyond its mark, on sqlite; three years doubled by a job that was green. Not here: late rows of a lake of
one's own (`operations.lateness`), and the alert that a control becomes (`orchestration.lake_definitions`).
"""

import inspect
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from backfill_assets.core.days import DayRange, ranges
from backfill_assets.labs.lakes import (
    append,
    events,
    first_events,
    land,
    load,
    make_lake,
    replace_by_day,
    totals,
    with_control,
)
from backfill_assets.labs.model import LabStep
from backfill_assets.operations.reconcile import judge_controls
from backfill_assets.pipeline.chosen import chosen_pipeline

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
ORDERS = events((NOON + timedelta(days=n // 2), 100 + 10 * n) for n in range(6))
RUNS = {"first run": ORDERS, "run that died after a day": ORDERS[:2], "the same run again": ORDERS}


def load_steps(folder: Path) -> Iterator[LabStep]:
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


def late_fact_steps(folder: Path) -> Iterator[LabStep]:
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


DAY = date(2024, 3, 1)
BATCHES = (  # rows in the order of their commits at the source: key, instant, value (powers of two tell who is missing)
    (("a", f"{DAY} 10:00:00", 1), ("b", f"{DAY} 10:05:00", 2)),
    (("same-time", f"{DAY} 10:05:00", 4), ("late", f"{DAY} 09:00:00", 8), ("c", f"{DAY} 10:10:00", 16)),
    (("d", f"{DAY} 10:20:00", 32),),
)
TABLES = "CREATE TABLE source (key, at, value); CREATE TABLE target (key, at, value); CREATE TABLE marks (at)"


def usual_script(db: sqlite3.Connection, killed: bool = False) -> None:
    """Copy what is newer than the mark, then move the mark."""
    (mark,) = db.execute("SELECT coalesce(max(at), '') FROM marks").fetchone()
    new = db.execute("SELECT * FROM source WHERE at > ?", (mark,)).fetchall()
    db.executemany("INSERT INTO target VALUES (?, ?, ?)", new)
    db.commit()
    if killed:
        return
    db.execute("INSERT INTO marks SELECT max(at) FROM target")
    db.commit()


def watermark_steps(folder: Path) -> Iterator[LabStep]:
    """Give both sides three batches; the third run is killed and repeated, and its file is sent twice."""
    lake, right, rows, keys = make_lake(folder, DAY), 0, list[tuple[int, int, int, int]](), Counter[str]()
    yield LabStep("The usual script", inspect.getsource(usual_script))
    with closing(sqlite3.connect(folder / "usual.sqlite")) as db:
        db.executescript(TABLES)
        for number, batch in enumerate(BATCHES, 1):
            db.executemany("INSERT INTO source VALUES (?, ?, ?)", batch)
            for killed in (True, False) if batch is BATCHES[-1] else (False,):
                usual_script(db, killed)
                land(lake, f"batch-{number}-{killed}", f"{DAY} 11:0{number}:00", batch)
            load(lake, DayRange(DAY, date(2024, 3, 2)))
            theirs = db.execute("SELECT key, value FROM target").fetchall()
            right, keys = right + sum(value for *_, value in batch), Counter(key for key, _ in theirs)
            ours = totals(lake, first_events(lake), "known_until IS NULL").total()
            rows.append((number, right, sum(value for _, value in theirs), ours))
    lost = ", ".join(key for batch in BATCHES for key, *_ in batch if key not in keys)
    again = ", ".join(key for key, times in keys.items() if times > 1)
    text = (
        f"The script lacks {lost}: one row is late, one has the time of the mark. It has {again} twice: it was killed "
    )
    text += "between the rows and the mark. With >= in place of > it would repeat b at every run."
    yield LabStep("Three batches", text, ("batch", "right total", "script", "lake"), rows)
    yield LabStep("The script", form="the script's total", expected=right, found=rows[-1][2])
    text = "A lake takes whole files, each row once by its key, and rebuilds the event days that they touch."
    yield LabStep("The lake", text, form="the lake's total", expected=right, found=rows[-1][3])


FIRST, EVENTS, DAYS_APART = datetime(2021, 1, 1, 12, tzinfo=UTC), 36, 30
ROWS = events((FIRST + timedelta(days=DAYS_APART * n), 1) for n in range(EVENTS))
BY_YEAR = "SELECT date_trunc('year', event_date) AS month, count(*) AS value FROM {} GROUP BY 1"


def incident_steps(folder: Path) -> Iterator[LabStep]:
    """Write three years, replace them by the product's own writer, then append them as the job did."""
    lake = make_lake(folder, FIRST.date())
    table, known = first_events(lake), Counter(f"{row['event_date']:%Y-01}" for row in ROWS)
    lake = with_control(lake, "events_a_year", BY_YEAR, "month", dict(known))
    seen = []
    for run, write in (("first run", replace_by_day), ("replaced again", replace_by_day), ("appended", append)):
        write(lake, table, ROWS)
        (control,) = judge_controls(lake, chosen_pipeline(lake))
        foreign = lake.store.view(table.name, table.day_column).foreign
        seen.append((run, len(lake.store.rows(table.name)), control.message, len(foreign)))
    columns = ("run", "events", "control", "days changed by others")
    yield LabStep(
        "Three years, three times", "Each job ended with success and raised no alert of its own.", columns, seen
    )
    yield LabStep("Replaced", "", form="events after a backfill that replaces", expected=EVENTS, found=seen[1][1])
    text = "The control names the years; `plan --write-mode append` is refused."
    yield LabStep("Appended", text, form="events after a backfill by append", expected=EVENTS, found=seen[2][1])


STEPS = {
    "load": load_steps,
    "late-fact": late_fact_steps,
    "watermark": watermark_steps,
    "incident": incident_steps,
}
