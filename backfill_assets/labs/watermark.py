"""Lab `watermark`: the usual script that takes rows beyond its mark, on sqlite, beside a lake that gets the same rows.

Not here: watermarks of lateness (`operations.lateness`), which decide nothing about what is loaded.
"""

import inspect
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path

from backfill_assets.core.days import DayRange
from backfill_assets.labs.lakes import first_events, land, load, make_lake
from backfill_assets.labs.model import LabStep

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


def _by_script(db: sqlite3.Connection, batch: Sequence[tuple[str, str, int]], killed: bool) -> list[tuple[str, int]]:
    db.executemany("INSERT INTO source VALUES (?, ?, ?)", batch)
    usual_script(db, killed)
    if killed:
        usual_script(db)
    return db.execute("SELECT key, value FROM target").fetchall()


def steps(folder: Path) -> Iterator[LabStep]:
    """Give both sides three batches; the third run is killed and repeated."""
    lake = make_lake(folder, DAY)
    events = first_events(lake)
    yield LabStep("The usual script", inspect.getsource(usual_script))
    rows, right, keys = [], 0, list[str]()
    with closing(sqlite3.connect(folder / "usual.sqlite")) as db:
        db.executescript(TABLES)
        for number, batch in enumerate(BATCHES, 1):
            right += sum(value for *_, value in batch)
            theirs = _by_script(db, batch, killed=number == len(BATCHES))
            land(lake, f"batch-{number}", f"{DAY} 11:0{number}:00", batch)
            if number == len(BATCHES):  # the sender tries again, too
                land(lake, f"batch-{number}-again", f"{DAY} 11:0{number}:30", batch)
            load(lake, DayRange(DAY, date(2024, 3, 2)))
            ours = lake.store.rows(events.name, columns=("event_key", "value"), where="known_until IS NULL")
            keys = [key for key, _ in theirs]
            rows.append((number, right, sum(v for _, v in theirs), sum(r["value"] for r in ours)))
    names = [key for batch in BATCHES for key, *_ in batch]
    lost = ", ".join(n for n in names if n not in keys)
    again = ", ".join(sorted({n for n in keys if keys.count(n) > 1}))
    yield LabStep(
        "Three batches",
        f"The script lacks {lost}: one row is late, one has the time of the mark. It has {again} twice: it was killed "
        "between the rows and the mark. With >= in place of > it would repeat b at every run.",
        ("batch", "right total", "script", "lake"), rows,
    )  # fmt: skip
    yield LabStep("The script", form="the script's total", expected=right, found=rows[-1][2])
    told = "A lake takes whole files, each once by its content, and rebuilds the event days that they touch."
    yield LabStep("The lake", told, form="the lake's total", expected=right, found=rows[-1][3])
