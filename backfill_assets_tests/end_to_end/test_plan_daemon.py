"""Dagster's real daemon runs a plan that was asked for, and goes on with one whose runner was
killed.

Tested here: `run PLAN --daemon`, and SIGKILL of `run PLAN` after its first chunk, with nobody at
the keyboard then, on an instance of one's own that keeps Dagster's launcher. Not tested here: which
plans are left alone (`plans/test_plan_job.py`).
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.end_to_end.typed import (
    PATIENCE_SECONDS,
    answer,
    chunks_of,
    command,
    content,
    days_lake,
    told_file,
)
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.processes import CHECKOUT, until

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("daemons")]
DAYS = 3
SPAN = f"2024-03-01..2024-03-0{DAYS}"
INSTANCE = """
run_queue: {dequeue_interval_seconds: 1}
run_monitoring: {enabled: true, poll_interval_seconds: 10}
"""


@pytest.fixture
def spark_server(tmp_path: Path) -> Iterator[Lake]:
    """A lake of three days that is made, with its daemon running; both are stopped at the end."""
    lake = days_lake(tmp_path, DAYS)
    make_home(tmp_path, INSTANCE)
    answer(lake, "backfill", "--from", "2024-03-01", "--to", f"2024-03-0{DAYS}")
    env = {
        **os.environ,
        "DAGSTER_HOME": str(tmp_path),
        "BACKFILL_ASSETS_LAKE": str(lake.root),
        "PYTHONPATH": str(CHECKOUT),
    }
    program = [
        str(Path(sys.executable).with_name("dagster-daemon")),
        "run",
        "-m",
        "backfill_assets.definitions",
    ]
    with (tmp_path / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(
            program, cwd=CHECKOUT, env=env, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield lake
        finally:
            os.killpg(daemon.pid, signal.SIGTERM)
            daemon.wait(60)
            stop_server(lake.root, force=True)


def ended(lake: Lake, plan: str) -> bool:
    return bool(answer(lake, "plan", "show", plan)["state"] == "finished")


def test_the_daemon_runs_what_was_asked_for_and_what_a_killed_runner_left(
    spark_server: Lake, tmp_path: Path
) -> None:
    lake, log = spark_server, tmp_path / "daemon.log"
    before = content(lake)
    asked = [
        "plan",
        "--partitions",
        SPAN,
        "--chunk",
        "1d",
        "--canary",
        "0",
        "--tables",
        "raw,staging",
        "--force",
    ]
    first = answer(lake, *asked)["id"]
    assert answer(lake, "run", first, "--daemon")["state"] == "active"
    until(lambda: ended(lake, first), log, PATIENCE_SECONDS)
    second = answer(lake, *asked)["id"]
    with command(lake, "run", second) as killed:
        until(lambda: chunks_of(lake, "staging", second) != [], told_file(lake), PATIENCE_SECONDS)
        killed.send_signal(signal.SIGKILL)
    until(lambda: ended(lake, second), log, PATIENCE_SECONDS)
    for plan in (first, second):
        assert chunks_of(lake, "staging", plan) == ["1", "2", "3"]
    assert content(lake) == before
