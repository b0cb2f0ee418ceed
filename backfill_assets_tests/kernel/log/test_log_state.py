"""Looking at a log again and again: only new commits are read, and a log that was replaced or torn
is noticed. Not here: what one look gives (`test_log`)."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.log.log_state import LogCache
from backfill_assets_tests.builders import add, commit_days, day, make_commit
from backfill_assets_tests.logs import commit_file, place_of

COLUMN = "event_date"


def test_a_second_look_reads_nothing_and_a_later_one_only_what_is_new(
    table: Path, read: list[int]
) -> None:
    logs = LogCache()
    for version in range(5):
        commit_days(table, version, version)
    first = logs.state(place_of(table), COLUMN)
    assert logs.state(place_of(table), COLUMN) == first
    assert read == [0, 1, 2, 3, 4]
    commit_days(table, 5, 2)
    assert logs.state(place_of(table), COLUMN) == LogCache().state(place_of(table), COLUMN)
    assert (read[5], read[6:]) == (5, [0, 1, 2, 3, 4, 5]), "the last six by the look without memory"
    assert first.latest[day(2)].version == 2, "what was handed out stays as it was"


def test_a_log_that_was_replaced_is_read_again(table: Path, read: list[int]) -> None:
    logs = LogCache()
    for version in range(3):
        commit_days(table, version, version)
    logs.state(place_of(table), COLUMN)
    commit_file(table, 1).unlink()
    commit_days(table, 3, 3)
    with pytest.raises(BackfillError, match="lacks version 1"):
        logs.state(place_of(table), COLUMN)
    for version in (0, 2, 3):
        commit_file(table, version).unlink()
    commit_days(table, 0, 9)
    assert set(logs.state(place_of(table), COLUMN).latest) == {day(9)}


def test_a_newest_commit_rewritten_in_place_with_its_size_and_time_is_noticed(table: Path) -> None:
    logs = LogCache()
    commit_days(table, 0, 1)
    commit_days(table, 1, 2)
    logs.state(place_of(table), COLUMN)
    path = commit_file(table, 1)
    before = path.stat()
    path.write_text(path.read_text().replace(str(day(2)), str(day(3))))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert set(logs.state(place_of(table), COLUMN).latest) == {day(1), day(3)}


def test_a_newest_commit_that_is_torn_later_is_refused_and_once_restored_read(table: Path) -> None:
    logs = LogCache()
    for version in range(3):
        commit_days(table, version, version)
    before = logs.state(place_of(table), COLUMN)
    path = commit_file(table, 2)
    content = path.read_text()
    path.write_text("")
    with pytest.raises(BackfillError, match="torn"):
        logs.state(place_of(table), COLUMN)
    path.write_text(content)
    assert logs.state(place_of(table), COLUMN) == before


@given(
    st.lists(
        st.tuples(st.sampled_from(["ours", "foreign", "look"]), st.integers(0, 5)), max_size=15
    )
)
def test_looks_in_between_change_nothing_about_what_a_look_gives(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[str, int]]
) -> None:
    table, logs, version = tmp_path_factory.mktemp("log") / "staging", LogCache(), 0
    for what, number in story:
        if what == "look":
            assert logs.state(place_of(table), COLUMN) == LogCache().state(place_of(table), COLUMN)
            continue
        if what == "ours":
            commit_days(table, version, number, inputs={"raw": version})
        else:
            make_commit(table, version, actions=[add(str(day(number)))])
        version += 1
    assert logs.state(place_of(table), COLUMN) == LogCache().state(place_of(table), COLUMN)
