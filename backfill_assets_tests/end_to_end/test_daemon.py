"""The real daemon of Dagster, with nobody at the keyboard: what lands is loaded, what it touches is rebuilt.

Tested here: sensors, queue, run processes and the shared server together, with the instance that is shipped. Not tested
here: what a tick decides (`orchestration.test_ticks`), every way it can be killed (`test_late_data`), and an instance
that keeps Dagster's own launcher (`test_plan_daemon`).
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.core.states import State
from backfill_assets.engine.server import stop_server
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import make_pipeline
from backfill_assets.operations.status import status
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.lakes import content, data_files, delivery, land, make_lake
from backfill_assets_tests.processes import CHECKOUT, until

pytestmark = pytest.mark.users_do

PATIENCE_SECONDS = 420.0  # a dozen run processes on two cores that may run other things
UNDONE = (State.STALE, State.MISSING)


@pytest.fixture
def spark_server(tmp_path: Path) -> Iterator[Lake]:
    """A lake of three days with its daemon running; both are stopped at the end."""
    rows = [delivery(n, f"2024-03-0{n} 10:00:00", None, f"k{n}") for n in (1, 2, 3)]
    lake = make_lake(tmp_path / "lake", rows, "2024-03-01", spark={"engine": "embedded", "memory": "1g"})
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(CHECKOUT / "dagster.yaml", home)
    env = {**os.environ, "DAGSTER_HOME": str(home), "BACKFILL_ASSETS_LAKE": str(lake.root), "PYTHONPATH": str(CHECKOUT)}
    log = (tmp_path / "daemon.log").open("w")
    command = [str(Path(sys.executable).with_name("dagster-daemon")), "run", "-m", "backfill_assets.definitions"]
    daemon = subprocess.Popen(command, cwd=home, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield lake
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait(60)
        log.close()
        stop_server(lake.root, force=True)


def undone(lake: Lake) -> dict[tuple[str, date], State]:
    """The days of built tables that are stale or missing, and raw days with files that are not loaded."""
    report = status(lake, make_pipeline(tables(lake.settings)))
    return {(d.table, d.day): d.state for d in report if d.state in UNDONE}


def test_what_lands_is_loaded_and_exactly_what_it_touches_is_rebuilt_by_the_daemon_alone(
    spark_server: Lake, tmp_path: Path
) -> None:
    lake, log = spark_server, tmp_path / "daemon.log"
    until(lambda: len(content(lake, "training")) > 0 and not undone(lake), log, PATIENCE_SECONDS)
    before = data_files(lake, "staging")
    land(lake, "late.jsonl", [delivery(9, "2024-03-03 23:00:00", "2024-03-01 12:00:00", "late")])
    until(lambda: len(content(lake, "staging")) == 4 and not undone(lake), log, PATIENCE_SECONDS)
    after = data_files(lake, "staging")
    assert {d for d in after if after[d] != before.get(d)} == {date(2024, 3, 1)}
