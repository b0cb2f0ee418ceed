"""Lab `watermark`: the usual script that takes rows beyond its mark, on sqlite, beside a lake that gets the same rows.

Not here: watermarks of lateness (`operations.lateness`), which decide nothing about what is loaded.
"""

import inspect
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

from backfill_assets.core.days import DayRange
from backfill_assets.labs.lakes import first_events, land, load, make_lake, totals
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


def steps(folder: Path) -> Iterator[LabStep]:
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
