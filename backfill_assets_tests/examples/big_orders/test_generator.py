"""The example `big-orders` lands nothing by itself; its SQL writes as many rows as it is asked for, always the same.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

from pathlib import Path
from typing import Any

import duckdb

from backfill_assets.examples.big_orders.generator import files
from backfill_assets.operations.example_lakes import HOME


def total(lake: Path, rows: int) -> list[tuple[Any, ...]]:
    query = (HOME / "big_orders" / "generate.sql").read_text(encoding="utf-8")
    duckdb.execute(query.replace("{lake}", str(lake)).replace("{rows}", str(rows)))
    read = f"FROM read_parquet('{lake}/landing/**/*.parquet') SELECT count(*), count(DISTINCT order_id)"
    return duckdb.execute(read + ", count(DISTINCT day), min(ordered_at)::VARCHAR, sum(cents)").fetchall()


def test_the_sql_writes_so_many_orders_of_thirty_days_the_same_every_time(tmp_path: Path) -> None:
    assert files() == {}
    (tmp_path / "landing").mkdir()
    ((rows, keys, days, *_),) = first = total(tmp_path, 1_000)
    assert (rows, keys, days) == (1_000, 1_000, 30)
    assert total(tmp_path, 1_000) == first
