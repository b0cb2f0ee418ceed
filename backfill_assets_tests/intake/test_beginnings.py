"""What a table of others held at the version that reading begins with, in a content store that has
what the same commit changed. Not here: the ledger then (`end_to_end.test_table_beginnings`)."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.intake.table_changes import take_in_content
from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.delta_features import rename_columns, update_by_vector
from backfill_assets_tests.tables import added_files, append, brought, committed, rows_of_orders

AT = "2024-03-01 10:00"


def _update(table: Path) -> None:
    append(table, "2024-03-02 20:00", ("b", AT, "A", 7))
    update_by_vector(table, 1, added_files(table, 1)[0], 1)


def _update_of_two_files(table: Path) -> None:
    append(table, "2024-03-02 19:00", ("c", AT, "B", 1))
    append(table, "2024-03-02 20:00", ("b", AT, "A", 7))
    update_by_vector(table, 1, added_files(table, 2)[0], 2)


def _overwrite(table: Path) -> None:
    rename_columns(table, {"n": "amount"})
    rows = rows_of_orders([("a", AT, "A", 1), ("b", AT, "A", 7)])
    write_deltalake(str(table), rows, mode="overwrite", schema_mode="overwrite")
    committed(table, "2024-03-02 20:00")
    rename_columns(table, {}, version=1)


@pytest.mark.parametrize("partition_by", [None, ["who"]])
@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize("change", [_update, _update_of_two_files, _overwrite])
def test_the_content_that_reading_begins_with_is_all_that_the_table_held_and_nothing_that_went(
    lake: Lake,
    tmp_path: Path,
    change: Callable[[Path], None],
    is_cleaned: bool,
    partition_by: list[str] | None,
) -> None:
    table = tmp_path / "orders"
    append(
        table,
        "2024-03-01 20:00",
        *[(key, AT, "A", 1) for key in "ab"],
        partition_by=partition_by,
    )
    change(table)
    for content in brought(table):  # as a lake that began earlier has them
        take_in_content(lake, content)
    newest = DeltaTable(str(table)).version()
    if is_cleaned:
        DeltaTable(str(table)).create_checkpoint()
        for version in range(newest):
            (table / commit_name(version)).unlink()
    stored = [take_in_content(lake, content) for content in brought(table, newest)]
    found = [row for one in stored for row in pq.read_table(one.parquet).to_pylist()]
    keys = {"a": 1, "b": 7} | ({"c": 1} if change is _update_of_two_files else {})
    assert {row.get("_change_type", "insert") for row in found} == {"insert"}
    assert {row["id"]: row.get("n", row.get("amount")) for row in found} == keys
