"""How many runs Dagster's queue has at work, with the settings that the package writes for it.

Tested here: by the times of runs that a real daemon started, that two are at once, and of a
backfill one. Not tested here: that these settings are what an instance gets
(`cli/test_dagster_home.py`).
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.cli.dagster_names import SETTINGS_OF_A_LAKE
from backfill_assets_tests.end_to_end.typed import PATIENCE_SECONDS
from backfill_assets_tests.processes import until

pytestmark = [pytest.mark.users_do, pytest.mark.usefixtures("processes")]
BACKFILL = "dagster/backfill"
TAGS: list[dict[str, str]] = [{BACKFILL: "b"}, {}, {BACKFILL: "b"}, {}]
PROJECT = f"""
import threading
import dagster as dg

@dg.op
def works() -> None:
    threading.Event().wait(3)

@dg.job
def work() -> None:
    works()

@dg.sensor(job=work, minimum_interval_seconds=3600, default_status=dg.DefaultSensorStatus.RUNNING)
def asks():
    for number, tags in enumerate({TAGS}):
        yield dg.RunRequest(run_key=str(number), tags=tags)

defs = dg.Definitions(jobs=[work], sensors=[asks])
"""


@contextmanager
def daemon_of(home: Path) -> Iterator[Path]:
    """The daemon of an instance and its log, ended afterwards."""
    (home / "dagster.yaml").write_text(
        SETTINGS_OF_A_LAKE.read_text(encoding="utf-8"), encoding="utf-8"
    )
    (home / "project.py").write_text(PROJECT, encoding="utf-8")
    program = [
        str(Path(sys.executable).with_name("dagster-daemon")),
        "run",
        "-f",
        str(home / "project.py"),
    ]
    with (home / "daemon.log").open("w") as log:
        env = {**os.environ, "DAGSTER_HOME": str(home)}
        daemon = subprocess.Popen(
            program, cwd=home, env=env, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield home / "daemon.log"
        finally:
            os.killpg(daemon.pid, signal.SIGTERM)
            daemon.wait(60)


def most_at_once(runs: list[dg.RunRecord]) -> int:
    """How many of the runs were at work at one time, at most."""
    begun = [run.start_time or 0 for run in runs]
    return max(sum((r.start_time or 0) <= time < (r.end_time or 0) for r in runs) for time in begun)


def test_two_runs_are_at_work_at_once_and_one_of_a_backfill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with daemon_of(tmp_path) as log, dg.DagsterInstance.get() as instance:
        ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS])
        until(lambda: instance.get_runs_count(ended) == len(TAGS), log, PATIENCE_SECONDS)
        runs = list(instance.get_run_records(ended))
    assert most_at_once(runs) == 2
    assert most_at_once([run for run in runs if BACKFILL in run.dagster_run.tags]) == 1
