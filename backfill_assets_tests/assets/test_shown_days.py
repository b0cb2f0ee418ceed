"""Days that assets return, as a lake's own definitions, conditions, resource and records show them.

Tested here: `dagster` over a lake of an IO manager. Not tested here: writing the days
(`test_io_manager.py`), and the same of a lake's own tables (`dagster`).
"""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.dagster import LakeIOManager, LakeResource, build_lake_defs, is_stale
from backfill_assets.kernel.core.states import State
from backfill_assets.reading.attention import sensor_alarms
from backfill_assets.reading.opening import open_lake
from backfill_assets_tests.assets.projects import DAYS as DAYS_OF_ORDERS
from backfill_assets_tests.assets.projects import DAYS as PARTITIONS
from backfill_assets_tests.assets.projects import (
    ONE_RUN,
    Deliveries,
    materialize,
    orders_asset,
    weekly_asset,
)
from backfill_assets_tests.dagster.test_stale import Ticks

pytestmark = pytest.mark.usefixtures("storages")


def silent_orders() -> dg.AssetsDefinition:
    @dg.asset(name="orders", key_prefix="shop", partitions_def=PARTITIONS, backfill_policy=ONE_RUN)
    def orders() -> None:
        """Return nothing."""

    return orders


def test_days_of_an_asset_that_returned_nothing_are_named(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lake, deliveries = tmp_path / "lake", Deliveries()
    materialize(lake, [orders_asset(deliveries)], "2024-01-01", instance=instance)
    assert sensor_alarms(lake) == []
    materialize(lake, [silent_orders()], "2024-01-02", "2024-01-03", instance=instance)
    materialize(lake, [orders_asset(deliveries)], "2024-01-01", instance=instance)
    (line,) = sensor_alarms(lake)
    assert line.startswith(
        "shop/orders 2024-01-02..2024-01-03: green in Dagster, and no receipt names them"
    )
    materialize(lake, [orders_asset(deliveries)], "2024-01-02", "2024-01-03", instance=instance)
    assert sensor_alarms(lake) == []


@pytest.mark.parametrize(
    "way", ["resource", "open_lake", "opened before", "snapshot", "states only"]
)
def test_a_day_whose_step_reads_a_lake_beside_its_parameters_is_unpinned(
    tmp_path: Path, deliveries: Deliveries, instance: dg.DagsterInstance, way: str
) -> None:
    root = tmp_path / "own"
    first, orders = "2024-01-01", orders_asset(deliveries)
    assert materialize(root, [orders], first, instance=instance).success
    resource, opened = LakeResource(lake=str(root)), open_lake(root, newest=True)
    create_snapshot(opened.lake, opened.pipeline, SnapshotRequest("kept", newest=True))
    before = opened.table("shop__orders")
    reads: dict[str, Callable[[], object]] = {
        "resource": lambda: resource.table("shop__orders").arrow(),
        "open_lake": lambda: open_lake(root, newest=True).table("shop__orders").arrow(),
        "opened before": before.arrow,
        "snapshot": lambda: opened.snapshot("kept"),
        "states only": resource.states,
    }

    @dg.asset(partitions_def=DAYS_OF_ORDERS, metadata={"partition_expr": "day"})
    def side() -> pa.Table:
        reads[way]()
        return deliveries.orders([first])

    assert materialize(root, [side], first, instance=instance).success
    wanted = State.FRESH if way == "states only" else State.UNPINNED
    assert resource.states()["side"][date.fromisoformat(first)] is wanted


def test_days_that_assets_return_to_an_io_manager_are_stale_by_the_receipts_of_their_inputs(
    tmp_path: Path, instance: dg.DagsterInstance, deliveries: Deliveries
) -> None:
    root, assets = tmp_path / "theirs", [orders_asset(deliveries), weekly_asset()]
    assert materialize(root, assets, "2024-01-01", "2024-01-12", instance=instance).success
    ticks = Ticks(instance, is_stale(root), "weekly")
    assert ticks.next() == set()
    deliveries.by_day["2024-01-03"] = [("late", 7)]
    assert materialize(root, assets[:1], "2024-01-03", instance=instance).success
    assert ticks.next() == {f"2024-01-{n:02}" for n in range(3, 10)}
    assert Ticks(instance, is_stale(root), "shop", "orders").next() == set(), (
        "nothing of the lake is its input"
    )


def test_tables_that_assets_of_the_project_return_stay_theirs(tmp_path: Path) -> None:
    deliveries, lake = Deliveries(), tmp_path / "lake"
    orders, weekly = orders_asset(deliveries), weekly_asset()
    with dg.DagsterInstance.ephemeral() as instance:
        materialize(lake, [orders, weekly], "2024-01-01", "2024-01-08", instance=instance)
        deliveries.by_day["2024-01-03"] = [("a", 100)]
        materialize(lake, [orders], "2024-01-03", instance=instance)
        theirs = dg.Definitions(
            assets=[orders, weekly], resources={"io_manager": LakeIOManager(lake=str(lake))}
        )
        merged = dg.Definitions.merge(theirs, build_lake_defs(lake, key_prefix="shop_lake"))
        keys = merged.resolve_asset_graph().get_all_asset_keys()
        assert keys == {orders.key, weekly.key}
        sensor = merged.resolve_sensor_def("shop_lake__late_data")
        with dg.build_sensor_context(instance=instance, definitions=merged) as context:
            found = sensor.evaluate_tick(context)
        assert not found.run_requests
        assert "left to the asset weekly" in (found.cursor or "")
