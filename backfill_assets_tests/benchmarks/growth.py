"""What a look, a commit, a reader and upkeep ask of a bucket as a lake gets older: one table, by
commits, by lake versions and by days.

Lives here: each step by a machine that knows nothing, at each size, with its requests, its CPU
seconds, and how much more it asks at the greatest size than at the least. Does not live here: any
assertion on figures (`end_to_end.test_bucket_requests` and `test_bucket_requests_of_upkeep` have
budgets), files that landed (`landed_files`), and many tables (`long_logs`).

usage: python -m backfill_assets_tests.benchmarks.growth [SIZE ...]

A size counts commits with as many lake versions, and then days. 100 and 1,000 take some minutes,
most of them to make the lakes.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.versions import find_version, versions_seen
from backfill_assets_tests.benchmarks.old_lakes import keep_up, make_older
from backfill_assets_tests.end_to_end.test_bucket_lake import bare_bucket, machine, written
from backfill_assets_tests.stores import StoreServer, moto

BACK = timedelta(days=3)  # amid the made-up history


class Cost(NamedTuple):
    """What a step cost."""

    requests: int
    cpu: float  # seconds of this process

    def __str__(self) -> str:
        return f"{self.requests} requests, {self.cpu:.2f} CPU s"


def look(lake: Lake) -> None:
    """The newest receipts of all days of the table."""
    lake.store.view("staging", "event_date")


def commit(lake: Lake) -> None:
    """One commit of one day."""
    written(lake, 9, 0)


def an_instant(lake: Lake) -> None:
    """The lake version that stood some days ago."""
    find_version(lake, utc_now() - BACK)


STEPS: dict[str, Callable[[Lake], object]] = {
    "look at a table": look,
    "what readers see": versions_seen,
    "an instant": an_instant,
    "commit of a day": commit,
    "first upkeep": keep_up,
    "upkeep again": keep_up,
}


def by_commits(lake: Lake, size: int) -> None:
    """Fill a lake: so many commits, and as many lake versions, of one day."""
    written(lake, 0, 0)
    make_older(lake, size)


def by_days(lake: Lake, size: int) -> None:
    """Fill a lake: so many days by one commit."""
    written(lake, 0, *range(size))


LAKES: dict[str, Callable[[Lake, int], None]] = {
    "commits and lake versions": by_commits,
    "days": by_days,
}


def measured(
    server: StoreServer, folder: Path, fill: Callable[[Lake, int], None], size: int
) -> dict[str, Cost]:
    """The cost of each step of a new lake of this size."""
    address = f"{server.new_bucket()}/lake"
    fill(bare_bucket(address, folder / "writer"), size)
    costs = dict[str, Cost]()
    for name, step in STEPS.items():
        lake = open_lake(machine(address, folder / name))
        costs[name] = cost_of(server, partial(step, lake))
    return costs


def cost_of(server: StoreServer, do: Callable[[], object]) -> Cost:
    """What a call costs, as the server and this process count it."""
    server.seen()
    began = time.process_time()
    do()
    cpu = time.process_time() - began
    return Cost(len(server.seen()), cpu)


def print_table(title: str, sizes: Sequence[int], by_size: Sequence[dict[str, Cost]]) -> None:
    """Print a line per step: its cost at each size, and how many times as much it asks at last."""
    print(f"| by {title} | {' | '.join(f'{size:,}' for size in sizes)} | requests grow |")
    print(f"|{'---|' * (len(sizes) + 2)}")
    for name in STEPS:
        costs = [found[name] for found in by_size]
        growth = costs[-1].requests / max(costs[0].requests, 1)
        print(f"| {name} | {' | '.join(map(str, costs))} | {growth:.1f} x |")


def main(sizes: Sequence[int]) -> None:
    """Print a table for each kind of lake."""
    with moto() as server:
        os.environ.update(server.environment)
        for title, fill in LAKES.items():
            found = list[dict[str, Cost]]()
            for size in sizes:
                with tempfile.TemporaryDirectory() as folder:
                    found.append(measured(server, Path(folder), fill, size))
            print_table(title, sizes, found)
            sys.stdout.flush()


if __name__ == "__main__":
    main([int(text.replace("_", "")) for text in sys.argv[1:]] or [100, 1_000])
