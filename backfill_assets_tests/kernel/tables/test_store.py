"""The store of tables as the load path sees it: by name, whole days, receipts.
Not here: rows through an engine (`test_data_files`), commits (`test_committer`) and the way back
(`test_restore`)."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.upkeep.inspection import inspect_table
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.logs import place_of

pytestmark = pytest.mark.usefixtures("storages")


def test_a_table_that_was_never_made_has_no_commits_no_rows_and_the_version_before_the_first(
    lake: Lake,
) -> None:
    store: TableStore = lake.store
    assert not store.exists("staging")
    assert list(store.commits("staging")) == []
    assert store.rows("staging") == []
    assert store.view("staging", "event_date").version == -1
    assert inspect_table(lake, STAGING).commits == 0


def row(entity: str, number: int) -> dict[str, Any]:
    return {"entity": entity, "value": 1, "event_date": day(number)}


@pytest.fixture
def two_days(tmp_path: Path) -> Lake:
    """A table of two days in two commits, after the one that makes it."""
    two_days = bare_lake(tmp_path)
    publish_by_hand(two_days, STAGING, [row("A", 0)])
    publish_by_hand(two_days, STAGING, [row("B", 1)])
    return two_days


@pytest.fixture
def folder(two_days: Lake) -> Path:
    """Its folder."""
    return two_days.table_place(STAGING.name).local()


def entities(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(r["entity"] for r in rows)


def test_what_another_program_added_or_deleted_is_not_read_as_ours(
    two_days: Lake, folder: Path
) -> None:
    assert not LOGS.state(place_of(folder), STAGING.day_column).others
    added = pa.table({"entity": ["C"], "value": pa.array([1], pa.int64()), "event_date": [day(2)]})
    write_deltalake(
        str(folder),
        added.cast(pa.schema(DeltaTable(str(folder)).schema().to_arrow())),
        mode="append",
    )
    DeltaTable(str(folder)).delete("entity = 'A'")
    assert LOGS.state(place_of(folder), STAGING.day_column).others
    assert entities(two_days.store.rows(STAGING.name)) == ["B", "C"]
    assert entities(two_days.store.own_rows(STAGING.name, STAGING.day_column)) == ["A", "B"]


def test_where_a_file_of_ours_is_gone_after_others_wrote_nothing_is_read(
    two_days: Lake, folder: Path
) -> None:
    DeltaTable(str(folder)).delete("entity = 'A'")
    for file in folder.rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()
    with pytest.raises(BackfillError, match="another program changed it, and 2 data file"):
        two_days.store.own_rows(STAGING.name, STAGING.day_column)
