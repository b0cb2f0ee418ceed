"""Processes that die at the worst moment: right before a commit, and right after it.

Tested here: on one embedded lake, runs through Dagster in processes of their own that are ended by
SIGKILL (of the kernel, not a simulated error): what is on disk afterwards, what Dagster shows, what
a rerun does. Not tested here: other moments, and the Spark server (`test_fault_deaths`).
"""

import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets_tests.end_to_end.typed import days_lake
from backfill_assets_tests.lakes import delivery, land
from backfill_assets_tests.processes import run

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("runs that are killed")]

RUN = """
import os, signal, sys, logging
from pathlib import Path
import dagster as dg
import backfill_assets.kernel.tables.store as store_module
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.pipeline.tables import tables

root, home, moment = Path(sys.argv[1]), *sys.argv[2:]
real = store_module.commit_files

def commit(path, *rest):
    if path.name == "staging" and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    version = real(path, *rest)
    if path.name == "staging" and moment == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return version

store_module.commit_files = commit
logging.disable(logging.CRITICAL)
span = {"dagster/asset_partition_range_start": "2024-03-01", "dagster/asset_partition_range_end": "2024-03-03"}
with dg.DagsterInstance.local_temp(home) as instance:
    result = assemble(root, tables).resolve_job_def("rebuild").execute_in_process(
        instance=instance, tags=span, raise_on_error=False)
    print("success", result.success)
"""


class Killed:
    """One lake with an embedded server, its Dagster instance, and runs in processes of their
    own."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.home = days_lake(folder, 3), folder / "home"
        self.home.mkdir()

    def run(self, moment: str = "never") -> subprocess.CompletedProcess[str]:
        """A run of all days, killed at this moment of the commit of staging."""
        return run("-c", RUN, self.lake.root, self.home, moment, timeout=600)

    def receipts(self) -> list[Receipt]:
        return [c.receipt for c in self.lake.store.commits("staging") if c.receipt is not None]

    def late(self, number: int, day: str) -> None:
        """Another row of a day comes on the last one."""
        land(
            self.lake,
            f"{number}.jsonl",
            [delivery(number, "2024-03-03 12:00:00", f"{day} 12:00:00", f"k{number}")],
        )


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """A lake that was loaded once; its server ends with the module."""
    killed = Killed(tmp_path_factory.mktemp("killed"))
    done = killed.run()
    assert "success True" in done.stdout, done.stdout + done.stderr
    yield killed
    stop_server(killed.lake.root, force=True)


def test_killed_before_the_commit_the_table_is_as_it_was_and_a_rerun_writes(
    spark_server: Killed,
) -> None:
    spark_server.late(101, "2024-03-02")
    before = spark_server.receipts()
    assert spark_server.run("before").returncode == -9
    assert spark_server.receipts() == before
    again = spark_server.run()
    assert "success True" in again.stdout, again.stderr
    assert spark_server.receipts()[-1].days.keys() == {date(2024, 3, 2)}
    with dg.DagsterInstance.local_temp(str(spark_server.home)) as instance:
        assert dg.DagsterRunStatus.STARTED not in {r.status for r in instance.get_runs()}


def test_killed_after_the_commit_the_receipt_is_recorded_at_the_next_start(
    spark_server: Killed,
) -> None:
    spark_server.late(102, "2024-03-01")
    assert spark_server.run("after").returncode == -9
    newest = spark_server.receipts()[-1]
    assert newest.days.keys() == {date(2024, 3, 1)}
    again = spark_server.run()
    assert "success True" in again.stdout, again.stderr
    assert spark_server.receipts()[-1] == newest
    with dg.DagsterInstance.local_temp(str(spark_server.home)) as instance:
        wanted = dg.AssetRecordsFilter(dg.AssetKey("staging"), asset_partitions=["2024-03-01"])
        found = instance.fetch_materializations(wanted, limit=5).records
    told = [m.metadata for r in found if (m := r.asset_materialization) is not None]
    assert any("backfill_assets/recorded_from" in m for m in told)
