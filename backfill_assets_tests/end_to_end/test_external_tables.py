"""Daily tables that others write, as inputs of own tables: which days become stale when they change there.

Tested here: the way from a change in the others' table to the rebuilt day, by the doors that users take. Not tested
here: what one look finds (`lake/test_observing.py`), and what can be read of a table (`lake/test_external.py`).
"""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from backfill_assets.cli.app import app
from backfill_assets.lake.home import Lake
from backfill_assets.testing import new_lake, rows_of
from backfill_assets_tests.lakes import SHARED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

D1, D2, D3 = date(2024, 3, 1), date(2024, 3, 2), date(2024, 3, 3)
Command = Callable[..., Any]
TRAILING = '''"""Money per customer over two days."""

from backfill_assets import Column, Contract, Input, Table
from pyspark.sql import functions as F

SPENT = Contract(
    "spent",
    "Money per customer, the day and the one before.",
    (Column("customer", "STRING", "whose"), Column("day", "DATE", "when"), Column("amount", "BIGINT", "how much")),
    day_column="day",
    key=("customer",),
    inputs=(Input("orders", before=1),),
)


def spent(frames, chunk):
    orders = frames["orders"]
    later = orders.withColumn("order_date", F.date_add("order_date", 1))
    both = orders.union(later).groupBy("customer", F.col("order_date").alias("day"))
    days = both.agg(F.sum("amount").alias("amount"))
    return days.where(F.col("day").between(F.lit(chunk.days.start), F.lit(chunk.days.last)))


def tables(settings):
    return [Table(SPENT, spent)]
'''


def orders(*rows: tuple[date | None, str, int]) -> pa.Table:
    days, customers, amounts = zip(*rows, strict=True)
    return pa.table(
        {
            "order_date": pa.array(days, pa.date32()),
            "customer": list(customers),
            "amount": pa.array(amounts, pa.int64()),
        }
    )


FIRST = orders((D1, "ada", 1), (D1, "ben", 2), (D2, "ada", 4), (D3, "ben", 8))


@pytest.fixture(params=[["order_date"], []], ids=["partitioned by the day", "not partitioned"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The others' table."""
    write_deltalake(tmp_path / "warehouse" / "orders", FIRST, partition_by=request.param or None)
    return tmp_path / "warehouse" / "orders"


@pytest.fixture
def lake(tmp_path: Path, place: Path, spark: "SparkSession", storages: None) -> Lake:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "pipeline.py").write_text(TRAILING)
    return new_lake(
        tmp_path / "lake", D1, assets_only=True, spark=dict(SHARED), pipeline={"tables": "pipeline.py:tables"},
        tables={"orders": {"external": "../warehouse/orders", "day": "order_date"}},
    )  # fmt: skip


@pytest.fixture
def command(lake: Lake) -> Command:
    def run(*words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, ["--lake", str(lake.root), *words])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if "--json" in words else done.output

    return run


def spent(lake: Lake, day: date) -> dict[str, int]:
    return {row["customer"]: row["amount"] for row in rows_of(lake, "spent", day)}


def test_exactly_the_days_made_from_a_changed_day_are_made_again(lake: Lake, place: Path, command: Command) -> None:
    command("catch-up")
    assert [spent(lake, d) for d in (D1, D2, D3)] == [{"ada": 1, "ben": 2}, {"ada": 5, "ben": 2}, {"ada": 4, "ben": 8}]
    DeltaTable(place).update(updates={"amount": "5"}, predicate="customer = 'ada' AND order_date = '2024-03-02'")
    assert command("scan", "--json")["external"]["orders"] == {
        "version": 1, "days": [str(D2)], "rows_without_day": 0,
    }  # fmt: skip
    runs = command("catch-up", "--json")["runs"]
    assert [(r["days"], [t["table"] for t in r["tables"]]) for r in runs] == [(f"{D2}..{D3}", ["spent"])]
    assert [spent(lake, d) for d in (D1, D2, D3)] == [{"ada": 1, "ben": 2}, {"ada": 6, "ben": 2}, {"ada": 5, "ben": 8}]


def test_a_compaction_there_makes_no_day_stale(lake: Lake, place: Path, command: Command) -> None:
    write_deltalake(place, orders((D3, "cid", 16)), mode="append")
    command("catch-up")
    DeltaTable(place).optimize.compact()
    DeltaTable(place).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert command("scan", "--json")["external"]["orders"]["days"] == []
    assert "Nothing to do" in command("catch-up")
    assert {row["customer"] for row in rows_of(lake, "orders", D3)} == {"ben", "cid"}
