"""Three processes write one table at once, a commit per day: no acknowledged write is lost, the
table reads whole.

Lives here: the race through the product's only writer, on days of their own, on the same days, and
on one empty day. Does not live here: locks alone (`kernel.place.test_folder`) and commits alone
(`kernel.tables.test_committer`). $BACKFILL_ASSETS_RACE_COMMITS says how many commits each process
makes; no engine takes part in a commit.
"""

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import parse_receipt
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.builders import STAGING
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.processes import PIPES, start

WRITERS = 3
COMMITS = int(os.environ.get("BACKFILL_ASSETS_RACE_COMMITS", "30"))
START = date(2024, 1, 1)
SECONDS_PER_COMMIT = 5
WRITER = """
import sys
from pathlib import Path
from backfill_assets_tests.end_to_end.test_races import write_days
write_days(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
"""
# Which day the n-th commit of a writer replaces, of how many days there are.
RACES: dict[str, Callable[[int, int], date]] = {
    "days of their own": lambda writer, n: START + ONE_DAY * (writer + WRITERS * n),
    "the same days": lambda writer, n: START + ONE_DAY * n,
    "one day": lambda writer, n: START,
}


def write_days(root: Path, writer: int, commits: int, race: str) -> None:
    """One commit per day, each by `publish`; prints the id of every write that it acknowledged."""
    lake = open_lake(root)
    for n in range(commits):
        row = {"entity": f"w{writer}", "value": n, "event_date": RACES[race](writer, n)}
        print(publish_by_hand(lake, STAGING, [row], f"{writer}-{n}").write_id, flush=True)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("race", sorted(RACES))
def test_no_acknowledged_commit_of_three_processes_is_lost(tmp_path: Path, race: str) -> None:
    lake = bare_lake(tmp_path)
    started = [
        start("-c", WRITER, lake.root, str(n), str(COMMITS), race, **PIPES) for n in range(WRITERS)
    ]
    try:
        told = [
            p.communicate(timeout=120 + WRITERS * COMMITS * SECONDS_PER_COMMIT) for p in started
        ]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * WRITERS, [
        stderr for _, stderr in told
    ]
    acknowledged = [line for stdout, _ in told for line in stdout.split()]
    assert len(acknowledged) == len(set(acknowledged)) == WRITERS * COMMITS
    table = DeltaTable(str(lake.table_place("staging").local()))
    recorded = [
        r.write_id for commit in table.history() if (r := parse_receipt(commit.get("userMetadata")))
    ]
    assert sorted(recorded) == sorted(acknowledged)
    assert table.version() == WRITERS * COMMITS  # version 0 made the table
    rows = table.to_pyarrow_table().to_pylist()
    days = {RACES[race](writer, n) for writer in range(WRITERS) for n in range(COMMITS)}
    assert sorted(r["event_date"] for r in rows) == sorted(days), (
        "every day holds one writer's row, whole"
    )
