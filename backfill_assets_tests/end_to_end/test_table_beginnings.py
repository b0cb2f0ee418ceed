"""A table that others write, from a version on that a lake had read as a commit before. Here: an
update by deletion vectors. Not here: contents of such a version (`intake.test_beginnings`), what
the log lost before it was read (`test_table_history`), and tables as Spark writes them
(`test_delta_features`)."""

from pathlib import Path

import pytest

from backfill_assets.intake.scan import scan_all, withdraw_disputed
from backfill_assets_tests.delta_features import update_by_vector
from backfill_assets_tests.end_to_end.test_table_sources import DAYS, world_of
from backfill_assets_tests.tables import added_files, append, committed

pytestmark = pytest.mark.usefixtures("spark")
AT = "2024-03-01 10:00"


def test_a_lake_that_begins_with_an_update_holds_all_rows_and_no_delete_of_what_never_came(
    tmp_path: Path,
) -> None:
    table = tmp_path / "orders"
    append(table, "2024-03-01 20:00", *[(key, AT, "A", 1) for key in "abc"])
    append(table, "2024-03-02 20:00", ("b", AT, "A", 7))
    update_by_vector(table, 1, added_files(table, 1)[0], 1)
    committed(table, "2024-03-02 20:00")
    world_of(tmp_path / "lake", table).backfill(DAYS)
    world = world_of(tmp_path / "lake", table, "first_version = 1")
    assert scan_all(world.open()[0]).altered == ("1/changes",)
    withdraw_disputed(world.open()[0], "it begins here")
    world.backfill(DAYS)
    found = sorted((r["event_key"], r["log_change"], r["value"]) for r in world.content("raw"))
    assert found == [("a", "insert", 1), ("b", "insert", 7), ("c", "insert", 1)]
