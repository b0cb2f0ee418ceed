"""Tables of assets as a lake keeps them, and the bounds that they bring.
Not here: what an asset declares (`dagster/test_contracts.py`)."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.assets.declared import (
    DeclaredTable,
    declare_table,
    record_table_place,
    with_declared_tables,
)
from backfill_assets.kernel.core.calendars import Calendar, Unit
from backfill_assets.kernel.core.contracts import Column, Contract, Input, Rule
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.logs import place_of

COLUMNS = (Column("day", "DATE", "the day"), Column("total", "DECIMAL(18,2)", "", nullable=True))
WEEKLY = Contract(
    "weekly",
    "Sums.",
    COLUMNS,
    "day",
    (),
    (Input("shop__orders", 6, first_day=date(2024, 1, 1)),),
    rules=(Rule("positive", "total > 0", "a sum is positive", only_warns=True),),
    made_by="weekly",
    first_day=date(2024, 1, 7),
)
TABLE = DeclaredTable(WEEKLY, ("weekly",), "1", {"min_rows": 1})


def test_a_table_of_days_has_the_file_that_it_always_had_and_one_of_months_says_so() -> None:
    assert "calendar" not in TABLE.to_dict()
    assert DeclaredTable.parse(TABLE.to_dict()) == TABLE
    monthly = replace(TABLE, contract=replace(WEEKLY, calendar=Calendar(Unit.MONTH)))
    assert monthly.to_dict()["calendar"] == "month"
    assert DeclaredTable.parse(monthly.to_dict()) == monthly
    assert monthly.contract.matures_after_days is None  # its receipts say which days have come


def test_bounds_of_the_settings_win_over_those_of_an_asset(tmp_path: Path) -> None:
    declare_table(place_of(tmp_path), TABLE)
    own = {
        "gates": {
            "tables": {"weekly": {"max_rows": 9}, "raw": {"min_rows": 5}},
            "incomplete": "refuse",
        }
    }
    assert with_declared_tables(tmp_path, own)["gates"] == {
        "tables": {"weekly": {"min_rows": 1, "max_rows": 9}, "raw": {"min_rows": 5}},
        "incomplete": "refuse",
    }
    over = {"gates": {"tables": {"weekly": {"min_rows": 0}}}}
    assert with_declared_tables(tmp_path, over)["gates"]["tables"]["weekly"] == {"min_rows": 0}
    assert with_declared_tables(tmp_path / "elsewhere", own) == own


@pytest.mark.parametrize("name", ["orders", "adopted"])
def test_nobody_but_adopt_says_where_a_table_lies(tmp_path: Path, name: str) -> None:
    record_table_place(place_of(tmp_path), "adopted", "s3://bucket/orders")
    assert with_declared_tables(tmp_path, {})["tables"] == {
        "adopted": {"place": "s3://bucket/orders"}
    }
    with pytest.raises(
        SettingsError, match=rf"\[tables.{name}\] place .* only `adopt` .*Take it away"
    ):
        with_declared_tables(tmp_path, {"tables": {name: {"place": "s3://bucket/other"}}})
