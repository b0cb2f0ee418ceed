"""Daily tables by decorator: windows of inputs by parameter, rows judged before one commit, checks
of the asset itself.

Tested here: `daily_table`, and `lake_checks` beside an asset, over whole runs. Not tested here:
writing (`test_io_manager.py`), the registry of rules (`test_contracts.py`).
"""

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

from backfill_assets.dagster import Input, LakeIOManager, daily_table, lake_checks
from backfill_assets.dagster.adapter.history import evaluations_of
from backfill_assets.kernel.core.contracts import InputKind
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests.assets.projects import (
    Deliveries,
    cause,
    materialize,
    orders_asset,
    rows,
)
from backfill_assets_tests.assets.test_io_manager import states, versions

FIRST, LAST = "2024-01-01", "2024-01-10"
WEEK = [Input("shop/orders", before=6)]


def orders_table(deliveries: Deliveries, **words: Any) -> dg.AssetsDefinition:
    """`shop/orders` of three rows a day."""

    @daily_table(
        start=FIRST,
        key_prefix="shop",
        unique=["id"],
        not_null=["amount"],
        rows=(1, None),
        rules={"amount_is_positive": "amount > 0"},
        code_version="1",
        **words,
    )
    def orders(context: dg.AssetExecutionContext) -> pa.Table:
        """Orders of each day."""
        return deliveries.orders(context.partition_keys)

    return orders


@daily_table(inputs=WEEK, start=FIRST, unique=["day"], code_version="1")
def weekly(context: dg.AssetExecutionContext, orders: pd.DataFrame) -> pd.DataFrame:
    """The sum of seven days."""
    days = [date.fromisoformat(key) for key in context.partition_keys]
    seen = [
        (pd.Timestamp(d).date(), n) for d, n in zip(orders["day"], orders["amount"], strict=True)
    ]
    totals = [sum(n for d, n in seen if day - timedelta(7) < d <= day) for day in days]
    return pd.DataFrame({"day": days, "total": totals})


def verdicts(
    instance: dg.DagsterInstance, asset: dg.AssetsDefinition, key: dg.AssetKey
) -> dict[str, str]:
    """The newest verdict of each check of the asset."""
    found = {}
    for check in asset.check_keys:
        asked = dg.AssetCheckKey(key, check.name)
        (record,) = instance.event_log_storage.get_asset_check_execution_history(asked, limit=1)
        found[check.name] = record.status.value
    return found


