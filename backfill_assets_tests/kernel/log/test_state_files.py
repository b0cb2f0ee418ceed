"""States kept in files: what a state and the commits after it give is what all commits give,
whatever the file holds. Not here: that every commit keeps one (`test_committer`), and what `verify`
says of a false one (`upkeep.test_doctor_verify`)."""

import gzip
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.engines import ENGINE, IRREPRODUCIBLE
from backfill_assets.kernel.core.frontier import FRONTIERS
from backfill_assets.kernel.core.plans import REPLAY
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.core.view import TableView
from backfill_assets.kernel.log.log_state import KEEP_EVERY, LogCache, false_states
from backfill_assets.kernel.log.state_files import (
    KEPT_STATES,
    keep_state,
    kept_versions,
    state_content,
)
from backfill_assets_tests.builders import add, commit_days, day, make_commit, receipt
from backfill_assets_tests.logs import place_of, state_file

COLUMN = "event_date"
LENGTH = 2 * KEEP_EVERY + 5


def _history(table: Path, length: int = LENGTH, first: int = 0) -> None:
    """Commits of ours, each followed by what the committer does."""
    logs = LogCache()
    for version in range(first, length):
        commit_days(table, version, version % 7, inputs={"raw": version})
        logs.keep_newest_state(place_of(table), COLUMN)


def _folded(table: Path, version: int | None = None) -> TableView:
    """The state by all commits alone."""
    bare = table.parent / "bare" / table.name
    shutil.copytree(table, bare, ignore=shutil.ignore_patterns(".state"))
    found = LogCache().state(place_of(bare), COLUMN, version)
    shutil.rmtree(bare.parent)
    return found


def _everything(table: Path, state: TableView) -> Any:
    """A state with what does not count for equality."""
    return json.loads(json.dumps(state_content(place_of(table), COLUMN, state)))


def _rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(gzip.decompress(path.read_bytes()))
    change(content)
    path.write_bytes(gzip.compress(json.dumps(content).encode()))


# what is read


def test_the_newest_states_are_kept_and_nothing_else(table: Path) -> None:
    _history(table, 5 * KEEP_EVERY)
    left = state_file(table, 0).with_name(f"{state_file(table, 19).name}.f00d")
    left.write_bytes(b"half of a sta")
    _history(table, 6 * KEEP_EVERY, first=5 * KEEP_EVERY)
    assert [v + 1 for v in kept_versions(place_of(table))] == [5 * KEEP_EVERY, 6 * KEEP_EVERY]
    assert len(list(left.parent.iterdir())) == KEPT_STATES, "what a killed writer left is gone"


def test_states_of_another_release_are_replaced_at_the_next_commit(table: Path) -> None:
    _history(table)
    for path in state_file(table, 0).parent.iterdir():
        path.rename(path.with_name(f"{path.name[:20]}.0123abcd.json.gz"))
    commit_days(table, LENGTH, 3)
    LogCache().keep_newest_state(place_of(table), COLUMN)
    assert [p.name for p in state_file(table, 0).parent.iterdir()] == [
        state_file(table, LENGTH).name
    ]


@pytest.mark.parametrize("ahead", [0, 1, KEEP_EVERY, 10 * KEEP_EVERY])
def test_states_of_another_log_keep_none_of_this_one_from_being_kept(
    table: Path, ahead: int, read: list[int]
) -> None:
    """As after a backup of the commits was put back: by their names its states are the newest."""
    _history(table)
    for path in state_file(table, 0).parent.iterdir():
        content = gzip.compress(
            gzip.decompress(path.read_bytes()).replace(b'"commit":"', b'"commit":"another')
        )
        path.unlink()
        state_file(table, int(path.name[:20]) + ahead).write_bytes(content)
    commit_days(table, LENGTH, 3)
    LogCache().keep_newest_state(place_of(table), COLUMN)
    read.clear()
    found = LogCache().state(place_of(table), COLUMN)
    assert read == [], "it is kept, though others have later versions in their names"
    assert found == _folded(table)
    assert {*kept_versions(place_of(table))} & {*range(LENGTH + 1, 99 * KEEP_EVERY)} == set()


