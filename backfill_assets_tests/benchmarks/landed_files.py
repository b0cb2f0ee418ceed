"""What a look, a tick and a new file cost by the number of files that ever landed.

Lives here: lakes of made-up ledgers without an engine, each step in a process of its own, with CPU
and the peak of memory. Does not live here: any assertion on figures, and whether the landed days
are right (`intake.test_landed_days`). "all rows" is what every look did before receipts named the
landed days.

usage: python -m backfill_assets_tests.benchmarks.landed_files [FILES ...]
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.landed_changes import compare_sources, counting_digest, listing_beside
from backfill_assets.intake.landed_days import append_events
from backfill_assets.intake.ledger import read_files
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline

FIRST, A_DAY, AT_ONCE = date(2014, 1, 1), 500, 50_000
BYTES, WRITTEN_NS = 100, 1  # of each file
SETTINGS = f"""start_date = {FIRST}
[source]
files = "landing/**/*.csv"
format = "csv"
select = "id AS event_key, CAST(at AS timestamp) AS event_ts, who AS entity, 1 AS value, 0 AS flag"
"""


def lake_of(home: Path, files: int) -> None:
    """A lake in whose ledger so many files landed, `A_DAY` a day."""
    (home / "landing").mkdir(parents=True)
    (home / "lake.toml").write_text(SETTINGS)
    lake = open_lake(home)
    for first in range(0, files, AT_ONCE):
        append(lake, first, min(first + AT_ONCE, files))
    for number in range(files):
        landed = home / "landing" / _path(number)
        landed.parent.mkdir(exist_ok=True)
        landed.touch()
        os.truncate(landed, BYTES)
        os.utime(landed, ns=(0, WRITTEN_NS))


def append(lake: Lake, first: int, last: int) -> None:
    """Append the landings of files with these numbers, as a scan does."""
    today = counting_digest(lake.settings)
    append_events(lake, [_landing(number, today) for number in range(first, last)], "scan", "")


def _path(number: int) -> str:
    return f"dt={_day(number)}/part-{number:08d}.csv"


def _day(number: int) -> date:
    return FIRST + timedelta(days=number // A_DAY)


def _landing(number: int, today: str) -> tuple[object, ...]:
    day, now = _day(number), datetime.now(UTC)
    content = hashlib.sha256(str(number).encode()).hexdigest()
    counts, file = (9, 0, 9), (BYTES, WRITTEN_NS, now, day)
    return ("landed", _path(number), content, day, *counts, *file, now, today, None)


def look(home: Path, _files: int) -> None:
    """What every command and tick reads of a lake."""
    lake = open_lake(home)
    read_view(lake, chosen_pipeline(lake).contracts)


def comparison(home: Path, _files: int) -> None:
    """The landing folder against the ledger, as a scan and a tick ask for it; nothing is new."""
    assert compare_sources(LakeSession(open_lake(home))).is_scanned


def listing(home: Path, _files: int) -> None:
    """The landing folder alone."""
    listing_beside(LakeSession(open_lake(home)), ())


def all_rows(home: Path, _files: int) -> None:
    """The whole ledger as records, which every look read before."""
    read_files(open_lake(home).store)


def new_files(home: Path, files: int) -> None:
    """Ten new files are recorded."""
    append(open_lake(home), files, files + 10)


STEPS: dict[str, Callable[[Path, int], None]] = {
    "look": look,
    "listing": listing,
    "comparison": comparison,
    "new files": new_files,
    "all rows": all_rows,
}


def measured(step: str, home: Path, files: int) -> None:
    """Print what a step of this process costs: CPU seconds, and MiB above the imports."""
    chosen_pipeline(open_lake(home))
    base, began = _peak(), time.process_time()
    STEPS[step](home, files)
    print(json.dumps([round(time.process_time() - began, 2), (_peak() - base) >> 10]))


def _peak() -> int:
    """KiB, of this program alone: `getrusage` begins with the peak of the program before it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def main(sizes: list[int]) -> None:
    """Print a table of all steps at these numbers of files."""
    for files in sizes:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder, "lake")
            began = time.process_time()
            lake_of(home, files)
            print(f"{files:,} files (recorded in {time.process_time() - began:.1f} CPU s)")
            for step in STEPS:
                command = [sys.executable, "-m", __spec__.name, step, str(home), str(files)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                cpu, mib = json.loads(done.stdout.splitlines()[-1])
                print(f"  {step}: {cpu} CPU s, {mib} MiB more", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in STEPS:
        measured(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main([int(text.replace("_", "")) for text in sys.argv[1:]] or [2_000, 100_000])
