"""Days that are green in Dagster and have no receipt.

Tested here: an asset that returns nothing, found at the end of its run and by a tick, and named by `status`. Not tested
here: what an IO manager refuses (`dagster/test_io_manager.py`).
"""

from pathlib import Path

import dagster as dg

from backfill_assets.operations.standing import attention
from backfill_assets_tests.dagster.projects import (
    DAYS,
    ONE_RUN,
    Deliveries,
    materialize,
    orders_asset,
)


def silent_orders() -> dg.AssetsDefinition:
    @dg.asset(name="orders", key_prefix="shop", partitions_def=DAYS, backfill_policy=ONE_RUN)
    def orders() -> None:
        """Return nothing."""

    return orders


def test_days_of_an_asset_that_returned_nothing_are_named_until_they_are_made(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lake, deliveries = tmp_path / "lake", Deliveries()
    materialize(lake, [orders_asset(deliveries)], "2024-01-01", instance=instance)
    assert attention(lake) == []
    materialize(lake, [silent_orders()], "2024-01-02", "2024-01-03", instance=instance)
    materialize(lake, [orders_asset(deliveries)], "2024-01-01", instance=instance)
    (line,) = attention(lake)
    assert line.startswith("shop/orders 2024-01-02..2024-01-03: green in Dagster, and no receipt names them")
    materialize(lake, [orders_asset(deliveries)], "2024-01-02", "2024-01-03", instance=instance)
    assert attention(lake) == []
