"""Lakes that an IO manager opens or makes.

Tested here: `dagster.lakes`. Not tested here: what is written into them (`test_io_manager.py`).
"""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.dagster.lakes import lake_at, lake_for

JANUARY, MARCH = date(2024, 1, 1), date(2024, 3, 1)


def test_a_lake_is_made_once_and_begins_with_its_earliest_asset(lake: Path) -> None:
    assert lake_for(lake, MARCH).settings.start_date == MARCH
    assert lake_for(lake, JANUARY).settings.start_date == JANUARY
    assert lake_for(lake, MARCH).settings.start_date == JANUARY
    assert "start_date = 2024-01-01 " in (lake / "lake.toml").read_text()


def test_a_folder_without_a_lake_is_only_read_with_an_error(lake: Path) -> None:
    with pytest.raises(SettingsError, match=r"it has no lake\.toml"):
        lake_at(lake)
    assert not lake.exists()


def test_the_first_day_of_a_lake_of_landed_files_stays(lake: Path) -> None:
    lake_for(lake, MARCH)
    source = '[source]\nfiles = "landing/*.jsonl"\nformat = "jsonl"\nselect = "event_key"\n'
    (lake / "lake.toml").write_text(f"start_date = 2024-03-01\n{source}")
    assert lake_for(lake, MARCH).settings.start_date == MARCH
    with pytest.raises(SettingsError, match="start_date is 2024-03-01, and the asset has days from 2024-01-01 on"):
        lake_for(lake, JANUARY)
