"""What a place says that it holds.
Not here: which days are brought (`test_export`)."""

from pathlib import Path

import pytest
from filelock import FileLock

from backfill_assets.export.export_sinks import ExportedDay, sink_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.place.choice import bucket_prefix_at
from backfill_assets_tests.builders import STAGING
from backfill_assets_tests.files import bare_lake

COLUMNS = {"key": "STRING", "till": "INT"}
HELD = ExportedDay.of(3, DayEntry(2, "F", "digest"), COLUMNS, "table")


def test_the_same_rows_of_another_version_are_equal_and_other_rows_are_not() -> None:
    assert HELD.equals(ExportedDay.of(9, DayEntry(2, "F", "another"), COLUMNS, "table"))
    assert not HELD.equals(ExportedDay.of(3, DayEntry(2, "G", "digest"), COLUMNS, "table"))
    assert not HELD.equals(ExportedDay.of(3, DayEntry(1, "F", "digest"), COLUMNS, "table"))


@pytest.mark.parametrize(
    ("columns", "table"),
    [
        ({"key": "STRING", "sold": "INT"}, "table"),
        ({**COLUMNS, "till": "BIGINT"}, "table"),
        (COLUMNS, "made anew"),
    ],
)
def test_other_names_other_types_and_another_table_are_no_equal_day(
    columns: dict[str, str], table: str
) -> None:
    assert not HELD.equals(ExportedDay.of(3, DayEntry(2, "F", "digest"), columns, table))


def test_a_version_is_newer_than_another_one_of_the_same_table_alone() -> None:
    older, elsewhere = (
        ExportedDay.of(1, DayEntry(2, "F", "digest"), COLUMNS, table)
        for table in ("table", "made anew")
    )
    assert HELD.is_newer_than(older)
    assert not older.is_newer_than(HELD)
    assert not HELD.is_newer_than(elsewhere)


@pytest.mark.slow
def test_two_exports_of_a_table_to_one_folder_do_not_run_at_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lake, out = bare_lake(tmp_path_factory.mktemp("lake")), tmp_path_factory.mktemp("out")
    (out / STAGING.name).mkdir()
    with (
        FileLock(out / STAGING.name / ".lock"),
        pytest.raises(BackfillError, match="another export of the table to it runs"),
        sink_of(lake, STAGING, str(out)),
    ):
        raise AssertionError("it was opened")


def test_an_export_to_a_bucket_waits_for_the_lease_that_a_killed_one_left(
    bucket_address: str, tmp_path: Path
) -> None:
    lake, to = bare_lake(tmp_path), bucket_prefix_at(f"{bucket_address}/out/{STAGING.name}")
    to.write_json(
        ".lock", {"state": "staged", "seconds": 1, "owner": "process 1 of gone", "nonce": "1"}
    )
    with sink_of(lake, STAGING, f"{bucket_address}/out"):
        assert to.read_json(".lock")["owner"] != "process 1 of gone"