# what is passed over


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "a flipped byte": lambda path: path.write_bytes(
        path.read_bytes()[:40] + b"\x00" + path.read_bytes()[41:]
    ),
    "no gzip": lambda path: path.write_bytes(b"{}"),
    "a list": lambda path: path.write_bytes(gzip.compress(b"[]")),
    "of another form": lambda path: path.rename(
        path.with_name(f"{path.name[:20]}.0123abcd.json.gz")
    ),
    "without days": lambda path: _rewrite(path, lambda c: c.pop("days")),
    "an unknown kind of day": lambda path: _rewrite(
        path, lambda c: c.update(days={d: [*e[:8], "new", e[9]] for d, e in c["days"].items()})
    ),
    "of another column": lambda path: _rewrite(path, lambda c: c.update(day_column="other")),
    "of another log": lambda path: _rewrite(path, lambda c: c.update(commit="0" * 64)),
    "under another version": lambda path: path.write_bytes(
        state_file(path.parents[2], KEEP_EVERY - 1).read_bytes()
    ),
    "too deep for a parser": lambda path: path.write_bytes(gzip.compress(b"[" * 100_000)),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_state_that_does_not_fit_is_passed_over(
    table: Path, harm: Callable[[Path], object], read: list[int]
) -> None:
    _history(table)
    harm(state_file(table, 2 * KEEP_EVERY - 1))
    read.clear()
    found = LogCache().state(place_of(table), COLUMN)
    assert read == list(range(KEEP_EVERY, LENGTH)), "the state before it is taken"
    assert _everything(table, found) == _everything(table, _folded(table))
    assert false_states(place_of(table), COLUMN) == [], "nobody takes it"


# random histories

ENTRY = st.builds(
    DayEntry,
    st.integers(0, 9),
    st.sampled_from("AB"),
    st.sampled_from("ab"),
    st.sampled_from(Built),
    counts=st.dictionaries(st.sampled_from(["null value", "duplicates"]), st.integers(0, 3)),
    scheme=st.integers(1, 3),
    parts=st.dictionaries(st.sampled_from("xy"), st.sampled_from("pq")),
    columns=st.sampled_from([None, {}, {"value": "BIGINT"}, {"value": "", "entity": "STRING"}]),
)
MOMENT = st.sampled_from(
    [None, datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 2, 12, tzinfo=UTC)]
)
RECEIPT = st.builds(
    receipt,
    days=st.dictionaries(st.integers(0, 5).map(day), ENTRY, max_size=3),
    write_id=st.sampled_from("uvw"),
    reason=st.sampled_from(["manual", REPLAY]),
    frontier=MOMENT,
    inputs=st.dictionaries(st.sampled_from(["raw", "labels"]), st.integers(-1, 9)),
    run_id=st.sampled_from(["", "run"]),
    tags=st.fixed_dictionaries(
        {},
        optional={
            ENGINE: st.just("spark"),
            IRREPRODUCIBLE: st.just(str(day(1))),
            FRONTIERS: st.just('{"raw": "2024-03-01T00:00:00+00:00"}'),
        },
    ),
)
PARTITION = st.one_of(st.none(), st.just("x"), st.integers(0, 5).map(lambda n: str(day(n))))
FOREIGN = st.lists(st.builds(add, PARTITION, data_change=st.booleans()), max_size=2)


@given(
    st.lists(st.one_of(RECEIPT, FOREIGN), min_size=1, max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(0, 11),
)
def test_a_kept_state_and_the_commits_after_it_give_what_all_commits_give(
    tmp_path_factory: pytest.TempPathFactory, history: list[Any], kept: set[int], wanted: int
) -> None:
    table = tmp_path_factory.mktemp("log") / "staging"
    for version, what in enumerate(history):
        is_ours = not isinstance(what, list)
        make_commit(table, version, what if is_ours else None, () if is_ours else what)
        if version in kept:
            keep_state(place_of(table), COLUMN, LogCache().state(place_of(table), COLUMN))
    assert false_states(place_of(table), COLUMN) == []
    for at in (None, min(wanted, len(history) - 1)):
        found, whole = LogCache().state(place_of(table), COLUMN, at), _folded(table, at)
        assert found == whole
        assert list(found.latest) == list(whole.latest)
        assert _everything(table, found) == _everything(table, whole)
