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
    asset_periods,
    asset_table_name,
)
from backfill_assets.kernel.core.calendars import DAILY, parse_calendar
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
    "months from the middle": (
        dg.MonthlyPartitionsDefinition("2024-01-15", day_offset=15),
        r"its partitions are those of the schedule 0 0 15 \* \*",
    ),
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
def test_only_assets_of_whole_days_are_tables_of_a_lake_and_what_makes_one_other_is_said(
    partitions: dg.PartitionsDefinition | None, culprit: str
) -> None:
    assert asset_periods(DAYS, "the asset shop/orders") == (DAILY, date(2024, 1, 1))
    said = "the asset shop/orders: a lake holds whole days, weeks, months, quarters and years"
    with pytest.raises(SettingsError, match=f"{said}, and {culprit}"):
        asset_periods(partitions, "the asset shop/orders")


@pytest.mark.parametrize(
    ("partitions", "text", "first"),
    [
        (dg.WeeklyPartitionsDefinition("2024-02-14"), "week from sunday", "2024-02-18"),
        (dg.WeeklyPartitionsDefinition("2024-02-14", day_offset=1), "week", "2024-02-19"),
        (dg.MonthlyPartitionsDefinition("2024-02-14", hour_offset=6), "month", "2024-03-01"),
        (dg.DailyPartitionsDefinition("2024-02-14", exclusions=["0 0 * * 6"]), "day", "2024-02-14"),
        (
            dg.TimeWindowPartitionsDefinition(
                "2024-02-14", "%Y-%m-%d", timezone="Europe/Berlin", cron_schedule="0 0 1 */3 *"
            ),
            "quarter",
            "2024-04-01",
        ),
        (
            dg.TimeWindowPartitionsDefinition(
                "2024-02-14", "%Y-%m-%d", cron_schedule="0 0 1 * *", exclusions=["0 0 1 8 *"]
            ),
            "month",
            "2024-03-01",
        ),
    ],
)
def test_the_calendar_of_an_asset_is_that_of_its_keys(
    partitions: dg.TimeWindowPartitionsDefinition, text: str, first: str
) -> None:
    assert partitions.get_first_partition_key() == first
    found = asset_periods(partitions, "the asset shop/orders")
    assert found == (parse_calendar(text), date.fromisoformat(first))


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
