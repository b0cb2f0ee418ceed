"""Rows through delta-rs: small tables, queries over pinned versions, and what others did to append-only tables.

Tested here: `lake.store` on tables committed by hand. Not tested here: what rows mean (`test_ledger`).
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.store import changed_by_others
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")


def row(entity: str, number: int) -> dict[str, Any]:
    return {"entity": entity, "value": 1, "event_date": day(number)}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table of two days in two commits, after the one that makes it."""
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, STAGING, [row("A", 0)])
    publish_by_hand(lake, STAGING, [row("B", 1)])
    return lake


@pytest.fixture
def table(lake: Lake) -> Path:
    """Its folder."""
    return lake.table_path(STAGING.name)


def entities(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(r["entity"] for r in rows)


def test_a_query_sees_each_table_at_its_own_version(lake: Lake) -> None:
    sql = "SELECT (SELECT count(*) FROM old) AS before, (SELECT count(*) FROM new) AS now"
    (batch,) = lake.store.query(sql, {"old": (STAGING.name, 1), "new": (STAGING.name, None)})
    assert [batch.column(n).to_pylist() for n in ("before", "now")] == [[1], [2]]


def test_what_another_program_added_or_deleted_is_not_read_as_ours(lake: Lake, table: Path) -> None:
    assert not changed_by_others(table)
    added = pa.table({"entity": ["C"], "value": pa.array([1], pa.int64()), "event_date": [day(2)]})
    write_deltalake(str(table), added.cast(pa.schema(DeltaTable(str(table)).schema().to_arrow())), mode="append")
    DeltaTable(str(table)).delete("entity = 'A'")
    assert changed_by_others(table)
    assert entities(lake.store.rows(STAGING.name)) == ["B", "C"]
    assert entities(lake.store.own_rows(STAGING.name)) == ["A", "B"]


def test_where_a_file_of_ours_is_gone_after_others_changed_the_table_nothing_is_read(lake: Lake, table: Path) -> None:
    DeltaTable(str(table)).delete("entity = 'A'")
    for file in table.rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()
    with pytest.raises(BackfillError, match="another program changed it, and 2 data file"):
        lake.store.own_rows(STAGING.name)
