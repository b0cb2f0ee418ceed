"""The contract of an asset's table: its name, first day, windows, code and rules.

Tested here: `assets.contracts` from definitions alone. Not tested here: a contract that rows do
not fit (`test_io_manager.py`), rules that are judged (`test_daily.py`).
"""

from datetime import date
from typing import Any

import dagster as dg
import pytest

from backfill_assets.assets.contracts import (
    Registry,
    Rules,
    asset_code,
    asset_table_name,
    first_day_of,
)
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.assets.projects import DAYS, Deliveries, orders_asset, weekly_asset

KEY = dg.AssetKey(["shop", "orders"])
HOURS = dg.HourlyPartitionsDefinition("2024-01-01-00:00")


def test_a_table_is_named_by_its_whole_key() -> None:
    assert asset_table_name(KEY, {}) == "shop__orders"
    assert asset_table_name(dg.AssetKey(["Shop", "orders-EU.v2"]), {}) == "shop__orders_eu_v2"
    for parts in (["1st"], ["-"], ["Ärger"]):
        with pytest.raises(SettingsError, match="its key would name the table"):
            asset_table_name(dg.AssetKey(parts), {})


OTHERS: dict[str, tuple[dg.PartitionsDefinition | None, str]] = {
    "none": (None, "this asset has no partitions"),
    "hours": (HOURS, "its partitions are hourly ones"),
    "weeks": (dg.WeeklyPartitionsDefinition("2024-01-01"), "its partitions are weekly ones"),
    "a schedule": (
        dg.TimeWindowPartitionsDefinition(
            cron_schedule="0 0 * * 1-5", start="2024-01-01", fmt="%Y-%m-%d"
        ),
        r"its partitions are those of the schedule 0 0 \* \* 1-5",
    ),
    "names": (dg.StaticPartitionsDefinition(["a"]), "this asset has a StaticPartitionsDefinition"),
    "keys of another form": (
        dg.DailyPartitionsDefinition("20240101", fmt="%Y%m%d"),
        r"the keys of its partitions are of another form \(fmt='%Y%m%d'\).* Leave fmt out",
    ),
    "keys with a zone": (
        dg.DailyPartitionsDefinition("2024-01-01T00:00:00+0000", fmt="%Y-%m-%dT%H:%M:%S%z"),
        "the keys of its partitions are of another form",
    ),
}


@pytest.mark.parametrize(("partitions", "culprit"), OTHERS.values(), ids=OTHERS)
def test_only_daily_assets_are_tables_of_a_lake_and_what_makes_one_other_is_said(
    partitions: dg.PartitionsDefinition | None, culprit: str
) -> None:
    assert first_day_of(DAYS, "the asset shop/orders") == date(2024, 1, 1)
    with pytest.raises(
        SettingsError, match=f"the asset shop/orders: a lake holds days, and {culprit}"
    ):
        first_day_of(partitions, "the asset shop/orders")


def test_the_code_of_an_asset_is_that_of_its_file() -> None:
    assert asset_code(orders_asset(Deliveries()).op) == asset_code(weekly_asset().op)
    there: dict[str, Any] = {}
    exec("def one(): return 1\ndef two(): return 2", there)  # noqa: S102 - functions without a file, as in a notebook
    one, two = (dg.asset(name="a")(there[name]) for name in ("one", "two"))
    assert asset_code(one.op) != asset_code(two.op)


def test_each_kind_of_rule_is_a_check_and_a_bound_may_be_left_out() -> None:
    assert Rules().checks == ()
    assert Rules(unique=("id",)).checks == ("unique_key", "not_null")
    assert Rules(rows=(None, 0)).checks == ("row_count",)
    assert Rules(rows=(None, 0)).bounds == {"max_rows": 0}


def test_other_rules_for_one_asset_are_refused() -> None:
    orders, registry = orders_asset(Deliveries()), Registry()
    registry.add(orders, Rules(unique=("id",)))
    with pytest.raises(SettingsError, match="the asset shop/orders: lake_checks declares it twice"):
        registry.add(orders, Rules(unique=("day",)))
