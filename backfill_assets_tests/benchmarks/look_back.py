"""Exact repair beside a fixed look-back of 3 and 7 days: rows wrong at the end of the same landings.

Lives here: openstack_changes loaded up to T1, then its first LANDINGS later arrival days one by one, for raw and
staging only, once with `policy = "exact"` and once per look-back with `policy = "rolling"`. Does not live here: any
assertion.

usage: python -m backfill_assets_tests.benchmarks.look_back DIR [LANDINGS]
"""

import json
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

import dagster as dg

from backfill_assets.core.days import from_inclusive, parse_day
from backfill_assets.engine.server import stop_server
from backfill_assets.lake.home import open_lake
from backfill_assets.lake.model import Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.benchmarks.replay import NAME, SHARED, deliveries
from backfill_assets_tests.daemon import Daemon
from backfill_assets_tests.end_to_end.replay import by_event_day
from backfill_assets_tests.end_to_end.worlds import World, by_arrival, land, make_world
from backfill_assets_tests.oracle import Row, Rules, staged

FIRST = date(2013, 10, 1)
POLICIES = {"exact": "", "look-back of 3 days": "3", "look-back of 7 days": "7"}


def raw_and_staging(settings: LakeSettings) -> Sequence[Table]:
    """The first two tables: what a look-back misses is missing there first."""
    return tables(settings)[:2]


def main(root: Path, landings: int) -> None:
    """A line per policy: rows of staging that differ from the truth, event days they lie on, and the cost."""
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    params = json.loads((SHARED / "data" / NAME / "golden.json").read_text())["params"]
    split = parse_day(params["T1"])
    days = by_arrival(deliveries())
    before = [r for d, rows in days.items() if d < split for r in rows]
    later = [(d, days[d]) for d in sorted(days) if d >= split][:landings]
    rules = Rules(
        parse_day("2013-10-01"),
        datetime.fromisoformat(params["T"]),
        date(2015, 12, 31),
        (7, 28),
        early_tolerance_days=60,
    )
    for name, look_back in POLICIES.items():
        world = make_world(root / name.replace(" ", "-"), rules, "parquet", as_of=False, more="")
        world = World(world.root, raw_and_staging)
        if look_back:
            path = world.root / "lake.toml"
            rolling = f'[lateness]\npolicy = "rolling"\nrolling_days = {look_back}'
            path.write_text(path.read_text().replace("[lateness]", rolling))
        began = time.perf_counter()
        _replay(world, root, before, later)
        _tell(name, world, [*before, *(r for _, rows in later for r in rows)], time.perf_counter() - began)
        stop_server(world.root, force=True)


def _replay(world: World, root: Path, before: list[Row], later: list[tuple[date, list[Row]]]) -> None:
    land(world, "0000.parquet", before)
    world.backfill(from_inclusive(FIRST, date(2015, 9, 30)))
    with dg.DagsterInstance.local_temp(str(root)) as instance:
        daemon = Daemon(open_lake(world.root), instance, raw_and_staging)
        for number, (_, rows) in enumerate(later, 1):
            land(world, f"{number:04d}.parquet", rows)
            daemon.settle()


def _tell(name: str, world: World, rows: list[Row], seconds: float) -> None:
    truth, found = by_event_day(staged(rows)), by_event_day(world.content("staging"))
    wrong, on_days = 0, 0
    for day in truth.keys() | found.keys():
        want, got = ({tuple(map(str, r.values())) for r in side.get(day, [])} for side in (truth, found))
        wrong += len(want ^ got)
        on_days += want != got
    print(f"{name:20s} {wrong:6d} rows wrong or missing on {on_days} event days, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 30)
