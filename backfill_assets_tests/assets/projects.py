"""A project of somebody else's: daily assets on pandas and Arrow that keep their days in a lake.
Here: the assets and one way to run days of them. Not here: tests (`test_io_manager.py` and its
neighbours). Rows come from `Deliveries`, which tests change between runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa

from backfill_assets import testing
from backfill_assets.dagster import LakeIOManager
from backfill_assets.reading.opening import open_lake

DAYS = dg.DailyPartitionsDefinition("2024-01-01")
ONE_RUN = dg.BackfillPolicy.single_run()
ORDERS = pa.schema([("day", pa.date32()), ("id", pa.string()), ("amount", pa.int64())])
WEEK = dg.TimeWindowPartitionMapping(start_offset=-6)


@dataclass
class Deliveries:
    """What the world knows: rows of orders by day, as (id, amount); three of each day unless a test
    says otherwise."""

    by_day: dict[str, list[tuple[str | None, int | None]]] = field(default_factory=dict)

    def orders(self, days: Sequence[str]) -> pa.Table:
        """The rows of these days."""
        usual: list[tuple[str | None, int | None]] = [("a", 1), ("b", 2), ("c", 3)]
        rows = [(date.fromisoformat(d), *row) for d in days for row in self.by_day.get(d, usual)]
        return pa.Table.from_pylist(
            [dict(zip(ORDERS.names, row, strict=True)) for row in rows], schema=ORDERS
        )


def orders_asset(
    deliveries: Deliveries, make: Callable[[pa.Table], Any] = lambda rows: rows
) -> dg.AssetsDefinition:
    """The asset `shop/orders`; `make` turns its rows into what it returns."""

    @dg.asset(
        key_prefix="shop",
        partitions_def=DAYS,
        backfill_policy=ONE_RUN,
        metadata={"partition_expr": "day"},
        code_version="1",
    )
    def orders(context: dg.AssetExecutionContext) -> Any:
        return make(deliveries.orders(context.partition_keys))

    return orders


def weekly_asset() -> dg.AssetsDefinition:
    """The asset `weekly`: the sum of seven days of `shop/orders`, by day."""

    @dg.asset(
        ins={"orders": dg.AssetIn(key=["shop", "orders"], partition_mapping=WEEK)},
        partitions_def=DAYS,
        backfill_policy=ONE_RUN,
        metadata={"partition_expr": "day"},
        code_version="1",
    )
    def weekly(context: dg.AssetExecutionContext, orders: pd.DataFrame) -> Any:
        sums = []
        for key in context.partition_keys:
            day = date.fromisoformat(key)
            window = [
                n
                for d, n in zip(orders["day"], orders["amount"], strict=True)
                if day - timedelta(7) < _day(d) <= day
            ]
            sums.append((day, int(sum(window)), len(window)))
        return pd.DataFrame(sums, columns=["day", "total", "orders"])

    return weekly


def _day(value: Any) -> date:
    found: date = value.date() if hasattr(value, "date") else value
    return found


def materialize(
    lake: Path,
    assets: Sequence[Any],
    first: str,
    last: str = "",
    *,
    instance: dg.DagsterInstance,
    **settings: Any,
) -> dg.ExecuteInProcessResult:
    """One run over the days `first` through `last` (both included)."""
    resources = {"io_manager": LakeIOManager(lake=str(lake), **settings)}
    return testing.materialize(
        assets, first, last or None, resources=resources, instance=instance, raise_on_error=False
    )


def rows(lake: Path, table: str) -> list[tuple[Any, ...]]:
    """All rows of a table, sorted."""
    found = open_lake(lake, newest=True).table(table).arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def cause(result: dg.ExecuteInProcessResult) -> str:
    """The words of the first step that failed; empty after a success."""
    failed = [e.step_failure_data for e in result.all_events if e.is_step_failure]
    told = failed[0].user_failure_data if failed else None
    return str(told.description) if told is not None else str(failed[0].error) if failed else ""
