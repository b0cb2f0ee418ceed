"""Logs in a store as a process knows them: read once, and never taken for what they are no more.
Not here: how few requests that takes (`end_to_end.test_bucket_requests`), and logs in a folder
(`test_log_state`)."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill_assets.kernel.core.errors import TransientError
from backfill_assets.kernel.log.log import commit_name, open_delta
from backfill_assets.kernel.log.log_state import LOGS, LogCache
from backfill_assets.kernel.tables.data_files import live_files
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.builders import day
from backfill_assets_tests.end_to_end.test_bucket_lake import bare_bucket, content, written


@pytest.fixture
def lake(bucket_address: str, tmp_path: Path) -> Lake:
    """A lake in a bucket whose table has one day."""
    lake = bare_bucket(bucket_address, tmp_path)
    written(lake, 1, 0)
    return lake


def test_a_log_that_took_the_place_of_another_is_read_from_its_beginning(lake: Lake) -> None:
    table = lake.table_place("staging")
    for value in (2, 3):
        written(lake, value, 0)
    assert LOGS.state(table, "event_date").version == 3
    table.delete_below("")
    written(lake, 4, 1)
    assert {*LOGS.state(table, "event_date").latest} == {day(1)}
    assert content(lake) == [(day(1), 4)]
    written(lake, 5, 1)
    assert content(lake) == [(day(1), 5)]


def test_a_process_that_knows_a_table_goes_on_from_what_others_committed_meanwhile(
    lake: Lake,
) -> None:
    table, others = lake.table_place("staging"), LogCache()
    written(lake, 2, 0)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("tables.store", "tables.committer", "tables.data_files"):
            patch.setattr(f"backfill_assets.kernel.{module}.LOGS", others)  # as another process
        for value in range(3, 6):
            written(lake, value, 0, 1)
    written(lake, 6, 1)
    assert content(lake) == [(day(0), 5), (day(1), 6)]
    assert LOGS.state(table, "event_date") == LogCache().state(table, "event_date")


def test_a_reader_in_another_thread_keeps_the_version_that_it_was_given(lake: Lake) -> None:
    table = lake.table_place("staging")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(LOGS.opened, table, 1).result()
    before = live_files(read, "event_date")
    for value in (2, 3):
        written(lake, value, 0)
    assert (read.version(), live_files(read, "event_date")) == (1, before)
    assert (
        live_files(LOGS.opened(table), "event_date")
        == live_files(LogCache().opened(table), "event_date")
        != before
    )


def test_a_store_that_lists_a_log_as_it_was_before_is_named_with_both_versions(lake: Lake) -> None:
    table, newest = lake.table_place("staging"), commit_name(1)
    assert LOGS.head(table) == 1

    opens = DeltaTable.__init__

    def as_before(opened: DeltaTable, uri: str, version: int) -> None:
        """What delta-rs makes of a listing without the newest commit."""
        content = table.read(newest)
        table.delete(newest)
        try:
            opens(opened, uri, version=version)
        finally:
            table.write(newest, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaTable, "__init__", as_before)
        with pytest.raises(TransientError) as told:
            LogCache().opened(table)
    assert str(told.value) == (
        "the table staging: its store lists its log up to version 0, though version 1 is there. "
        "Nothing was read or "
        "written by this request. Run again; a store whose listings stay old breaks what is asked "
        "of it "
        "(`backfill-assets doctor`)."
    )
    with pytest.raises(
        DeltaError, match="LogSegment end version 1"
    ):  # there is none: no fault of the store's
        open_delta(table, 7)
