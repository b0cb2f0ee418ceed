"""Logs in a store as a process knows them: read once, and never taken for what they are no more.
Not here: how few requests that takes (`end_to_end.test_bucket_requests`), and logs in a folder
(`test_log_state`)."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.errors import TransientError
from backfill_assets.kernel.log.log import commit_name, commit_versions, open_delta
from backfill_assets.kernel.log.log_state import KEEP_EVERY, LOGS, LogCache
from backfill_assets.kernel.log.state_files import keep_state, state_name
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import Token
from backfill_assets.kernel.tables.data_files import live_files
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.builders import commit_days, day
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


COLUMN, LONG = "event_date", 3 * KEEP_EVERY


class ListedFolder(Folder):
    """A folder that is looked at as a store is, and notes what listings and reads gave."""

    given: ClassVar[list[str]] = []

    @property
    def is_store(self) -> bool:
        return True

    def names(self, folder: str = "") -> list[str]:
        return self._noted(super().names(folder))

    def tokens(self, folder: str = "", after: str = "") -> dict[str, Token]:
        found = super().tokens(folder, after)
        self._noted([*found])
        return found

    def open(self, name: str, **how: Any) -> Any:
        self._noted([name])
        return super().open(name, **how)

    def _noted(self, names: list[str]) -> list[str]:
        self.given.extend(names)
        return names


def _log_of(table: Path, commits: int, first: int = 0) -> None:
    """A log of so many commits with what the committer keeps; of a long one the beginning is
    further names of one commit."""
    told = max(first, commits - LONG)
    for version in range(told, commits):
        commit_days(table, version, version % 7)
    for version in range(first, told):
        os.link(table / commit_name(told), table / commit_name(version))
    for kept in range(told + told % KEEP_EVERY, commits - KEEP_EVERY + 1, KEEP_EVERY):
        keep_state(Folder(str(table)), COLUMN, LogCache().state(Folder(str(table)), COLUMN, kept))


def _asked(table: Path) -> list[str]:
    """What a process that knows nothing gets from the place to know the state of a table."""
    place = ListedFolder(str(table))
    place.given.clear()
    LogCache().state(place, COLUMN)
    return [*place.given]


def test_a_process_that_knows_nothing_is_given_the_same_however_long_a_log_is(
    tmp_path: Path,
) -> None:
    asked = dict[int, int]()
    for commits in (100, 1_000, 10_000):
        _log_of(tmp_path / str(commits), commits)
        asked[commits] = len(_asked(tmp_path / str(commits)))
    assert len({*asked.values()}) == 1, asked
    assert asked[100] <= 2 * (KEEP_EVERY + 5), "names and files behind the newest kept state"


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a log of `LONG` commits."""
    table = tmp_path_factory.mktemp("log") / "staging"
    _log_of(table, LONG)
    return table


FAULTS = ("gone", "damaged", "of another log", "of a version to come")


@given(
    commits=st.integers(1, LONG),
    faults=st.lists(st.sampled_from(FAULTS), max_size=3),
    after=st.integers(-1, LONG),
)
def test_what_a_kept_state_says_of_a_log_is_a_hint_and_the_log_decides(
    long_log: Path, commits: int, faults: list[str], after: int
) -> None:
    table = long_log.with_name("changed")
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(long_log, table)
    states = sorted((table / state_name(0)).parent.iterdir(), reverse=True)
    for fault, state in zip(faults, states, strict=False):
        if fault == "gone":
            state.unlink()
        elif fault == "damaged":
            state.write_bytes(b"half")
        elif fault == "of another log":
            (table / commit_name(int(state.name[:20]))).unlink()
            commit_days(table, int(state.name[:20]), 9)
        else:
            shutil.copy(state, table / state_name(LONG + int(state.name[:20])))
    for version in range(commits, LONG):  # a table that was put back to a version before
        (table / commit_name(version)).unlink()
    plain, listed = LogCache(), LogCache()
    here, there = Folder(str(table)), ListedFolder(str(table))
    assert listed.head(there) == max(commit_versions(here))
    assert listed.state(there, COLUMN) == plain.state(here, COLUMN)
    assert listed.commits(there, after) == plain.commits(here, after)
    assert listed.commits(there) == plain.commits(here)


def test_files_of_a_table_are_looked_at_without_its_log(tmp_path: Path) -> None:
    table = ListedFolder(str(tmp_path / "staging"))
    _log_of(tmp_path / "staging", LONG)
    names = [f"{COLUMN}={day(number)}/part.parquet" for number in range(9)]
    for name in names[1:]:
        table.write(name, b"PAR1")
    table.given.clear()
    assert table.sizes(names) == {names[0]: None, **dict.fromkeys(names[1:], 4)}
    assert sorted(table.given) == names[1:]


def test_a_table_of_the_lakes_own_address_is_of_nobody_else(lake: Lake) -> None:
    own = lake.table_place("staging")
    assert not own.may_be_of_others
    assert place_of_others(own.uri()).may_be_of_others
    assert Folder("/nowhere").may_be_of_others
