"""Three processes write one table at once, a commit per day: no acknowledged write is lost, the table reads whole.

Lives here: the race through the product's only writer, on both kinds of engine. Does not live here: locks alone
(`lake.test_lock`). $BACKFILL_ASSETS_RACE_COMMITS says how many commits each process makes; the default of 5 is a smoke
test that takes seconds, the known losses of Delta on a local disk (facts: B1) were measured with 100.
"""

import os
import subprocess
import sys
from datetime import date, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import parse_receipt
from backfill_assets.lake.server import stop_server
from backfill_assets_tests.end_to_end.worlds import make_world
from backfill_assets_tests.oracle import Rules
from backfill_assets_tests.processes import CHECKOUT

WRITERS = 3
COMMITS = int(os.environ.get("BACKFILL_ASSETS_RACE_COMMITS", "5"))
START = date(2024, 1, 1)
SECONDS_PER_COMMIT = 30  # two cores that run other JVMs have taken ten
WRITER = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from backfill_assets_tests.end_to_end.test_races import write_days
write_days(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
"""
ENGINES = {
    "embedded": '[spark]\nmemory = "1g"\nidle_minutes = 1\n',
    "classic": '[spark]\nengine = "local[1]"\nmemory = "512m"\n',
}


def write_days(root: Path, writer: int, commits: int) -> None:
    """One commit per day, each by `publish`; prints the id of every write that it acknowledged."""
    from backfill_assets.core.profiles import DayProfile
    from backfill_assets.core.receipts import DayEntry
    from backfill_assets.lake.profile import conform, profile
    from backfill_assets.lake.replace import Provenance, Write, publish
    from backfill_assets.lake.spark import small_frame
    from backfill_assets_tests.builders import STAGING
    from backfill_assets_tests.end_to_end.worlds import World

    workshop, _ = World(root).open()
    for n in range(commits):
        day = START + ONE_DAY * (writer + WRITERS * n)
        rows = small_frame(workshop.session(), [(f"w{writer}", n, day)], "entity string, value bigint, event_date date")
        frame = conform(rows, STAGING)
        found: DayProfile = profile(frame, STAGING)[day]
        entry = DayEntry(found.rows, found.fingerprint, f"{writer}-{n}")
        done = publish(
            workshop, Write(STAGING, frame, {day: entry}, -1, Provenance("race")), lambda days: dict.fromkeys(days, "")
        )
        print(done.write_id, flush=True)


@pytest.fixture
def spark_server() -> None:
    """Says that the test starts engines of its own."""


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_no_acknowledged_commit_of_three_processes_is_lost(tmp_path: Path, spark_server: None, engine: str) -> None:
    rules = Rules(START, datetime.fromisoformat("2025-01-01"), START)
    world = make_world(tmp_path, rules, more=ENGINES[engine])
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(world.root), str(n), str(COMMITS)],
            cwd=CHECKOUT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for n in range(WRITERS)
    ]  # fmt: skip
    try:
        told = [p.communicate(timeout=180 + WRITERS * COMMITS * SECONDS_PER_COMMIT) for p in started]
    finally:
        for process in started:
            process.kill()
        stop_server(world.root, force=True)
    assert not [stderr for process, (_, stderr) in zip(started, told, strict=True) if process.returncode]
    acknowledged = [line for stdout, _ in told for line in stdout.split()]
    assert len(acknowledged) == len(set(acknowledged)) == WRITERS * COMMITS
    table = DeltaTable(str(world.root / "tables" / "staging"))
    recorded = [r.write_id for commit in table.history() if (r := parse_receipt(commit.get("userMetadata")))]
    assert sorted(recorded) == sorted(acknowledged)
    assert table.version() == WRITERS * COMMITS  # version 0 made the table
    wanted = sorted((f"w{w}", n, START + ONE_DAY * (w + WRITERS * n)) for w in range(WRITERS) for n in range(COMMITS))
    found = table.to_pyarrow_table().to_pylist()
    assert sorted((r["entity"], r["value"], r["event_date"]) for r in found) == wanted
