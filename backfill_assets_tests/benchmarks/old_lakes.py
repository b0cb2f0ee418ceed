"""What upkeep and `--at` an instant ask of a bucket, by the number of commits and lake versions.

Lives here: lakes in a bucket of moto with a made-up history of one table, and the requests and CPU
seconds of each step, by a machine that knows nothing. Does not live here: any assertion on figures
(`end_to_end.test_bucket_requests_of_upkeep` has budgets).

usage: python -m backfill_assets_tests.benchmarks.old_lakes [COMMITS ...]
"""

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.log.log import commit_name, open_delta
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.versions import LakeVersion, entry_name, find_version
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.upkeep.maintain import maintain_tables
from backfill_assets_tests.end_to_end.test_bucket_lake import bare_bucket, machine, written
from backfill_assets_tests.stores import moto

SPAN = timedelta(days=6)  # of the history: nothing of it is thinned out


def make_older(lake: Lake, commits: int) -> None:
    """Append so many commits without a file to the table staging, and as many lake versions."""
    table, now = lake.table_place("staging"), utc_now()
    first = lake.store.head("staging") + 1

    def write_one(number: int) -> None:
        at = now - SPAN + number * SPAN / commits
        info = {"timestamp": int(at.timestamp() * 1000), "operation": "WRITE"}
        table.write(commit_name(first + number), json.dumps({"commitInfo": info}).encode())
        entry = LakeVersion(number + 1, {"staging": first + number}, at, "me", "a run", ())
        lake.place.write(entry_name(number + 1), json.dumps(json_of(entry)).encode())

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(write_one, range(commits)):
            pass
    lake.store.head("staging")
    open_delta(table).create_checkpoint()
    LOGS.keep_newest_state(table, "event_date")


def keep_up(lake: Lake) -> None:
    """Do the upkeep of a lake."""
    maintain_tables(lake, chosen_pipeline(lake))


def main(sizes: list[int]) -> None:
    """Print a table of all steps at these numbers of commits."""
    with moto() as server, tempfile.TemporaryDirectory() as folder:
        os.environ.update(server.environment)
        for commits in sizes:
            address = f"{server.new_bucket()}/lake"
            lake = bare_bucket(address, Path(folder, str(commits)))
            for value in range(3):
                written(lake, value, 0)
            make_older(lake, commits)
            print(f"{commits:,} commits and lake versions")
            for name in ("first upkeep", "upkeep after one more commit", "an instant"):
                anew = open_lake(machine(address, Path(folder, f"{commits} {name}")))
                steps: dict[str, Callable[[], object]] = {
                    "an instant": partial(find_version, anew, utc_now() - SPAN / 2)
                }
                do = steps.get(name, partial(keep_up, anew))
                server.seen()
                began = time.process_time()
                do()
                cpu = time.process_time() - began
                asked = Counter(request.partition(" ")[0] for request in server.seen())
                print(
                    f"  {name}: {asked.total()} requests {dict(asked)}, {cpu:.2f} CPU s", flush=True
                )
                written(anew, 3, 0)


if __name__ == "__main__":
    main([int(text.replace("_", "")) for text in sys.argv[1:]] or [100, 1_000, 10_000])
