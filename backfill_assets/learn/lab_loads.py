"""Labs about loads and backfills: `load`, `late-fact`, `watermark`, `incident`, `mistakes`, each
beside the safe form.

The same days by append and by replacing each day; a sale of Monday that arrives on Wednesday; the
usual script that takes rows beyond its mark, on sqlite; three years doubled by a job that was
green; four ways to spoil a backfill. Not here: late rows of a lake of one's own
(`reports.lateness`), the alert that a control becomes (`reconcile.in_dagster`), and
the same checks of a plan of one's own (`plans.preflight`).
"""

import inspect
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb

from backfill_assets.kernel.core.days import ONE_DAY, DayRange, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.learn.lab import LabStep
from backfill_assets.learn.lab_lakes import (
    add_control,
    append_foreign_rows,
    daily_totals,
    event_rows,
    first_events,
    land_file,
    load_days,
    make_lake,
    replace_by_day,
)
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.plans.plan import PlanRequest, append_error, cut_chunks, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.reading.outcomes import judge_all_controls

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
ORDERS = event_rows((NOON + timedelta(days=n // 2), 100 + 10 * n) for n in range(6))
RUNS = {"first run": ORDERS, "run that died after a day": ORDERS[:2], "the same run again": ORDERS}


def load_steps(folder: Path) -> Iterator[LabStep]:
    """Write six orders of three days by each strategy: whole, by a run that dies half-way, and once
    more."""
    right = sum(row["value"] for row in ORDERS)
    for form, write in (("append", append_foreign_rows), ("replace each day", replace_by_day)):
        lake = make_lake(folder / form, NOON.date())
        table, seen = first_events(lake), list[tuple[object, ...]]()
        for run, rows in RUNS.items():
            write(lake, table, rows)
            found = daily_totals(lake, table)
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
    "arrival time": "The sale counts on the day it came: Monday is too low and Wednesday too high, "
    "for "
    "ever.",
    "event time, each day once": "Monday was computed before the sale came, and nobody computes it "
    "again.",
    "event time, late days again": "The ledger of arrivals names the event days of a delivery.",
}


def late_fact_steps(folder: Path) -> Iterator[LabStep]:
    """Load each evening what arrived, and look at Monday three ways after Wednesday."""
    lake, once = make_lake(folder, MONDAY), dict[date, int]()
    table, landed = first_events(lake), chosen_pipeline(lake).contracts[0]
    for evening, sales in SALES.items():
        land_file(lake, str(evening), f"{evening} 20:00:00", sales)
        done = load_days(lake, DayRange(MONDAY, evening + timedelta(days=1)))
        once = {**daily_totals(lake, table), **once}
    found = [daily_totals(lake, landed), once, daily_totals(lake, table, "known_until IS NULL")]
    rows = [(way, *(by_day[d] for d in SALES)) for way, by_day in zip(WHY, found, strict=True)]
    text = (
        "On Monday 250 were sold, 50 of it known since Wednesday. Its load wrote "
        f"{ranges_text(done[table.name].changed)}."
    )
    yield LabStep(
        "Totals on Wednesday night", text, ("total by", "Monday", "Tuesday", "Wednesday"), rows
    )
    for (way, why), by_day in zip(WHY.items(), found, strict=True):
        yield LabStep(f"By {way}", why, form=f"Monday by {way}", expected=250, found=by_day[MONDAY])


DAY = date(2024, 3, 1)
# Rows in the order of their commits at the source: key, instant, value (powers of two tell who is
# missing).
BATCHES = (
    (("a", f"{DAY} 10:00:00", 1), ("b", f"{DAY} 10:05:00", 2)),
    (
        ("same-time", f"{DAY} 10:05:00", 4),
        ("late", f"{DAY} 09:00:00", 8),
        ("c", f"{DAY} 10:10:00", 16),
    ),
    (("d", f"{DAY} 10:20:00", 32),),
)
TABLES = (
    "CREATE TABLE source (key, at, value); CREATE TABLE target (key, at, value); CREATE TABLE "
    "marks (at)"
)


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
    """Give both sides three batches; the third run is killed and repeated, and its file is sent
    twice."""
    lake, right, rows, keys = (
        make_lake(folder, DAY),
        0,
        list[tuple[int, int, int, int]](),
        Counter[str](),
    )
    yield LabStep("The usual script", inspect.getsource(usual_script))
    with closing(sqlite3.connect(folder / "usual.sqlite")) as db:
        db.executescript(TABLES)
        for number, batch in enumerate(BATCHES, 1):
            db.executemany("INSERT INTO source VALUES (?, ?, ?)", batch)
            for killed in (True, False) if batch is BATCHES[-1] else (False,):
                usual_script(db, killed)
                land_file(lake, f"batch-{number}-{killed}", f"{DAY} 11:0{number}:00", batch)
            load_days(lake, DayRange(DAY, date(2024, 3, 2)))
            theirs = db.execute("SELECT key, value FROM target").fetchall()
            right, keys = (
                right + sum(value for *_, value in batch),
                Counter(key for key, _ in theirs),
            )
            ours = daily_totals(lake, first_events(lake), "known_until IS NULL").total()
            rows.append((number, right, sum(value for _, value in theirs), ours))
    lost = ", ".join(key for batch in BATCHES for key, *_ in batch if key not in keys)
    again = ", ".join(key for key, times in keys.items() if times > 1)
    text = (
        f"The script lacks {lost}: one row is late, one has the time of the mark. It has {again} "
        "twice: it was killed "
    )
    text += "between the rows and the mark. With >= in place of > it would repeat b at every run."
    yield LabStep("Three batches", text, ("batch", "right total", "script", "lake"), rows)
    yield LabStep("The script", form="the script's total", expected=right, found=rows[-1][2])
    text = (
        "A lake takes whole files, each row once by its key, and rebuilds the event days that "
        "they touch."
    )
    yield LabStep("The lake", text, form="the lake's total", expected=right, found=rows[-1][3])


FIRST, EVENTS, DAYS_APART = datetime(2021, 1, 1, 12, tzinfo=UTC), 36, 30
ROWS = event_rows((FIRST + timedelta(days=DAYS_APART * n), 1) for n in range(EVENTS))
BY_YEAR = "SELECT date_trunc('year', event_date) AS month, count(*) AS value FROM {} GROUP BY 1"


def incident_steps(folder: Path) -> Iterator[LabStep]:
    """Write three years, replace them by the product's own writer, then append them as the job
    did."""
    lake = make_lake(folder, FIRST.date())
    table, known = first_events(lake), Counter(f"{row['event_date']:%Y-01}" for row in ROWS)
    lake = add_control(lake, "events_a_year", BY_YEAR, "month", dict(known))
    seen = []
    for run, write in (
        ("first run", replace_by_day),
        ("replaced again", replace_by_day),
        ("appended", append_foreign_rows),
    ):
        write(lake, table, ROWS)
        (control,) = judge_all_controls(lake, chosen_pipeline(lake))
        foreign = lake.store.view(table.name, table.day_column).foreign
        seen.append((run, len(lake.store.rows(table.name)), control.message, len(foreign)))
    columns = ("run", "events", "control", "days changed by others")
    yield LabStep(
        "Three years, three times",
        "Each job ended with success and raised no alert of its own.",
        columns,
        seen,
    )
    yield LabStep(
        "Replaced",
        "",
        form="events after a backfill that replaces",
        expected=EVENTS,
        found=seen[1][1],
    )
    text = "The control names the years; `plan --write-mode append` is refused."
    yield LabStep(
        "Appended",
        text,
        form="events after a backfill by append",
        expected=EVENTS,
        found=seen[2][1],
    )


FIRST_OF_NINETY, NINETY = date(2024, 1, 1), 90
FIRST_NOON, SPAN = (
    datetime(2024, 1, 1, 12, tzinfo=UTC),
    DayRange(FIRST_OF_NINETY, FIRST_OF_NINETY + ONE_DAY * NINETY),
)
RIGHT = [100 + n for n in range(NINETY)]
BY_DAY = "SELECT event_date AS day, sum(value)::BIGINT AS value FROM {} GROUP BY 1"
SQL = {
    "now()": f"epoch_us(now()) - epoch_us(TIMESTAMP '{FIRST_OF_NINETY}')",
    "its day": f"DATE '{SPAN.last}' - DATE '{FIRST_OF_NINETY}'",
}


def mistakes_steps(folder: Path) -> Iterator[LabStep]:
    """Commit the four mistakes on a lake of ninety days, an event each, whose sums by day and of
    all are known."""
    known = {str(FIRST_OF_NINETY + ONE_DAY * n): value for n, value in enumerate(RIGHT)}
    lake = add_control(make_lake(folder, FIRST_OF_NINETY), "each_day", BY_DAY, "day", known)
    for mistake in (_append_correction, _one_huge_run, _totals_only):
        _write_values(lake, RIGHT)
        yield from mistake(lake)
    yield from _compute_by_clock()


def _write_values(lake: Lake, values: Sequence[int], days: DayRange = SPAN) -> None:
    rows = event_rows((FIRST_NOON + timedelta(days=n), value) for n, value in enumerate(values))
    replace_by_day(lake, first_events(lake), [r for r in rows if r["event_date"] in days])


def _wrong_day_count(lake: Lake) -> int:
    return judge_all_controls(lake, chosen_pipeline(lake))[0].broken


def _append_correction(lake: Lake) -> Iterator[LabStep]:
    """Yield the sum of a day after its correction is appended, and after the day is replaced."""
    append_foreign_rows(
        lake, first_events(lake), event_rows([(FIRST_NOON, RIGHT[0] - 20)], "again")
    )
    found, right = daily_totals(lake, first_events(lake)).total(), sum(RIGHT) - 20
    text = (
        "An event of 100 is corrected to 80. Who appends the correction counts both; who replaces "
        "the day does not."
    )
    yield LabStep(
        "Append for corrections", text, form="the sum after an append", expected=right, found=found
    )
    _write_values(lake, [RIGHT[0] - 20, *RIGHT[1:]])
    found = daily_totals(lake, first_events(lake)).total()
    yield LabStep(
        "", str(append_error()), form="the sum after a replace", expected=right, found=found
    )


def _one_huge_run(lake: Lake) -> Iterator[LabStep]:
    """Yield how many days a wrong release spoils: in one run over all days, and in chunks, where a
    plan would stop after the first."""
    text = "A release gives cents. One run rebuilds ninety days before anybody looks."
    cents = [value * 100 for value in RIGHT]
    _write_values(lake, cents)
    yield LabStep(
        "One huge run", text, form="wrong days of one run", expected=1, found=_wrong_day_count(lake)
    )
    _write_values(lake, RIGHT)
    for chunk in cut_chunks(SPAN, Policy(chunk="7d")):
        _write_values(lake, cents, chunk.days)
        if found := _wrong_day_count(lake):
            break
    refusal, request = "", PlanRequest(SPAN, (first_events(lake).name,), Policy(chunk="90d"))
    try:
        make_plan(lake, chosen_pipeline(lake), request)
    except BackfillError as error:
        refusal = str(error)
    yield LabStep(
        "",
        f"A plan stops after its canary. {refusal}",
        form="wrong days of a plan",
        expected=1,
        found=found,
    )


def _totals_only(lake: Lake) -> Iterator[LabStep]:
    """Yield how many wrong days the sum of all days shows where two days swapped their rows:
    none."""
    _write_values(lake, [RIGHT[1], RIGHT[0], *RIGHT[2:]])
    found = 0 if daily_totals(lake, first_events(lake)).total() == sum(RIGHT) else 2
    text = "A time zone moved the rows of two days. The sum of all days is what it was."
    yield LabStep("Totals only", text, form="wrong days by the total", expected=2, found=found)
    yield LabStep(
        "", form="wrong days by the sums of each day", expected=2, found=_wrong_day_count(lake)
    )


def _compute_by_clock() -> Iterator[LabStep]:
    why = "The load refuses such a transform before it runs, and names the call."
    for by, sql in SQL.items():
        found = []
        for _ in range(2):
            with closing(duckdb.connect()) as engine:
                found += [age for (age,) in engine.execute(f"SELECT {sql}").fetchall()]
        title, text = (
            ("now() in a transform", why)
            if by == "now()"
            else ("", "Days and times come from the chunk.")
        )
        yield LabStep(
            title, text, form=f"an age by {by}, computed again", expected=found[0], found=found[1]
        )


STEPS = {
    "load": load_steps,
    "late-fact": late_fact_steps,
    "watermark": watermark_steps,
    "incident": incident_steps,
    "mistakes": mistakes_steps,
}