def test_a_range_is_one_commit_of_each_table_and_a_parameter_gets_its_window_of_days(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    orders = orders_table(deliveries)
    result = materialize(lake, [orders, weekly], FIRST, LAST, instance=instance)
    assert result.success, cause(result)
    assert [total for _, total in rows(lake, "weekly")] == [6, 12, 18, 24, 30, 36, 42, 42, 42, 42]
    before = versions(lake, "shop__orders"), versions(lake, "weekly")
    assert materialize(lake, [orders, weekly], FIRST, LAST, instance=instance).success
    assert (versions(lake, "shop__orders"), versions(lake, "weekly")) == before
    checks = verdicts(instance, orders, dg.AssetKey(["shop", "orders"]))
    assert checks == {
        "unique_key": "SUCCEEDED",
        "not_null": "SUCCEEDED",
        "row_count": "SUCCEEDED",
        "amount_is_positive": "SUCCEEDED",
    }
    deliveries.by_day["2024-01-09"] = [("a", 100)]
    assert materialize(lake, [orders], "2024-01-09", instance=instance).success
    assert [d for d, state in states(lake, "weekly").items() if state == "stale"] == [
        "2024-01-09",
        "2024-01-10",
    ]


def test_no_rules_are_no_checks_and_a_mapping_names_parameters(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    @daily_table(inputs={"bought": dg.AssetKey(["shop", "orders"])}, start=FIRST)
    def counted(bought: pa.Table) -> pa.Table:
        return bought.group_by("day").aggregate([("id", "count")])

    assert not [*counted.check_keys]
    result = materialize(
        lake, [orders_table(deliveries), counted], FIRST, "2024-01-02", instance=instance
    )
    assert result.success, cause(result)
    assert sorted(n for row in rows(lake, "counted") for n in row if isinstance(n, int)) == [3, 3]


def test_what_dagster_lets_people_set_is_passed_on_and_rules_hold_under_another_key(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    made = orders_table(
        deliveries,
        group_name="sales",
        owners=["a@example.com"],
        metadata={"more": 1},
        io_manager_key="kept",
        backfill_policy=dg.BackfillPolicy.multi_run(5),
        pool="one",
    )
    spec = made.specs_by_key[made.key]
    assert (
        spec.group_name,
        spec.owners,
        spec.metadata["more"],
        spec.metadata["partition_expr"],
    ) == ("sales", ["a@example.com"], 1, "day")
    assert spec.description == "Orders of each day."
    assert made.backfill_policy == dg.BackfillPolicy.multi_run(5)
    moved = made.with_attributes(asset_key_replacements={made.key: dg.AssetKey(["eu", "orders"])})
    deliveries.by_day[FIRST] = [("a", 1), ("a", 2)]
    result = dg.materialize(
        [moved],
        partition_key=FIRST,
        instance=instance,
        resources={"kept": LakeIOManager(lake=str(lake))},
        raise_on_error=False,
    )
    assert "unique_key" in cause(result)
    assert verdicts(instance, moved, dg.AssetKey(["eu", "orders"]))["unique_key"] == "FAILED"


@pytest.mark.parametrize(
    "is_beside", [False, True], ids=["checks of the asset", "checks beside it"]
)
def test_a_day_that_an_earlier_run_left_refused_is_red_and_stops_no_run_of_other_days(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance, is_beside: bool
) -> None:
    """Blocking checks would fail the second run, and skip `weekly` in it."""
    orders = orders_asset(deliveries) if is_beside else orders_table(deliveries)
    checks = lake_checks(orders, unique=["id"]) if is_beside else []
    project = [orders, weekly, *checks]
    assert materialize(lake, project, FIRST, "2024-01-02", instance=instance).success
    deliveries.by_day["2024-01-02"] = [("a", 1), ("a", 2)]
    refused = materialize(lake, project, "2024-01-02", instance=instance)
    assert not refused.success
    assert not refused.asset_materializations_for_node("weekly"), (
        "a refused day stops what follows in its run"
    )
    result = materialize(lake, project, "2024-01-03", instance=instance)
    assert result.success, cause(result)
    assert states(lake, "weekly")["2024-01-03"] == "fresh"
    (record,) = [
        e
        for e in evaluations_of(instance, result.run_id)
        if not e.passed and e.asset_key == orders.key
    ][-1:]
    assert (record.check_name, record.severity) == ("unique_key", dg.AssetCheckSeverity.ERROR)


def test_another_io_manager_is_refused_where_rules_judge(
    deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    result = dg.materialize(
        [orders_table(deliveries)],
        partition_key=FIRST,
        instance=instance,
        resources={"io_manager": dg.mem_io_manager},
        raise_on_error=False,
    )
    assert "Give it a LakeIOManager" in cause(result)


def nothing() -> None:
    """A function without parameters."""


def orders_in(orders: pa.Table) -> pa.Table:
    """A function of one input."""
    return orders


def generated(orders: pa.Table) -> Any:
    """A generator."""
    yield orders


WRONG: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "an input without a parameter": (
        nothing,
        {"inputs": WEEK},
        r"no parameter takes the input shop/orders \(orders\)",
    ),
    "a parameter without an input": (orders_in, {}, "the parameter orders has no input"),
    "two inputs of one parameter": (
        orders_in,
        {"inputs": ["eu/orders", "us/orders"]},
        "eu/orders and us/orders would both be the parameter orders",
    ),
    "a choice that only tables of a lake.toml have": (
        orders_in,
        {"inputs": [Input("orders", kind=InputKind.ARRIVALS)]},
        "the input orders has more than days",
    ),
    "no first day": (nothing, {"start": None}, "it has no first day"),
    "two first days": (
        nothing,
        {"partitions_def": dg.DailyPartitionsDefinition(FIRST)},
        "start and partitions_def both give its first day",
    ),
    "partitions that are no days": (
        nothing,
        {"start": None, "partitions_def": dg.HourlyPartitionsDefinition("2024-01-01-00:00")},
        "a lake holds whole days, weeks, .* and its partitions are hourly ones",
    ),
    "keys of another form": (
        nothing,
        {"start": None, "partitions_def": dg.DailyPartitionsDefinition("20240101", fmt="%Y%m%d")},
        "a lake holds whole days, weeks, .* and the keys of its partitions are of another form",
    ),
    "partitions by two words": (
        nothing,
        {
            "start": None,
            "every": "month",
            "partitions_def": dg.MonthlyPartitionsDefinition("2024-01-01"),
        },
        "every and partitions_def both give its partitions",
    ),
    "no calendar": (nothing, {"every": "fortnight"}, "its every or start: 'fortnight' is none of"),
    "inputs of Dagster": (orders_in, {"ins": {}}, "ins is no word of daily_table"),
    "checks of Dagster": (nothing, {"check_specs": []}, "check_specs is no word of daily_table"),
    "a generator": (generated, {"inputs": ["orders"]}, "its function is a generator"),
}


@pytest.mark.parametrize(("function", "words", "culprit"), WRONG.values(), ids=WRONG)
def test_a_wrong_call_says_why(
    function: Callable[..., Any], words: dict[str, Any], culprit: str
) -> None:
    with pytest.raises(
        SettingsError, match=f"the daily table {function.__name__}: {culprit}.*No asset was made"
    ):
        daily_table(**{"start": FIRST, **words})(function)


FIRST_DAY = "2024-01-01"
BROKEN: dict[str, tuple[list[tuple[str | None, int | None]], str, str]] = {
    "a key that repeats": ([("a", 1), ("a", 2)], "unique_key", "1 row(s) repeat a key (id)"),
    "a key that is NULL": ([(None, 1)], "not_null", "1 NULL(s) in id"),
    "too many rows": (
        [("a", 1), ("b", 1), ("c", 1), ("d", 1)],
        "row_count",
        "4 rows, more than max_rows = 3",
    ),
    "a row that breaks a rule": ([("a", -1)], "positive", "1 row(s) break positive"),
}


def checked(deliveries: Deliveries) -> tuple[dg.AssetsDefinition, list[dg.AssetChecksDefinition]]:
    orders = orders_asset(deliveries)
    checks = lake_checks(
        orders, unique=["id"], not_null=["amount"], rows=(1, 3), rules={"positive": "amount > 0"}
    )
    return orders, checks


def verdicts_of(
    instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult
) -> dict[str, tuple[bool, dict[str, Any]]]:
    """The verdict and facts of each check of a run, as they are stored."""
    found = evaluations_of(instance, result.run_id)
    return {e.check_name: (e.passed, {k: v.value for k, v in e.metadata.items()}) for e in found}


@pytest.mark.parametrize("name", BROKEN)
def test_a_day_that_breaks_a_rule_keeps_its_rows_and_its_check_says_which(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance, name: str
) -> None:
    orders, checks = checked(deliveries)
    first = verdicts_of(
        instance, materialize(lake, [orders, *checks], FIRST_DAY, instance=instance)
    )
    assert {passed for passed, _ in first.values()} == {True}
    before = rows(lake, "shop__orders")
    bad, check, words = BROKEN[name]
    deliveries.by_day[FIRST_DAY] = bad
    result = materialize(lake, [orders, *checks], FIRST_DAY, "2024-01-02", instance=instance)
    assert words in cause(result)
    assert rows(lake, "shop__orders") == before
    found = verdicts_of(instance, result)
    assert {n for n, (passed, _) in found.items() if not passed} == {check}
    assert FIRST_DAY in found[check][1]["verdict"]
    assert words in found[check][1]["verdict"]
