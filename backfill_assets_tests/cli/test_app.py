"""The command line as a person meets it: help, errors read aloud, exit codes. No JVM."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli.app import app
from backfill_assets.core.days import ONE_DAY
from backfill_assets_tests.operations.synthetic import START, build, synthetic_lake
from backfill_assets_tests.processes import CHECKOUT, run_python


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


def read(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        found.append((*path, name))
        if isinstance(command, click.Group):
            found += _commands(command, (*path, name))
    return found


@pytest.mark.parametrize("command", _commands(app), ids=" ".join)
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_help_imports_nothing_heavy() -> None:
    code = """
        import sys
        from backfill_assets.cli.app import app
        app(["--help"], standalone_mode=False)
        print(sorted({"pyspark", "dagster", "deltalake", "pyarrow", "pydantic", "rich"} & set(sys.modules)))
    """
    assert run_python(code).splitlines()[-1] == "[]"


def test_the_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "backfill_assets", "--help"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: backfill-assets ")


def test_a_lake_that_does_not_exist_is_told_with_the_commands_that_make_one(tmp_path: Path) -> None:
    result = run("status", "--lake", tmp_path / "none")
    assert result.exit_code == 2
    assert "`backfill-assets init`" in result.stderr
    assert "`backfill-assets demo`" in result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1


def test_the_lake_may_be_named_before_and_after_the_verb_and_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic_lake(tmp_path / "a", 1)
    synthetic_lake(tmp_path / "b", 2)
    monkeypatch.setenv("BACKFILL_ASSETS_LAKE", str(tmp_path / "b"))
    assert read(run("status", "--json"))["to"] == str(START + ONE_DAY)
    assert read(run("--lake", tmp_path / "a", "status", "--json"))["to"] == str(START)
    assert read(run("--lake", tmp_path / "b", "status", "--json", "--lake", tmp_path / "a"))["to"] == str(START)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--from", "2024-2-3", "--to", "2024-02-04"), "not a date of the form YYYY-MM-DD"),
        (("--from", "2024-03-02", "--to", "2024-03-01"), "Give the earlier day first"),
        (("--from", "2024-01-01", "--to", "2024-03-01"), "before the lake's first day, 2024-02-26"),
        (("--from", "2024-02-26", "--to", "9999-01-01"), "is not over yet (UTC)"),
        (("--from", "2024-02-26", "--to", "2024-02-27", "--tables", "raw,nix"), "no table nix; this lake has raw, "),
    ],
)
def test_what_cannot_be_backfilled_is_refused_before_anything_starts(
    tmp_path: Path, args: tuple[str, ...], told: str
) -> None:
    synthetic_lake(tmp_path, 1)
    result = run("backfill", "--lake", tmp_path, *args)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_today_is_not_over(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 1)
    result = run("backfill", "--lake", tmp_path, "--from", START, "--to", datetime.now(UTC).date())
    assert (result.exit_code, "is not over yet" in result.stderr) == (2, True)


def test_status_draws_days_and_tables_and_collapses_long_spans(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 50)
    lines = run("status", "--lake", tmp_path).stdout.splitlines()
    assert lines[1].startswith("2024-02-26..2024-04-15 (50 days)  fresh 150 v1")
    assert len(run("status", "--lake", tmp_path, "--every-day").stdout.splitlines()) == len(lines) + 49
    assert "frontier: 2024-04-16T00:00:00Z" in lines


def test_status_finds_something_only_when_asked_to_check(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 4)
    assert run("status", "--lake", tmp_path, "--check").exit_code == 0
    build(lake, pipeline, "staging", {START: 4})
    assert run("status", "--lake", tmp_path).exit_code == 0
    assert run("status", "--lake", tmp_path, "--check").exit_code == 1
    stale = run("status", "--lake", tmp_path, "--stale").stdout
    assert "features 2024-02-26..2024-02-28: its inputs changed since" in stale
    assert "backfill --from 2024-02-26 --to 2024-02-28 --tables features,labels" in stale


def test_show_tells_people_and_programs_the_same(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 2)
    told = run("show", "staging", START, "--lake", tmp_path)
    assert told.stdout.startswith(f"staging {START}: fresh\n  rows      3, built complete")
    assert read(run("show", "staging", START, "--lake", tmp_path, "--json"))["receipt"]["rows"] == 3
    assert run("show", "nix", START, "--lake", tmp_path).exit_code == 2


def test_doctor_ends_with_one_when_something_is_broken(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 1)
    (lake.table_path("staging") / f"event_date={START}/part-1.parquet").unlink()
    result = run("doctor", "--deep", "--lake", tmp_path)
    assert result.exit_code == 1
    assert "error the table staging: 1 data file(s)" in result.stdout
    assert "not read while something is broken" in result.stderr


def test_the_server_of_another_engine_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic_lake(tmp_path, 1)
    assert read(run("server", "status", "--json", "--lake", tmp_path)) == {"running": False}
    assert "not running" in run("server", "stop", "--lake", tmp_path).stdout
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", "local[2]")
    assert run("server", "start", "--lake", tmp_path).exit_code == 2


@pytest.mark.parametrize("command", [("server", "status"), ("doctor",), ("status",)])
def test_no_command_prints_the_token_of_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    synthetic_lake(tmp_path, 1)
    for engine in ("sc://host:15002/;token=hunter2", "sc:/host/;token=hunter2"):  # the second is refused
        monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", engine)
        result = run(*command, "--lake", tmp_path)
        assert "hunter2" not in result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("command", [("scan",), ("landing", "accept", "--note", "x"), ("backfill",)])
def test_a_lake_that_cannot_be_written_is_one_line_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    lake, _ = synthetic_lake(tmp_path, 1)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "nowhere"))
    shutil.rmtree(lake.locks, ignore_errors=True)
    lake.locks.write_text("a file, so that no folder can be made there")
    days = ("--from", str(START), "--to", str(START)) if command == ("backfill",) else ()
    monkeypatch.setattr("backfill_assets.cli.backfill.work", lambda lake, asked: lake.locks.mkdir())
    result = run(*command, *days, "--lake", tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Error: {lake.locks}: file exists. What was being done was not finished. ")
