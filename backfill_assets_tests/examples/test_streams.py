"""The files that each example lands: always the same, and streams with what their steps need, such as late rows.
Not here: the steps, and what comes of the rows (`end_to_end`)."""

from pathlib import Path

import duckdb
import pytest

from backfill_assets.examples import stories, streams
from backfill_assets.operations.example_lakes import HOME

GENERATORS = {**streams.STREAMS, **stories.STORIES}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_files_are_made_every_time(name: str) -> None:
    assert GENERATORS[name]() == GENERATORS[name]()


def test_big_orders_come_of_sql_as_many_as_are_asked_for_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    query = (HOME / "big_orders" / "generate.sql").read_text(encoding="utf-8")
    found = []
    for _ in range(2):
        duckdb.execute(query.replace("{lake}", str(tmp_path)).replace("{rows}", "1000"))
        read = f"FROM read_parquet('{tmp_path}/landing/**/*.parquet') SELECT count(*), count(DISTINCT order_id)"
        found += duckdb.execute(read + ", count(DISTINCT day), min(ordered_at)::VARCHAR, sum(cents)").fetchall()
    assert found[0][:3] == (1_000, 1_000, 30)
    assert found[0] == found[1]
