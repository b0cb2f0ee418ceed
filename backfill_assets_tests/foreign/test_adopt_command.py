"""`adopt` as typed: the lake that it makes, what it says, what it refuses.

Tested here: `foreign.adopt_command`. Not tested here: what is adopted or refused (`test_adopting.py`, `test_adoptable.py`).
"""

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.tables.home import read_lake
from backfill_assets_tests.cli.typed import run

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
    settings = read_lake(tmp_path / "lake").settings
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


def test_what_names_no_calendar_is_wrong_usage(place: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    given = ("--from", place, "--day", "day", "--every", "fortnight", "--lake", lake)
    told = run("adopt", "orders", *given)
    assert (told.exit_code, "none of day, week, month" in told.stderr) == (2, True)
    assert not lake.exists()


def test_nothing_is_made_for_a_table_that_is_refused(place: Path, tmp_path: Path) -> None:
    told = run("adopt", "orders", "--from", place, "--day", "id", "--lake", tmp_path / "lake")
    assert (told.exit_code, "laid out by day" in told.stderr) == (1, True)
    assert not (tmp_path / "lake").exists()


@pytest.mark.whole_house
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
