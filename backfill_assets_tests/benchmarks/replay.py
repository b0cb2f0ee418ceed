"""A real year of late data, landed day by day with only the sensors acting: `python -m ... DIR [first n landings]`.

Lives here: openstack_changes loaded up to T1, then its other arrival days one by one; per landing the runs, the changed
days, wall and JVM seconds; at the end the known answers. Does not live here: any assertion about time.
"""

import json
import logging
import sys
import time
import warnings
from datetime import date, datetime
from pathlib import Path

import dagster as dg
import duckdb
import psutil

from backfill_assets.core.days import from_inclusive, parse_day
from backfill_assets.engine.server import server_status
from backfill_assets_tests.end_to_end.replay import Replay
from backfill_assets_tests.end_to_end.test_golden import differences
from backfill_assets_tests.end_to_end.worlds import by_arrival, land, make_world
from backfill_assets_tests.oracle import COLUMNS, Row, Rules
from backfill_assets_tests.processes import CHECKOUT

SHARED = CHECKOUT.parent / "shared"
NAME = "openstack_changes"
DELIVERIES = """select seq, arrival_ts, arrival_ts as version_ts, authored_ts as event_ts,
    project || ':' || coalesce(change_id, 'sha:' || sha) as event_key, 'upsert' as op, author as entity,
    n_files as value, is_fix as flag from read_parquet(?) order by arrival_ts, seq"""


def deliveries() -> list[Row]:
    """All deliveries of the data set, in order of arrival."""
    found = duckdb.execute(DELIVERIES, [str(SHARED / "data" / NAME / "openstack_changes_2015.parquet")]).fetchall()
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def main(root: Path, landings: int) -> None:
    """Run the replay in an empty folder `root`."""
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    params = json.loads((SHARED / "data" / NAME / "golden.json").read_text())["params"]
    split, end = parse_day(params["T1"]), datetime.fromisoformat(params["T"])
    rules = Rules(
        parse_day("2013-10-01"), end, date(2015, 12, 31), (params["w1"], params["w2"]), params["grace_h"], "events",
        params["label_rule"], params["H"], params["M"], 60,
    )  # fmt: skip
    world = make_world(root / "lake", rules, "parquet", as_of=False, more="")
    toml = world.root / "lake.toml"
    # A hundred days in one hour: the cap on runs in 24 hours would rightly hold them back.
    toml.write_text(toml.read_text().replace("[lateness]\n", "[lateness]\nruns_per_day = 100000\n"))
    days = by_arrival(deliveries())
    before = [r for d, rows in days.items() if d < split for r in rows]
    land(world, "0000.parquet", before)
    began = time.perf_counter()
    world.backfill(from_inclusive(rules.start, date(2015, 9, 30)))
    print(f"history: {len(before)} rows, {time.perf_counter() - began:.1f} s", flush=True)
    with dg.DagsterInstance.local_temp(str(root)) as instance:
        replay = Replay(world, instance)
        replay.start(before)
        for day in [d for d in sorted(days) if d >= split][:landings]:
            _land(replay, day, days[day])
    changed = set().union(*(s.changed for s in replay.steps))
    print(f"{len(replay.steps)} landings, {len(replay.daemon.executed)} runs, {len(changed)} days of staging changed")
    print(differences(SHARED, NAME, world.root, "T"))


def _land(replay: Replay, day: date, rows: list[Row]) -> None:
    began, spent, here = time.perf_counter(), _jvm_seconds(replay), time.process_time()
    replay.put(rows)
    step = replay.settle()
    print(
        f"{day} {len(rows)} rows: {len(step.changed)} days of staging, {len(step.runs)} runs, "
        f"{time.perf_counter() - began:.1f} s wall, {_jvm_seconds(replay) - spent:.1f} + "
        f"{time.process_time() - here:.1f} CPU s",
        flush=True,
    )


def _jvm_seconds(replay: Replay) -> float:
    status = server_status(replay.world.root)
    if status is None:
        return 0.0
    times = psutil.Process(status.pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
