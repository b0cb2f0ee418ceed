"""A project of daily assets whose tables any IO manager of Delta tables may keep.
Here: its assets, their runs, and its tables as a reader of Delta sees them. Not here: what is asked
of the manager (`idioms.py`), and which one it is (`test_idioms.py`,
`benchmarks/stock_managers.py`). Imports nothing of the package: the stock managers live in an
environment of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from deltalake import DeltaTable

FIRST, LAST = "2024-01-01", "2024-01-31"
DAYS = dg.DailyPartitionsDefinition(FIRST)
ORDERS = pa.schema([("day", pa.date32()), ("id", pa.string()), ("amount", pa.int64())])
Rows = list[tuple[Any, ...]]
Make = Callable[[pa.Table], Any]


class Wrong(Exception):
    """What a user sees in place of what is right."""


@dataclass
class World:
    """A project that keeps its tables by one kind of manager. `manager` makes it for a folder;
    `evolving` lets tables change; `checks` are what it offers for "id is unique"; `path` is where
    the table of an asset lies."""

    folder: Path
    instance: dg.DagsterInstance
    manager: Callable[..., Any]
    checks: Callable[[dg.AssetsDefinition], Sequence[Any]]
    path: Callable[[Path, dg.AssetKey], Path]
    spark: Callable[[], Any]
    bad: dict[str, Rows] = field(default_factory=dict)  # rows of a day in place of its usual three

    def orders(
        self, make: Make = lambda rows: rows, annotated: Any = Any, **more: Any
    ) -> dg.AssetsDefinition:
        """The asset `orders`, three rows a day; `make` turns the rows into what it returns."""

        def orders(context: dg.AssetExecutionContext) -> Any:
            return make(self.rows_of(context.partition_keys))

        return daily(orders, annotated, **more)

    def rows_of(self, keys: Sequence[str]) -> pa.Table:
        """What the world delivered for some days."""
        usual = [("a", 1), ("b", 2), ("c", 3)]
        rows = [(date.fromisoformat(d), *row) for d in keys for row in self.bad.get(d, usual)]
        return pa.Table.from_pylist(
            [dict(zip(ORDERS.names, row, strict=True)) for row in rows], ORDERS
        )

    def run(
        self,
        assets: Sequence[Any],
        first: str,
        last: str = "",
        checks: Sequence[Any] = (),
        **keys: Any,
    ) -> str:
        """One run over the days `first` through `last`; the cause where it failed, else an empty
        text."""
        keys = keys or {"io_manager": self.manager(self.folder)}
        job = dg.define_asset_job("job", selection="*", executor_def=dg.in_process_executor)
        defs = dg.Definitions(assets, asset_checks=[*checks], jobs=[job], resources=keys)
        tags = {
            "dagster/asset_partition_range_start": first,
            "dagster/asset_partition_range_end": last or first,
        }
        result = defs.resolve_job_def("job").execute_in_process(
            instance=self.instance, tags=tags, raise_on_error=False
        )
        failed = [e.step_failure_data for e in result.all_events if e.is_step_failure]
        told = failed[0].user_failure_data if failed else None
        return str(told.description) if told else innermost(failed[0].error) if failed else ""

    def must_run(self, assets: Sequence[Any], first: str, last: str = "", **more: Any) -> None:
        """As `run`. Raises Wrong where it failed."""
        if cause := self.run(assets, first, last, **more):
            raise Wrong(cause)

    def table(self, *key: str) -> DeltaTable:
        """The table of an asset, as any reader of Delta sees it."""
        path = self.path(self.folder, dg.AssetKey(list(key)))
        expect((path / "_delta_log").exists(), "there is no table")
        return DeltaTable(str(path))

    def rows(self, *key: str) -> Rows:
        """All rows of an asset's table, its day as a text, sorted."""
        found = self.table(*key).to_pyarrow_table()
        rest = [n for n in found.schema.names if n != "day"]
        return sorted((str(r["day"]), *(r[n] for n in rest)) for r in found.to_pylist())

    def amounts(self, *key: str) -> dict[str, int]:
        """The sum of the column `amount` of each day that has rows."""
        sums: dict[str, int] = {}
        for row in self.table(*key).to_pyarrow_table().to_pylist():
            sums[str(row["day"])[:10]] = sums.get(str(row["day"])[:10], 0) + (row["amount"] or 0)
        return sums


def innermost(error: Any) -> str:
    """The message of the error that came first."""
    while error.cause is not None:
        error = error.cause
    return " ".join(str(error.message).split())


def expect(right: bool, otherwise: str) -> None:
    """Raises Wrong with the words `otherwise`."""
    if not right:
        raise Wrong(otherwise)


def daily(function: Callable[..., Any], returned: Any = Any, **more: Any) -> dg.AssetsDefinition:
    """A daily asset in the words of these managers: one run for a range, its day named by
    `partition_expr`."""
    function.__annotations__["return"] = returned
    words: dict[str, Any] = {
        "partitions_def": DAYS,
        "backfill_policy": dg.BackfillPolicy.single_run(),
        "metadata": {"partition_expr": "day"},
        **more,
    }
    made: dg.AssetsDefinition = dg.asset(**words)(function)
    return made


def reader(
    annotated: Any, first_offset: int = 0, take: Callable[[Any], list[Any]] | None = None
) -> Any:
    """An asset `taken` that reads `orders` in a form, some days before included: per day the
    amounts that it saw."""

    def taken(context: dg.AssetExecutionContext, orders: Any) -> Any:
        rows = take(orders) if take else orders.to_dict("records")
        seen = [(str(r["day"])[:10], r["amount"]) for r in rows]
        window = [
            (date.fromisoformat(k), date.fromisoformat(k) + timedelta(first_offset))
            for k in context.partition_keys
        ]
        sums = [sum(n for d, n in seen if str(low) <= d <= str(day)) for day, low in window]
        return pa.table({"day": [day for day, _ in window], "amount": pa.array(sums, pa.int64())})

    taken.__annotations__["orders"] = annotated
    mapping = dg.TimeWindowPartitionMapping(start_offset=first_offset)
    return daily(taken, pa.Table, ins={"orders": dg.AssetIn(partition_mapping=mapping)})


def days(count: int) -> list[str]:
    """The first days of the tables."""
    return [str(date.fromisoformat(FIRST) + timedelta(n)) for n in range(count)]
