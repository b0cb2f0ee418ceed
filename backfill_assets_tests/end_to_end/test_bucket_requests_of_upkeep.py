"""What upkeep and `--at` an instant ask of a store, as moto counts it, as a lake gets older.

Lives here: budgets of one table and its lake versions. Does not live here: what upkeep does
(`upkeep`), and other sizes (`benchmarks.old_lakes`).
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.versions import find_version
from backfill_assets_tests.benchmarks.old_lakes import keep_up, make_older
from backfill_assets_tests.end_to_end.test_bucket_lake import bare_bucket, machine, written
from backfill_assets_tests.end_to_end.test_bucket_requests import counted
from backfill_assets_tests.stores import StoreServer

pytestmark = pytest.mark.long

UPKEEP, INSTANT = 115, 15


@pytest.mark.slow
def test_upkeep_and_an_instant_ask_no_more_however_many_commits_and_lake_versions_there_are(
    moto_server: StoreServer, bucket_address: str, tmp_path: Path
) -> None:
    """The first upkeep reads what there is; each later one what is new. Most requests ask whether the
    lake's other tables and ledgers are there."""
    found = dict[int, dict[str, int]]()
    for commits in (100, 300):
        address = f"{bucket_address}/{commits}"
        lake = bare_bucket(address, tmp_path / str(commits))
        for value in range(3):
            written(lake, value, 0)
        make_older(lake, commits)
        keep_up(lake)
        written(lake, 3, 0)
        anew = open_lake(machine(address, tmp_path / f"anew {commits}"))
        steps: dict[str, Callable[[], object]] = {
            "upkeep": partial(keep_up, anew),
            "an instant": partial(find_version, anew, utc_now() - timedelta(days=3)),
        }
        found[commits] = {name: counted(moto_server, do).total() for name, do in steps.items()}
    few, many = found.values()
    assert many["an instant"] <= INSTANT, found
    assert many["upkeep"] <= 1.1 * few["upkeep"], found
    assert many["upkeep"] <= UPKEEP, found
