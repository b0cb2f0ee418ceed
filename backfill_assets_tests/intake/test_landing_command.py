"""`scan`, `landing accept` and `adopt` as a person meets them: a line per finding, JSON, and exit
codes. No JVM. Not here: comparing folder and ledger (`intake.test_landed_changes`), what a scan
records (`intake.test_scan`), and what is adopted (`foreign/test_adopting.py`) or refused
(`foreign/test_adoptable.py`)."""

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from backfill_assets.intake.landing_command import scan_as_needed
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.tables.home import Lake, look_at
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.lakes import make_lake
from backfill_assets_tests.synthetic import START, synthetic_lake

NAMES = [f"{START}.jsonl", f"{START + ONE_DAY}.jsonl"]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two days landed and loaded, whose files are gone."""
    made, _ = synthetic_lake(tmp_path / "lake", 2)
    for name in NAMES:
        (made.root / "landing" / name).unlink()
    return made


def test_missing_files_are_named_with_the_days_they_block_and_end_with_exit_code_1(
    lake: Lake,
) -> None:
    told = run("scan", "--lake", lake.root)
    assert told.exit_code == 1, told.output
    assert told.stdout.splitlines() == [
        *(f"missing    {name}" for name in NAMES),
        f"2 day(s) from {START} are not rebuilt until the files are back, or you say "
        '`backfill-assets landing accept --note "why"`',
        "0 new file(s), 2 known before",
    ]
    again = run("scan", "--json", "--lake", lake.root)
    assert (again.exit_code, json.loads(again.stdout)["missing"]) == (1, NAMES)


def test_files_that_are_never_read_are_named_where_nothing_else_landed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_lake(tmp_path / "lake", (), START, spark={"engine": "sail"})
    (made.root / "landing" / "link.jsonl").symlink_to(NAMES[0])
    assert scan_as_needed(made) == frozenset()
    told = capsys.readouterr().err.replace("\n", " ")
    assert (
        "1 landed file(s) are not read, such as link.jsonl: a symbolic link, which is never "
        "followed; `backfill" in told
    )


def test_what_is_accepted_is_followed_and_no_longer_in_the_way(lake: Lake) -> None:
    one, other = NAMES
    told = run("landing", "accept", "--note", "withdrawn", one, "--lake", lake.root)
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith(f"accepted   {one}: its days are stale now")
    assert json.loads(run("scan", "--json", "--lake", lake.root).stdout)["missing"] == [other]
    assert read(run("landing", "accept", "--note", "all", "--json", "--lake", lake.root))[
        "accepted"
    ] == [other]
    assert run("landing", "accept", "--note", "again", "--lake", lake.root).stdout == (
        "Nothing is altered or missing, or loaded against its declared totals.\n"
    )
    assert read(run("scan", "--json", "--lake", lake.root))["missing"] == []


def test_a_path_that_is_neither_altered_nor_missing_is_told_with_exit_code_1(lake: Lake) -> None:
    told = run("landing", "accept", "--note", "why", "other.jsonl", "--lake", lake.root)
    assert told.exit_code == 1
    assert told.stdout.startswith(
        "unchanged  other.jsonl: neither altered nor missing, and no scan found"
    )


D1 = date(2024, 1, 1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_deltalake(
        tmp_path / "t",
        pa.table({"day": pa.array([D1], pa.date32()), "id": ["a"]}),
        partition_by="day",
    )
    (tmp_path / "t").chmod(0o755)
    return tmp_path / "t"


def test_a_lake_is_made_where_there_is_none_with_the_readers_of_the_folder(
    place: Path, tmp_path: Path
) -> None:
    told = run(
        "adopt",
        "orders",
        "--from",
        place,
        "--day",
        "day",
        "--key",
        "id",
        "--lake",
        tmp_path / "lake",
    )
    assert told.stdout.splitlines() == [
        "adopted    orders: 1 day(s), 2024-01-01, 1 row(s), by version 1; no file was touched",
        "from now on the asset orders makes its days, by a LakeIOManager",
    ]
    settings = look_at(tmp_path / "lake").settings
    assert (settings.start_date, settings.assets_only, settings.access.readers) == (
        D1,
        True,
        "everyone",
    )


def test_json_names_the_version_days_and_rows(place: Path, tmp_path: Path) -> None:
    told = run(
        "adopt", "orders", "--from", place, "--day", "day", "--json", "--lake", tmp_path / "lake"
    )
    assert json.loads(told.stdout) == {
        "table": "orders",
        "version": 1,
        "days": ["2024-01-01"],
        "rows": 1,
    }


def test_a_name_that_no_table_has_is_wrong_usage(place: Path, tmp_path: Path) -> None:
    told = run("adopt", "Orders", "--from", place, "--day", "day", "--lake", tmp_path / "lake")
    assert told.exit_code == 2
    assert not (tmp_path / "lake").exists()


def test_nothing_is_made_for_a_table_that_is_refused(place: Path, tmp_path: Path) -> None:
    told = run("adopt", "orders", "--from", place, "--day", "id", "--lake", tmp_path / "lake")
    assert (told.exit_code, "laid out by day" in told.stderr) == (1, True)
    assert not (tmp_path / "lake").exists()


def test_what_is_said_of_it_afterwards_names_who_adopted_it_and_no_frontier(
    place: Path, tmp_path: Path
) -> None:
    run("adopt", "orders", "--from", place, "--day", "day", "--lake", tmp_path / "lake")
    assert f"  {whoami()}  " in run("audit", "--lake", tmp_path / "lake").stdout
    assert "frontier" not in run("status", "--lake", tmp_path / "lake").stdout, (
        "it never loads files"
    )


def test_a_place_without_a_table_is_told_as_what_adopt_was_given(
    place: Path, tmp_path: Path
) -> None:
    told = run(
        "adopt", "orders", "--from", place.parent, "--day", "day", "--lake", tmp_path / "lake"
    )
    assert told.stderr.startswith(f"Error: the table orders: no Delta table lies in {place.parent}")
    assert "It was not adopted. Correct its place" in told.stderr
