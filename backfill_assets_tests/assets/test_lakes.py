"""Lakes that an IO manager opens or makes.

Tested here: `assets.lakes`. Not tested here: what is written into them (`test_io_manager.py`).
"""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.assets.declared import DeclaredTable, declare_table, find_declared
from backfill_assets.assets.lakes import declaring_table, lake_at, lake_for_asset
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.folder import OWN_FOLDERS
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.logs import place_of

JANUARY, MARCH = date(2024, 1, 1), date(2024, 3, 1)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder without a lake."""
    return tmp_path / "lake"


def test_a_lake_is_made_once_and_begins_with_its_earliest_asset(lake: Path) -> None:
    assert lake_for_asset(lake, MARCH).settings.start_date == MARCH
    assert lake_for_asset(lake, JANUARY).settings.start_date == JANUARY
    assert lake_for_asset(lake, MARCH).settings.start_date == JANUARY
    assert "start_date = 2024-01-01\n" in (lake / "lake.toml").read_text()


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_the_folders_of_a_first_run_are_closed_whatever_the_umask_is(
    lake: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        made = lake_for_asset(lake, MARCH)
        made.place.write("tables/orders/_delta_log/0.json", b"")
    finally:
        os.umask(before)
    assert {name for name in OWN_FOLDERS if (lake / name).stat().st_mode & 0o077} == set()


def test_a_folder_without_a_lake_is_only_read_with_an_error(lake: Path) -> None:
    with pytest.raises(SettingsError, match=r"it has no lake\.toml"):
        lake_at(lake)
    assert not lake.exists()


COLUMNS = (Column("day", "DATE", ""), Column("n", "BIGINT", "", nullable=True))
CONTRACT = Contract("orders", "", COLUMNS, "day", (), (), made_by="orders", first_day=JANUARY)
TABLE = DeclaredTable(CONTRACT, ("orders",), "1")


def fail_after(lake: Lake, table: DeclaredTable, meanwhile: Callable[[], object]) -> None:
    """Declare a table for a write that fails after what another one does meanwhile."""
    with declaring_table(lake, table):
        meanwhile()
        raise LookupError(table.contract.name)


def test_a_table_is_known_as_before_where_nothing_was_written(lake: Path) -> None:
    seen = []
    with pytest.raises(LookupError, match="orders"):
        fail_after(
            lake_for_asset(lake, JANUARY),
            TABLE,
            lambda: seen.append(find_declared(place_of(lake), "orders")),
        )
    assert seen == [TABLE]
    assert find_declared(place_of(lake), "orders") is None


def test_what_another_writer_declared_meanwhile_stays_known(lake: Path) -> None:
    newer = replace(TABLE, code="2")
    with pytest.raises(LookupError, match="orders"):
        fail_after(
            lake_for_asset(lake, JANUARY), TABLE, lambda: declare_table(place_of(lake), newer)
        )
    assert find_declared(place_of(lake), "orders") == newer
