"""What a project without settings of its own is told: the lake, the whole range, and what to make
first.

Every command that a refusal prints is run here as it is printed. Not tested here: the words of
commands (`kernel.core.test_commands`), and rules (`test_daily.py`).
"""

import re
import shlex
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from click.testing import CliRunner

from backfill_assets.assets.rule_arguments import OnBadDays
from backfill_assets.cli.app import app
from backfill_assets.dagster import LakeIOManager, lake_checks
from backfill_assets.dagster.adapter.runs import RANGE_END, RANGE_START
from backfill_assets.kernel.core.process import LAKE_VARIABLE
from backfill_assets_tests.assets.projects import (
    DAYS,
    Deliveries,
    cause,
    materialize,
    orders_asset,
    rows,
    weekly_asset,
)
from backfill_assets_tests.assets.test_io_manager import states

FIRST, LAST = "2024-01-01", "2024-01-03"


@pytest.fixture(autouse=True)
def no_lake_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LAKE_VARIABLE, raising=False)


def commands_of(text: str) -> list[list[str]]:
    """The words of each printed command."""
    return [shlex.split(printed)[1:] for printed in re.findall(r"`(backfill-assets [^`]*)`", text)]


def test_a_refusal_names_each_broken_check_its_culprits_and_what_stayed_with_them(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    orders = orders_asset(deliveries)
    lake_checks(orders, unique=["id"], rules={"positive": "amount > 0"})
    assert materialize(lake, [orders], FIRST, instance=instance).success
    deliveries.by_day |= {"2024-01-02": [("a", -1)], LAST: [("a", 1), ("a", 2)]}
    told = cause(materialize(lake, [orders], FIRST, LAST, instance=instance))
    assert "unique_key fails on 1 of 3 day(s), first 2024-01-03" in told
    assert "fails on 1 of 3 day(s), first 2024-01-02: 1 row(s) break positive" in told
    assert "nothing is wrong with 2024-01-01, kept back with 2024-01-02..2024-01-03" in told
    assert "materialize the asset shop/orders for 2024-01-01...2024-01-03" in told
    for words in commands_of(told):
        assert CliRunner().invoke(app, words).exit_code == 0, words
    assert len(commands_of(told)) == 1


def test_what_was_never_made_is_named_with_its_days_also_where_there_is_no_lake_yet(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    result = dg.materialize(
        [orders_asset(deliveries), weekly_asset()],
        partition_key=FIRST,
        selection=["weekly"],
        instance=instance,
        raise_on_error=False,
        resources={"io_manager": LakeIOManager(lake=str(lake))},
    )
    told = cause(result)
    assert f"the input shop/orders: there is no lake at {lake} yet" in told
    assert "First materialize the asset shop/orders for 2024-01-01." in told
    assert not lake.exists(), "a step that only reads makes no lake"


def test_a_materialization_shows_the_table_and_begins_with_what_the_run_did(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    result = materialize(lake, [orders_asset(deliveries)], FIRST, instance=instance)
    (event,) = result.get_asset_materialization_events()
    told: dict[str, Any] = {
        name: value.value for name, value in event.materialization.metadata.items()
    }
    names = list(told)
    assert names[0] == "backfill_assets/summary"
    assert told["dagster/table_name"] == "shop__orders"
    assert told["dagster/uri"] == (lake / "tables" / "shop__orders").as_uri()
    assert [c.name for c in told["dagster/column_schema"].columns] == ["day", "id", "amount"]
    internals = {*told["backfill_assets/internals"]}
    assert internals >= {"fingerprint", "input_digest", "version", "write_id", "phases"}
    assert not {f"backfill_assets/{name}" for name in internals} & {*names}


def test_what_was_computed_without_its_input_is_refused_for_the_input(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    orders, at = orders_asset(deliveries), "2024-01-05"

    @dg.asset(
        ins={"orders": dg.AssetIn(key=["shop", "orders"])},
        partitions_def=orders.partitions_def,
        backfill_policy=dg.BackfillPolicy.single_run(),
        metadata={"partition_expr": "day"},
    )
    def taken(orders: pd.DataFrame) -> Any:
        return orders

    assert materialize(lake, [orders], FIRST, instance=instance).success
    result = dg.materialize(
        [orders, taken],
        partition_key=at,
        selection=["taken"],
        instance=instance,
        raise_on_error=False,
        resources={"io_manager": LakeIOManager(lake=str(lake))},
    )
    told = cause(result)
    assert f"the input shop/orders: the lake {lake} has no {at} of it. Nothing was written" in told
    assert f"First materialize the asset shop/orders for {at}." in told
    assert words_of(instance, taken.key, at) == [f"the lake {lake} has no {at} of it"]


def test_keys_with_other_signs_have_tables_and_two_that_would_share_one_are_refused_by_name(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    def made(*key: str) -> dg.AssetsDefinition:
        @dg.asset(
            key=[*key],
            partitions_def=DAYS,
            metadata={"partition_expr": "day"},
            backfill_policy=dg.BackfillPolicy.single_run(),
        )
        def sold(context: dg.AssetExecutionContext) -> Any:
            return deliveries.orders(context.partition_keys)

        return sold

    weekly = dg.AssetIn(key=["EU", "Sold-Items.v2"])

    @dg.asset(
        ins={"sold": weekly},
        partitions_def=DAYS,
        metadata={"partition_expr": "day"},
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def Copied(sold: pd.DataFrame) -> Any:
        return sold

    assert materialize(
        lake, [made("EU", "Sold-Items.v2"), Copied], FIRST, instance=instance
    ).success
    assert rows(lake, "eu__sold_items_v2") == rows(lake, "copied")
    assert states(lake, "copied") == {FIRST: "fresh"}
    told = cause(materialize(lake, [made("eu", "sold_items.v2")], FIRST, instance=instance))
    assert (
        "the asset eu/sold_items.v2: its table eu__sold_items_v2 is that of the asset "
        "EU/Sold-Items.v2" in told
    )


def words_of(instance: dg.DagsterInstance, key: dg.AssetKey, day: str) -> list[str]:
    """What the page of a day shows above what it was made with, newest first."""
    found = instance.fetch_observations(
        dg.AssetRecordsFilter(key, asset_partitions=[day]), limit=10
    ).records
    return [
        str(r.asset_observation.metadata["not written"].value)
        for r in found
        if r.asset_observation is not None
    ]


KEPT = "nothing is wrong with it; kept back with 2024-01-02"


@pytest.mark.parametrize(
    ("on_bad_days", "first"),
    [("refuse", [KEPT]), ("keep_good", [])],
    ids=["a day stops all", "good days are kept"],
)
def test_a_red_day_says_on_its_own_page_what_is_wrong_with_it_or_with_which_it_was_kept_back(
    lake: Path,
    deliveries: Deliveries,
    instance: dg.DagsterInstance,
    on_bad_days: OnBadDays,
    first: list[str],
) -> None:
    orders = orders_asset(deliveries)
    lake_checks(orders, unique=["id"], not_null=["amount"], on_bad_days=on_bad_days)
    deliveries.by_day["2024-01-02"] = [("a", None), ("b", 1), ("b", 2)]
    assert not materialize(lake, [orders], FIRST, "2024-01-02", instance=instance).success
    assert words_of(instance, orders.key, FIRST) == first
    (told,) = words_of(instance, orders.key, "2024-01-02")
    assert (
        told == "not_null fails: 1 NULL(s) in amount; unique_key fails: 1 row(s) repeat a key (id)"
    )
    deliveries.by_day.clear()
    assert materialize(lake, [orders], FIRST, "2024-01-02", instance=instance).success
    assert words_of(instance, orders.key, "2024-01-02") == [told], (
        "a day that is made again says no more"
    )


def test_a_day_refused_before_its_rows_were_judged_says_which_of_its_input_days_was_never_made(
    lake: Path, deliveries: Deliveries, instance: dg.DagsterInstance
) -> None:
    orders, weekly = orders_asset(deliveries), weekly_asset()
    assert materialize(lake, [orders], FIRST, "2024-01-02", instance=instance).success
    result = dg.materialize(
        [orders, weekly],
        selection=[weekly],
        tags={RANGE_START: FIRST, RANGE_END: "2024-01-04"},
        instance=instance,
        resources={"io_manager": LakeIOManager(lake=str(lake))},
        raise_on_error=False,
    )
    assert not result.success
    kept = "nothing is wrong with it; kept back with 2024-01-03..2024-01-04"
    lacks = "it is made from shop__orders for {}, which were never made"
    days = [FIRST, "2024-01-02", "2024-01-03", "2024-01-04"]
    assert {day: words_of(instance, weekly.key, day) for day in days} == {
        FIRST: [kept],
        "2024-01-02": [kept],
        "2024-01-03": [lacks.format("2024-01-03")],
        "2024-01-04": [lacks.format("2024-01-03..2024-01-04")],
    }
