"""Dagster's records in PostgreSQL, by the `dagster.yaml` that `production --postgres` prints, as on
a server.

Tested here: what a run records, what the doctor says, and a run that SIGKILL ended after its
commit. Not tested here: other moments of a death (`test_killed`), a server's other processes
(`test_plan_daemon`), exports.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.metadata import WRITE_ID, unfolded_metadata
from backfill_assets.dagster.adapter.reconcile import reconcile
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.lakes import delivery, land, make_lake
from backfill_assets_tests.postgres import postgres_server
from backfill_assets_tests.processes import run as run_process

pytestmark = [pytest.mark.usefixtures("spark", "processes", "storages"), pytest.mark.slow]
pytest.importorskip("dagster_postgres", reason="dagster-postgres is not installed")
DAYS = (date(2024, 3, 1), date(2024, 3, 2))
TABLES = ("raw", "staging")
RUN = """
import os, signal, sys
from pathlib import Path
import dagster as dg
import backfill_assets.kernel.tables.store as store_module
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.lakes import run_rebuild

lake, kills = open_lake(Path(sys.argv[1])), sys.argv[2] == "killed"
real = store_module.commit_files

def commit(path, *rest):
    version = real(path, *rest)
    if kills and path.name == "staging":
        os.kill(os.getpid(), signal.SIGKILL)
    return version

store_module.commit_files = commit
with dg.DagsterInstance.get() as instance:
    done = run_rebuild(lake, "2024-03-01", "2024-03-02", instance, ("raw", "staging"))
    print("success", done.success)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of DAGSTER_HOME, whose storage is a new database."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    with postgres_server() as address:
        monkeypatch.setenv(
            "DAGSTER_POSTGRES_URL", address.replace("postgresql:", "postgresql+psycopg2:")
        )
        (tmp_path / "dagster.yaml").write_text(run("production", "--postgres").stdout)
        yield tmp_path


def recorded(instance: dg.DagsterInstance, table: str) -> dict[str, Any]:
    """The write that Dagster names, per day."""
    records = instance.fetch_materializations(dg.AssetKey(table), limit=50).records
    made = [(str(r.partition_key), r.asset_materialization) for r in reversed(records)]
    return {d: unfolded_metadata(m.metadata)[WRITE_ID].value for d, m in made if m is not None}


def by_receipts(lake: Lake, table: str) -> dict[str, str]:
    latest = read_view(lake, chosen_pipeline(lake).contracts).table(table).latest
    return {str(day): found.write_id for day, found in latest.items()}


def test_runs_are_recorded_in_postgres_the_doctor_is_well_and_a_killed_one_is_told_from_its_receipt(
    home: Path,
) -> None:
    rows = [delivery(n, f"{day} 10:00:00", None, f"k{n}") for n, day in enumerate(DAYS, 1)]
    lake = make_lake(home / "lake", rows, DAYS[0])
    done = run_process("-c", RUN, lake.root, "whole")
    assert "success True" in done.stdout, done.stdout + done.stderr
    with dg.DagsterInstance.get() as instance:
        for storage in (instance.run_storage, instance.event_log_storage):
            assert type(storage).__module__.startswith("dagster_postgres")
        for table in TABLES:
            assert recorded(instance, table) == by_receipts(lake, table)
            assert recorded(instance, table).keys() == set(map(str, DAYS))
        told = run("doctor", "--lake", lake.root)
        assert told.exit_code == 0, told.output
        land(lake, "late.jsonl", [delivery(9, f"{DAYS[1]} 12:00:00", f"{DAYS[0]} 12:00:00", "k9")])
        assert run_process("-c", RUN, lake.root, "killed").returncode == -9
        pipeline = chosen_pipeline(lake)
        reconcile(instance, lake, pipeline.states(read_view(lake, pipeline.contracts)))
        assert recorded(instance, "staging") == by_receipts(lake, "staging")
        assert [r.status for r in instance.get_runs()] == [
            dg.DagsterRunStatus.FAILURE,
            dg.DagsterRunStatus.SUCCESS,
        ]
