"""The sample lake: made, kept, replaced, never confused with a person's own.

Lives here: that, and the whole way on Sail, without Java. On Spark the README is run
(`end_to_end.test_readme`).
"""

import json
import subprocess
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets.engines.sail import no_isolation_reason
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.learn.demo_command import prepare_sample
from backfill_assets.learn.example_lakes import MARKER, days_until
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.processes import run

TABLES = ["raw", "staging", "features", "features_as_known", "labels", "training"]


def test_a_sample_of_days_that_are_not_over_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["demo", "--to", str(utc_today()), "--lake", str(tmp_path / "new")]
    )
    assert (done.exit_code, "is not over yet (UTC)" in done.output) == (2, True)
    assert not (tmp_path / "new").exists()


def test_a_new_sample_replaces_an_old_one(tmp_path: Path) -> None:
    days = days_until(date(2024, 3, 15), 14)
    assert prepare_sample(tmp_path, days, new=False).last == date(2024, 3, 14)
    old = {"first": "2020-01-01", "end": "2020-02-01"}
    (tmp_path / MARKER).write_text(json.dumps(old))
    (tmp_path / "tables").mkdir()
    assert prepare_sample(tmp_path, days, new=False) == DayRange(date(2020, 1, 1), date(2020, 2, 1))
    assert prepare_sample(tmp_path, days, new=True) == days
    assert not (tmp_path / "tables").exists()


def _command(lake: Path, *args: str, **around: str) -> "subprocess.CompletedProcess[str]":
    env = {
        "DAGSTER_HOME": str(lake.parent / "dagster"),
        "BACKFILL_ASSETS_LAKE": str(lake),
        **around,
    }
    return run("-m", "backfill_assets", *args, env=env, timeout=900)


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_the_sample_on_sail_prints_its_tables_and_both_runs_without_java(tmp_path: Path) -> None:
    if why := no_isolation_reason():
        pytest.skip(why)
    lake = tmp_path / "lake"
    make_home(tmp_path / "dagster")
    try:
        done = _command(
            lake, "demo", "--days", "14", "--engine", "sail", JAVA_HOME=str(tmp_path / "no java")
        )
        assert done.returncode == 0, done.stderr
        header, *lines = done.stdout.splitlines()
        assert header.split() == ["rows", "of", *TABLES]
        days = lines[: lines.index("")]
        assert [d.split()[0] for d in days[-2:]] == [
            str(open_lake(lake).settings.start_date + 13 * ONE_DAY),
            "all",
        ]
        took = lines[lines.index(next(line for line in lines if "first run" in line)) + 1 :][
            : len(TABLES) + 1
        ]
        assert [line.split()[0] for line in took] == [*TABLES, "the"]
        assert all("14 of 14 changed" in line and "0 of 14 changed" in line for line in took[:-1])
        first = open_lake(lake).settings.start_date
        last, week = first + 13 * ONE_DAY, first + 7 * ONE_DAY
        assert lines[-2].endswith(f"backfill-assets show staging {last}")
        assert lines[-1].endswith(f"plan --from {week} --to {last} --tables staging --force")
        other = _command(lake, "demo", "--engine", "embedded")
        assert (other.returncode, other.stdout) == (2, "")
        assert (
            "its engine is sail, not embedded. Nothing was done. Add --new for a fresh one"
            in other.stderr
        )
    finally:
        _command(lake, "server", "stop", "--force")
