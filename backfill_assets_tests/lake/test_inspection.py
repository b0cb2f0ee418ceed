"""A look at a table that an engine may no longer open.

Tested here: `lake.inspection` on tables committed by hand and then hurt. Not tested here: what the doctor says of it
(`operations.test_doctor`).
"""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from backfill_assets.lake.home import Lake
from backfill_assets.lake.inspection import inspect
from backfill_assets.lake.log import HEAD, LOG, commit_file
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"entity": "A", "value": 1, "event_date": day(n)} for n in numbers]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with a table of two days."""
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, STAGING, rows(0, 1))
    return lake


@pytest.fixture
def table(lake: Lake) -> Path:
    """Its folder."""
    return lake.table_path(STAGING.name)


def data_file(table: Path) -> Path:
    return next(p for p in sorted(table.rglob("*.parquet")) if "_delta_log" not in p.parts)


def test_a_whole_table_is_counted_by_its_log(lake: Lake) -> None:
    found = inspect(lake, STAGING)
    assert (found.commits, found.files, found.rows, found.lost) == (2, 2, 2, 0)
    assert found.day_rows == {day(0): 1, day(1): 1}
    findings = (found.torn, found.lacking, found.foreign, found.absent, found.altered, found.checkpoints_torn)
    assert not any(findings)


def test_a_torn_commit_is_named_and_nothing_else_is_told(lake: Lake, table: Path) -> None:
    commit_file(table, 1).write_bytes(b'{"commitInfo"')
    found = inspect(lake, STAGING)
    assert list(found.torn) == [1]
    assert found.files == 0


def test_a_version_that_lacks_is_named(lake: Lake, table: Path) -> None:
    commit_file(table, 0).unlink()
    assert inspect(lake, STAGING).lacking == (0,)


def test_files_that_are_gone_or_of_another_size_are_named_by_path(lake: Lake, table: Path) -> None:
    file = data_file(table)
    file.write_bytes(b"other")
    assert inspect(lake, STAGING).altered == (file.relative_to(table).as_posix(),)
    file.unlink()
    assert inspect(lake, STAGING).absent == (file.relative_to(table).as_posix(),)


def test_files_that_no_version_names_are_counted_with_their_bytes(lake: Lake, table: Path) -> None:
    (table / "left.parquet").write_bytes(b"12345")
    assert (inspect(lake, STAGING).lost, inspect(lake, STAGING).lost_bytes) == (1, 5)


def test_commits_of_others_that_moved_rows_are_told_by_version(lake: Lake, table: Path) -> None:
    DeltaTable(str(table)).delete(f"event_date = '{day(0)}'")
    assert inspect(lake, STAGING).foreign == (2,)


def test_a_receipt_that_was_edited_after_the_next_commit_is_named(lake: Lake, table: Path) -> None:
    for n in range(2, 6):
        publish_by_hand(lake, STAGING, rows(n))
    assert inspect(lake, STAGING).edited == ()
    receipt = commit_file(table, 3)
    receipt.write_text(receipt.read_text().replace("test", "tset"))
    assert inspect(lake, STAGING).edited == (3,)


def test_commits_of_versions_that_named_none_before_them_are_no_finding(lake: Lake, table: Path) -> None:
    publish_by_hand(lake, STAGING, rows(2))
    for version in (1, 2):
        text = commit_file(table, version).read_text()
        commit_file(table, version).write_text(text.replace('"backfill_assets.before":', '"another":'))
    (table / LOG / HEAD).unlink()
    assert inspect(lake, STAGING).edited == ()
    publish_by_hand(lake, STAGING, rows(3))
    assert inspect(lake, STAGING).edited == ()
