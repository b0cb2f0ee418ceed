"""The command line as a person meets it: help, errors read aloud, exit codes. No JVM."""

import json
import re
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
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.lake.ledger import FILES, QUARANTINE
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.operations.synthetic import START, build, landed, synthetic_lake
from backfill_assets_tests.processes import CHECKOUT, run_python

TABLES = ("raw", "staging", "features", "features_as_known", "labels", "training")
WORDS = [f"{a}{b}" for a in "abc" for b in "abcdefghijk"]


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


@pytest.mark.parametrize("group", [(), ("landing",), ("server",)], ids=" ".join)
def test_a_list_of_commands_is_whole_on_a_narrow_screen(group: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*group, "--help"], terminal_width=60)
    assert "..." not in result.stdout.split("Commands:")[1]


def test_what_the_machine_refuses_is_one_line_that_names_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "lake.toml"))

    monkeypatch.setattr("backfill_assets.lake.home.open_lake", refuse)
    result = run("status", "--lake", tmp_path)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith(f"Error: {tmp_path / 'lake.toml'}: permission denied. What was being done was not")


def test_every_command_that_a_text_advises_exists() -> None:
    """In every text of the package: errors, help, pages. What cannot be typed must not be advised."""
    known = {" ".join(command) for command in _commands(app)}
    form = re.compile(r"""(?:[`">]|  )backfill-assets ([a-z][a-z-]*)(?: ([a-z]+))?""")
    advised = [
        (path.name, match[1], match[2])
        for path in (CHECKOUT / "backfill_assets").rglob("*")
        if path.suffix in (".py", ".j2")
        for match in form.finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(advised) > 20
    assert [a for a in advised if not {a[1], f"{a[1]} {a[2]}"} & known] == []


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
    assert "A cell is the state, the rows and the table's version (v) that wrote them." in lines
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


def test_what_will_change_is_marked_explained_and_part_of_the_command(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 4)
    build(lake, pipeline, "staging", {START: 4})
    told = run("status", "--lake", tmp_path).stdout
    assert re.search(r"2024-02-26 .*stale 3 v1 +fresh 3 v1 +stale 3 v1 +fresh\* 3 v1\n", told)
    assert "* will change: right today" in told
    assert "training: 4 fresh (2 will change)" in told
    stale = run("status", "--lake", tmp_path, "--stale").stdout
    assert "training 2024-02-26..2024-02-27: will change after these" in stale
    assert "--tables features,labels,training" in stale
    shown = run("show", "training", START, "--lake", tmp_path).stdout
    assert "it will change" in shown
    assert read(run("status", "--lake", tmp_path, "--json"))["will_change"] == {"training": 2}


def test_status_advises_only_days_that_can_be_made(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 2)
    early = run("status", "--lake", tmp_path, "--from", "2020-01-01", "--to", START)
    assert (early.exit_code, "before the lake's first day, 2024-02-26" in early.stderr) == (2, True)
    today = datetime.now(UTC).date()
    assert "rebuild:" not in run("status", "--lake", tmp_path, "--from", today, "--to", today + ONE_DAY).stdout


def test_a_narrow_screen_breaks_neither_days_nor_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic_lake(tmp_path, 3)
    monkeypatch.setenv("COLUMNS", "60")
    lines = run("status", "--lake", tmp_path).stdout.splitlines()
    assert max(map(len, lines)) <= 60
    heads = [line.split() for line in lines if line.startswith("day ")]
    assert [name for head in heads for name in head if name != "day"] == list(TABLES)
    assert sum(line.startswith("2024-02-26 ") for line in lines) == len(heads)


def test_show_names_no_version_of_a_table_that_is_not_there(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 1)
    build(lake, pipeline, "raw", {START: 3}, {"quarantine": 1, "too_late": -1})
    told = run("show", "raw", START, "--lake", tmp_path).stdout
    assert "quarantine v1, too_late (not there yet)" in told


def test_show_groups_reasons_and_escapes_what_turns_the_writing(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 1)
    build(lake, pipeline, "quarantine", {START: 533})
    reasons = [f"not JSON at character {n}" for n in range(500)] + [f"{word} is odd" for word in WORDS]
    rows = [
        {"arrival_date": START, "source_file": "a", "row_number": n, "text": "x", "reason": reason}
        for n, reason in enumerate(reasons)
    ]
    shutil.rmtree(lake.table_path("quarantine"))
    entry = {START: DayEntry(len(rows), "F", "d")}
    write_rows(lake.table_path("quarantine"), QUARANTINE, rows, Receipt("q", "quarantine", "manual", entry))
    bidi = {**landed(START, datetime.now(UTC)), "path": "a\u202elnosj.txt", "sha256": "b"}
    write_rows(lake.table_path("files"), FILES, [bidi], Receipt("f", "files", "scan", {}))
    told = run("show", "raw", START, "--lake", tmp_path)
    assert "refused   500 x not JSON at character …" in told.stdout
    assert "refused   24 for 24 other reasons: see --json" in told.stdout
    assert told.stdout.count("\n") < 30
    assert "a\\u202elnosj.txt" in told.stdout
    document = run("show", "raw", START, "--lake", tmp_path, "--json")
    assert "\u202e" not in document.stdout
    assert "a\u202elnosj.txt" in [f["path"] for f in read(document)["files"]]


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
