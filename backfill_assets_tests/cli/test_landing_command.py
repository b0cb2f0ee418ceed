"""`scan`, `landing accept` and `adopt` as a person meets them: a line per finding, JSON, and exit
codes. No JVM. Not here: comparing folder and ledger (`intake.test_landed_changes`), what a scan
records (`intake.test_scan`), and what is adopted (`foreign/test_adopting.py`) or refused
(`foreign/test_adoptable.py`)."""

import json
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.cli.landing_command import scan_as_needed
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.tables.home import Lake
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
