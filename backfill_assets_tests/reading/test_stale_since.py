"""Since when days are stale, by the commits of their inputs.

Not tested here: which days are stale (`kernel.core.test_states`).
"""

from pathlib import Path

import pytest

from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.reading.stale_since import MOST_COMMITS, stale_since
from backfill_assets_tests.dagster.adapter.ticking import day, stale
from backfill_assets_tests.synthetic import Made, build, synthetic_lake


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    return synthetic_lake(tmp_path / "lake", 8)


def states_of(lake: Made) -> States:
    return lake[1].states(read_view(lake[0], lake[1].contracts))


def test_it_is_the_first_write_of_an_input_day_after_the_day_was_made(lake: Made) -> None:
    build(*lake, "staging", {day(5): 4})
    first = next(lake[0].store.newest_commits("staging"))
    build(*lake, "staging", {day(5): 5})
    states = states_of(lake)
    assert states.of("features", day(5)) is State.STALE
    assert stale_since(lake[0], states, "features") == first.at


def test_behind_many_commits_it_is_the_write_by_which_the_input_day_is_as_it_is(lake: Made) -> None:
    for commits in range(MOST_COMMITS):
        build(*lake, "staging", {day(1): commits + 2})
    build(*lake, "features", dict.fromkeys(map(day, range(1, 5)), 1))
    build(*lake, "staging", {day(5): 4})
    build(*lake, "staging", {day(5): 5})
    newest = next(lake[0].store.newest_commits("staging"))
    states = states_of(lake)
    assert states.of("features", day(1)) is State.FRESH
    assert stale_since(lake[0], states, "features") == newest.at


def test_of_fresh_tables_and_of_days_that_no_commit_made_stale_it_is_not_known(lake: Made) -> None:
    assert stale_since(lake[0], states_of(lake), "features") is None
    stale(lake, 2)
    assert states_of(lake).of("staging", day(2)) is State.STALE
    assert stale_since(lake[0], states_of(lake), "staging") is None
