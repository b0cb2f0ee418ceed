"""Throw-away lakes: rows replaced by the product's writer, and rows as other programs leave them.
Not here: what labs show with them."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.kernel.tables.home import Lake
from backfill_assets.learn.lab_lakes import (
    append_foreign_rows,
    event_rows,
    first_events,
    make_lake,
    replace_by_day,
)

pytestmark = pytest.mark.usefixtures("storages")
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with two events of one day."""
    made = make_lake(tmp_path / "lake", date(2024, 3, 1))
    replace_by_day(made, first_events(made), event_rows([(NOON, 1), (NOON, 2)]))
    return made


def test_a_day_replaced_by_the_same_rows_makes_no_commit_and_by_others_one(lake: Lake) -> None:
    table = first_events(lake)
    assert not replace_by_day(lake, table, event_rows([(NOON, 1), (NOON, 2)])).write_id
    assert replace_by_day(lake, table, event_rows([(NOON, 3)])).changed == {date(2024, 3, 1)}
    assert [row["value"] for row in lake.store.rows(table.name)] == [3]


def test_an_append_adds_rows_without_a_receipt_and_its_days_count_as_foreign(lake: Lake) -> None:
    table = first_events(lake)
    append_foreign_rows(lake, table, event_rows([(NOON, 5)], "again"))
    assert sorted(row["value"] for row in lake.store.rows(table.name)) == [1, 2, 5]
    assert lake.store.view(table.name, table.day_column).foreign == {date(2024, 3, 1)}
