"""Processes that die at the worst moment: before a commit, after it, between raw and its ledger, and the Spark server.

Tested here: on one embedded lake, runs through Dagster in processes of their own that are ended by SIGKILL (of the
kernel, not a simulated error): what is on disk afterwards, what Dagster shows, what a rerun does. Not tested here:
refusals by checks.
"""

import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.core.receipts import Receipt
from backfill_assets.engine.server import stop_server
from backfill_assets.lake.home import open_lake
from backfill_assets_tests.logs import commits
from backfill_assets_tests.processes import run

pytestmark = pytest.mark.users_do

RUN = """
import os, signal, sys, time, logging
from pathlib import Path
import dagster as dg
import backfill_assets.lake.store as store_module
import backfill_assets.lake.writing as writing_module
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.pipeline.tables import tables

root, home, table, moment, first, last = Path(sys.argv[1]), *sys.argv[2:]
real = store_module.commit_files

def commit(path, *rest):
    if path.name != table or moment in ("never", "server"):
        return real(path, *rest)
    if moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    real(path, *rest)
    os.kill(os.getpid(), signal.SIGKILL)

def write(frame, folder, *rest):
    if table not in Path(folder).parts or moment != "server":
        return real_write(frame, folder, *rest)
    from backfill_assets.engine.server import server_status
    os.kill(server_status(root).pid, signal.SIGKILL)
    began = time.monotonic()
    try:
        return real_write(frame, folder, *rest)
    finally:
        print("noticed after", time.monotonic() - began)

real_write, writing_module.write = writing_module.write, write
store_module.commit_files = commit
logging.disable(logging.CRITICAL)
span = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
with dg.DagsterInstance.local_temp(home) as instance:
    result = assemble(root, tables).resolve_job_def("rebuild").execute_in_process(
        instance=instance, tags=span, raise_on_error=False)
    print("success", result.success)
    for event in result.all_events:
        if event.is_step_failure:
            print("cause", event.step_failure_data.user_failure_data.description)
"""
LINES = """{"seq": 1, "at": "2024-03-01 09:00:00", "key": "a", "op": "upsert", "entity": "A", "value": 1, "flag": 0}
{"seq": 2, "at": "2024-03-02 09:00:00", "key": "b", "op": "upsert", "entity": "B", "value": 2, "flag": 1}
{"seq": 3, "at": "2024-03-03 09:00:00", "key": "c", "op": "upsert", "entity": "A", "value": 3, "flag": 0}
"""
SETTINGS = """start_date = 2024-03-01
[source]
files = "landing/*.jsonl"
format = "jsonl"
select = "seq, at AS arrival_ts, at AS version_ts, at AS event_ts, key AS event_key, op, entity, value, flag"
[features]
windows_days = [1, 2]
[labels]
horizon_days = 1
maturity_days = 0
"""
FIRST, LAST = "2024-03-01", "2024-03-03"


class Killed:
    """One lake with an embedded server, its Dagster instance, and runs in processes of their own."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root / "lake", root / "home"
        (self.root / "landing").mkdir(parents=True)
        self.home.mkdir()
        (self.root / "lake.toml").write_text(SETTINGS)
        (self.root / "landing" / "a.jsonl").write_text(LINES)

    def run(self, table: str = "", moment: str = "never") -> subprocess.CompletedProcess[str]:
        return run("-c", RUN, self.root, self.home, table, moment, FIRST, LAST, timeout=600)

    def receipts(self, table: str) -> list[Receipt]:
        return [c.receipt for c in commits(self.root / "tables" / table) if c.receipt is not None]

    def more(self, line: str) -> None:
        name = f"more{len(list((self.root / 'landing').iterdir()))}.jsonl"
        (self.root / "landing" / name).write_text(line + "\n")

    def recorded(self, table: str, day: date) -> dict[str, object]:
        """The metadata of the day's newest materialization."""
        wanted = dg.AssetRecordsFilter(dg.AssetKey(table), asset_partitions=[str(day)])
        with dg.DagsterInstance.local_temp(str(self.home)) as instance:
            (record,) = instance.fetch_materializations(wanted, limit=1).records
        assert record.asset_materialization is not None
        return {k: v.value for k, v in record.asset_materialization.metadata.items()}

    def statuses(self) -> set[dg.DagsterRunStatus]:
        with dg.DagsterInstance.local_temp(str(self.home)) as instance:
            return {r.status for r in instance.get_runs()}


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """A lake that was loaded once; its server ends with the module."""
    lake = Killed(tmp_path_factory.mktemp("killed"))
    done = lake.run()
    assert "success True" in done.stdout, done.stdout + done.stderr
    yield lake
    stop_server(open_lake(lake.root).root, force=True)


def late(number: int, day: str) -> str:
    """A late row for `day` that arrived on 3 March."""
    row = f'"key": "late{number}", "op": "upsert", "entity": "A", "value": 5, "flag": 1'
    select_at = f'"seq": {100 + number}, "at": "{day} 12:00:00", {row}'
    return "{" + select_at + "}"


def test_killed_before_the_commit_the_table_is_as_it_was_and_a_rerun_writes(spark_server: Killed) -> None:
    spark_server.more(late(1, "2024-03-02"))
    before = spark_server.receipts("staging")
    done = spark_server.run("staging", "before")
    assert done.returncode == -9
    assert spark_server.receipts("staging") == before
    again = spark_server.run()
    assert "success True" in again.stdout, again.stderr
    assert spark_server.receipts("staging")[-1].days.keys() == {date(2024, 3, 2)}
    assert dg.DagsterRunStatus.STARTED not in spark_server.statuses()


def test_killed_after_the_commit_the_receipt_is_recorded_at_the_next_start(spark_server: Killed) -> None:
    spark_server.more(late(2, "2024-03-01"))
    assert spark_server.run("staging", "after").returncode == -9
    newest = spark_server.receipts("staging")[-1]
    assert newest.days.keys() == {date(2024, 3, 1)}
    again = spark_server.run()
    assert "success True" in again.stdout, again.stderr
    assert spark_server.receipts("staging")[-1] == newest
    with dg.DagsterInstance.local_temp(str(spark_server.home)) as instance:
        wanted = dg.AssetRecordsFilter(dg.AssetKey("staging"), asset_partitions=["2024-03-01"])
        found = instance.fetch_materializations(wanted, limit=5).records
    told = [m.metadata for r in found if (m := r.asset_materialization) is not None]
    assert any("backfill_assets/recorded_from" in m for m in told)
