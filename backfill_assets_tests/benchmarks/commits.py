"""What a commit of a receipt alone costs, and a look at the table, as its log grows.

    python -m backfill_assets_tests.benchmarks.commits [FOLDER] [LENGTHS ...]

Lives here: the measurement through the product's own store, without an engine. Does not live here: what must hold of
races and kills (`end_to_end.test_races`, `lake.test_commit_steps`). Times are of a machine that others may use:
median and 95th percentile of the last commits before each length; a look is the view of a process that reads anew.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles

from backfill_assets.core.receipts import DayEntry
from backfill_assets.lake.committer import commit_receipt
from backfill_assets.lake.home import Lake
from backfill_assets.lake.log_state import LogCache
from backfill_assets_tests.builders import STAGING, day, receipt
from backfill_assets_tests.files import bare_lake, publish_by_hand

LENGTHS = (10, 100, 1000, 3000)
MEASURED = 50  # commits before each length, of which figures are taken
DAYS = 90  # a receipt names one day, and the table holds so many files


def seconds_of(lake: Lake, number: int) -> tuple[float, float]:
    """The seconds that one commit of a receipt takes, lock included: of the clock, and of the processor."""
    said = receipt(write_id=f"w{number}", days={day(number % DAYS): DayEntry(1, "F", f"{number}")})
    began, used = time.perf_counter(), time.process_time()
    with lake.store.lock(STAGING.name):
        commit_receipt(lake.table_path(STAGING.name), said)
    return time.perf_counter() - began, time.process_time() - used


def measured(lake: Lake, lengths: Sequence[int]) -> Iterator[tuple[int, list[tuple[float, float]], float]]:
    """Per length of the log: that length, the seconds of the last commits, and those of a look that reads it anew."""
    publish_by_hand(lake, STAGING, [{"entity": "A", "value": n, "event_date": day(n)} for n in range(DAYS)])
    taken: list[tuple[float, float]] = []
    for length in sorted(lengths):
        while len(taken) < length:
            taken.append(seconds_of(lake, len(taken)))
        began = time.perf_counter()
        LogCache().state(lake.table_path(STAGING.name), STAGING.day_column)
        yield length, taken[-MEASURED:], time.perf_counter() - began


def main(folder: Path, lengths: Sequence[int]) -> None:
    """Measure in a new lake in `folder`, and print a line per length."""
    print("commits  median ms  p95 ms  greatest ms  processor ms  view ms")
    for length, taken, view in measured(bare_lake(folder), lengths):
        clock = [t for t, _ in taken]
        p95 = quantiles(clock, n=20, method="inclusive")[-1]
        figures = (median(clock), p95, max(clock), sum(used for _, used in taken) / len(taken), view)
        print(f"{length:7}", *(f"{1000 * seconds:10.1f}" for seconds in figures), flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        main(chosen, [int(n) for n in sys.argv[2:]] or LENGTHS)
