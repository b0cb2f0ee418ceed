"""Keys of an input: their text, and that a day is fresh only where it is what its keys give today.

Tested here: `kernel.core.keys`, and digests and states by them, without Dagster. Not tested here:
which keys a mapping gives (`dagster/test_loaded.py`).
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from backfill_assets.kernel.core.calendars import Calendar, Unit
from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.keys import (
    Keys,
    Spans,
    days_by_keys,
    days_with_keys,
    offset_spans,
    parse_keys,
)
from backfill_assets.kernel.core.states import State
from backfill_assets_tests.builders import day
from backfill_assets_tests.keyed import KeyedLake

KNOWN = 8  # days that the input may have
OFFSETS = st.sets(st.integers(-3, 3), max_size=4)


def test_keys_of_many_days_are_kept_once() -> None:
    weekday, monday = Keys(((-1, 0),)), Keys(((-3, -3), (0, 0)), ((1, 1),))
    kept = days_by_keys({day(n): monday if n % 7 == 0 else weekday for n in range(70)})
    assert [k for k, _ in kept] == [monday, weekday]
    assert dict(days_with_keys(kept)) == {
        day(n): monday if n % 7 == 0 else weekday for n in range(70)
    }


@given(
    st.dictionaries(
        st.integers(0, 40).map(day),
        st.tuples(OFFSETS, OFFSETS, st.none() | st.integers(0, 9).map(day)),
    ),
    st.sets(st.integers(-9, 50).map(day)),
)
def test_keys_are_the_same_from_their_text(drawn: Mapping[date, Any], known: set[date]) -> None:
    keys = {
        d: Keys(_spans(loaded), _spans(awaited), origin)
        for d, (loaded, awaited, origin) in drawn.items()
    }
    again = dict(days_with_keys(parse_keys([k.to_values(days) for k, days in days_by_keys(keys)])))
    assert again == keys
    for made, (loaded, awaited, origin) in drawn.items():
        start = origin or made
        assert again[made].loaded_for(made) == [start + timedelta(n) for n in sorted(loaded)]
        to_come = {start + timedelta(n) for n in awaited - loaded}
        assert again[made].awaited_for(made, known) == sorted(to_come & known)


def _spans(offsets: set[int]) -> tuple[tuple[int, int | None], ...]:
    return offset_spans((day(n) for n in offsets), day(0))


def _is_right(lake: KeyedLake, at: date) -> bool:
    """Whether the day holds what its keys give today, and no day that it waited for has come with
    rows."""
    keys = lake.keys[at]
    came = lake.values(keys.awaited_for(at, lake.orders))
    return not came and lake.made_from[at] == lake.values(keys.loaded_for(at))


WINDOW = Input("orders", 2, 1)
STEPS = st.lists(
    st.tuples(st.integers(0, KNOWN - 1), st.integers(0, 3))
    | st.dictionaries(
        st.integers(0, KNOWN - 1), st.tuples(OFFSETS, OFFSETS, st.none() | st.just(0)), min_size=1
    ),
    max_size=12,
)


@given(STEPS)
def test_each_day_that_is_called_fresh_is_what_its_keys_give_today(steps: list[Any]) -> None:
    """After any corrections and runs, in any order; and what changed nothing makes no day stale."""
    lake = KeyedLake()
    for step in steps:
        if isinstance(step, tuple):
            lake.correct(day(step[0]), step[1])
        else:
            lake.make_by_keys(WINDOW, {day(n): _keys(*drawn) for n, drawn in step.items()})
        states = lake.states(WINDOW)
        for at in lake.totals:
            if states.of("total", at) is State.FRESH:
                assert _is_right(lake, at)
            else:
                assert (
                    not _has_all(lake, at)
                    or not _is_right(lake, at)
                    or states.of("total", at) is State.STALE
                )


def _keys(loaded: set[int], awaited: set[int], origin: int | None) -> Keys:
    return Keys(_spans(loaded), _spans(awaited), None if origin is None else day(origin))


def _has_all(lake: KeyedLake, at: date) -> bool:
    return all(d in lake.orders for d in lake.keys[at].loaded_for(at))


def test_a_day_that_is_made_again_with_the_whole_window_is_fresh_again() -> None:
    """The keys of the receipt before do not count for the write."""
    lake = KeyedLake()
    for number in range(4):
        lake.correct(day(number), number + 1)
    lake.make_by_keys(WINDOW, {day(2): Keys(((-2, 0),), ((1, 1),))})
    assert lake.states(WINDOW).of("total", day(2)) is State.INCOMPLETE
    whole = lake.states(WINDOW, is_being_made=True)
    assert whole.missing_inputs("total", day(2)) == []
    lake.make_by_keys(WINDOW, {day(2): Keys(((-2, 1),))})
    assert lake.states(WINDOW).of("total", day(2)) is State.FRESH


def test_a_month_of_an_asset_is_provisional_until_the_days_that_it_waits_for_came() -> None:
    march, month = date(2024, 3, 1), Calendar(Unit.MONTH)
    lake, window = KeyedLake(calendar=month), Input("orders", made_in=month)

    def correct(*numbers: int, value: int = 1) -> None:
        for number in numbers:
            lake.correct(date(2024, 3, number), value)

    def state() -> State:
        return lake.states(window).of("total", march)

    correct(*range(1, 29))
    lake.make_by_keys(window, {march: Keys(((0, 27),), ((28, 30),))})
    assert state() is State.PROVISIONAL
    to_come = [("orders", date(2024, 3, number)) for number in (29, 30, 31)]
    assert lake.states(window).days_to_come("total", march) == to_come
    correct(29)
    assert state() is State.STALE  # as an own table's month with each further day
    lake.make_by_keys(window, {march: Keys(((0, 28),), ((29, 30),))})
    assert state() is State.PROVISIONAL
    correct(30, 31, value=0)
    assert state() is State.FRESH  # it is over, and its last days have no rows


@pytest.mark.parametrize("awaited", [((-(10**7), None),), ((31, None),)])
def test_a_month_that_is_over_does_not_wait_for_days_after_it(awaited: Spans) -> None:
    """Where an input gives all its days, it will give all later ones, too."""
    march, month = date(2024, 3, 1), Calendar(Unit.MONTH)
    lake, window = KeyedLake(calendar=month), Input("orders", made_in=month)
    for number in range(1, 31):
        lake.correct(date(2024, 3, number), 1)
    lake.correct(date(2024, 4, 1), 1)
    loaded = ((0, 29), (31, 31))
    lake.make_by_keys(window, {march: Keys(loaded, awaited, march)})
    assert lake.states(window).of("total", march) is State.FRESH


def test_a_day_whose_step_read_what_no_receipt_names_is_unpinned_until_its_inputs_change() -> None:
    lake = KeyedLake()
    for number in range(4):
        lake.correct(day(number), number + 1)
    lake.make_by_keys(WINDOW, {day(2): Keys(((-2, 1),))}, unpinned=("orders of another lake",))
    assert lake.states(WINDOW).of("total", day(2)) is State.UNPINNED
    assert not lake.states(WINDOW).is_settled("total", day(2))
    lake.correct(day(1), 9)
    assert lake.states(WINDOW).of("total", day(2)) is State.STALE


def test_a_change_reaches_the_days_that_read_it_by_their_keys() -> None:
    lake = KeyedLake()
    for number in range(8):
        lake.correct(day(number), number + 1)
    lake.make_by_keys(WINDOW, {day(7): Keys(((-5, -5), (0, 0)))})
    states = lake.states(WINDOW)
    assert day(7) in states.days_made_from("total", WINDOW, {day(2)})
    assert states.days_made_from("total", WINDOW, {day(5)}) == {day(n) for n in (4, 5, 6, 7)}


def test_states_of_many_days_with_keys_take_about_the_time_of_windows() -> None:
    """The receipt of one commit names the keys of all its days: it is read once, not for each day
    of each input."""
    days = [day(n) for n in range(600)]
    by_window, by_keys = (
        _many_days({}),
        _many_days({d: Keys(((-29 - n % 5, -9), (-6, 0))) for n, d in enumerate(days)}),
    )
    assert _seconds_of(by_keys, days) < 0.1 + 10 * _seconds_of(by_window, days)


MONTH = Input("orders", 29, 0)


def _many_days(keys: Mapping[date, Keys]) -> KeyedLake:
    """A lake with days of 30 days each, made in one commit by these keys or by the window."""
    lake = KeyedLake()
    for number in range(-40, 600):
        lake.correct(day(number), 1)
    wanted = replace(MONTH, keys=days_by_keys(keys), first_day=day(-40))
    lake.make(wanted, {day(number): [] for number in range(600)})
    return lake


def _seconds_of(lake: KeyedLake, days: list[date]) -> float:
    """The processor time of the states of these days, and of what one changed day of the input
    reaches."""
    states = lake.states(replace(MONTH, first_day=day(-40)))
    began = time.process_time()
    assert {states.of("total", d) for d in days} == {State.FRESH}
    for changed in days:
        states.days_made_from("total", MONTH, {changed})
    return time.process_time() - began
