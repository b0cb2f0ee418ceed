"""What one late batch costs against the length of the history: the same batch on lakes of 90, 365 and 1,096 days.

Lives here: made-up lakes with the same rows per day, one batch of k rows on d event days, and per table the rows its
inputs hold, wall and JVM seconds. Does not live here: any assertion about time.

usage: python -m backfill_assets_tests.benchmarks.late_batch DIR [DAYS ...]
"""

import random
import sys
import time
import warnings
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.engine.server import server_status, stop_server
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.view import read_view
from backfill_assets.pipeline.contracts import raw
from backfill_assets_tests.lakes import backfill, configure, land

START, ROWS_A_DAY, BATCH_ROWS, TOUCHED_DAYS = date(2020, 1, 1), 100, 40, 4
ENGINE = {"engine": "embedded", "memory": "2g"}
REPEATS = 3  # the first warms the server up; the figures are those of the last


def main(root: Path, lengths: list[int]) -> None:
    """A line per history and table."""
    warnings.simplefilter("ignore")
    for days in lengths:
        (root / str(days) / "landing").mkdir(parents=True)
        lake = configure(root / str(days), START, spark=ENGINE, features={"windows_days": [7, 28]})
        history = DayRange(START, START + ONE_DAY * days)
        for day in history:
            land(lake, f"{day}.jsonl", [_row(n, day, day) for n in range(ROWS_A_DAY)])
        backfill(lake, history.start, history.last, ["raw", "staging"])
        for number in range(REPEATS):
            _late_batch(lake, history, number, tell=number == REPEATS - 1)
        stop_server(lake.root, force=True)


def _row(number: int, arrival: date, event: date, key: str = "") -> dict[str, Any]:
    moment, happened = (datetime.fromisoformat(f"{d} 10:00:00") + timedelta(seconds=number) for d in (arrival, event))
    return {
        "seq": number, "arrival_ts": str(moment), "version_ts": str(moment), "event_ts": str(happened),
        "event_key": key or f"{event}-{number}", "op": "upsert", "entity": f"e{number % 20}", "value": number,
        "flag": 0,
    }  # fmt: skip


def _late_batch(lake: Lake, history: DayRange, number: int, *, tell: bool) -> None:
    arrival = history.end + ONE_DAY * number
    chance = random.Random(number)
    touched = sorted(history.last - ONE_DAY * n for n in chance.sample(range(1, 60), TOUCHED_DAYS))
    rows = [_row(n, arrival, touched[n % TOUCHED_DAYS], f"late {number} {n}") for n in range(BATCH_ROWS)]
    land(lake, f"late-{number}.jsonl", rows)
    for table, days in (("raw", [arrival]), ("staging", touched), ("features", touched)):
        began, spent = time.perf_counter(), _jvm(lake)
        for day in days:
            backfill(open_lake(lake.root), day, day, [table])
        if tell:
            read = read_view(lake, [raw()]).arrivals
            listed = sum(len(read.get(d, ())) for d in days)
            print(
                f"{len(history):5d} days of history: {table:8s} {len(days)} day(s), {listed:3d} raw days listed, "
                f"{time.perf_counter() - began:5.1f} s wall, {_jvm(lake) - spent:5.1f} JVM CPU s",
                flush=True,
            )


def _jvm(lake: Lake) -> float:
    status = server_status(lake.root)
    times = psutil.Process(status.pid).cpu_times() if status else None
    return float(times.user + times.system) if times else 0.0


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(n) for n in sys.argv[2:]] or [90, 365, 1096])
