"""Keys of an input: their text, and that a day is fresh only where it is what its keys give today.

Tested here: `core.keys`, and digests and states by them, without Dagster. Not tested here: which keys a mapping gives
(`dagster/test_loaded.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from backfill_assets.core.contracts import Column, Contract, Input
from backfill_assets.core.keys import Keys, by_day, grouped, parse_keys, spans_of
from backfill_assets.core.readings import parameters_of, parse_parameters
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.states import Codes, State, States
from backfill_assets.core.view import DayReceipt, LakeView, TableView
from backfill_assets_tests.builders import day

COLUMNS = (Column("day", "DATE", ""), Column("n", "BIGINT", ""))
CODES = Codes("code", "settings")
KNOWN = 8  # days that the input may have
OFFSETS = st.sets(st.integers(-3, 3), max_size=4)


def test_keys_of_many_days_are_kept_once() -> None:
    weekday, monday = Keys(((-1, 0),)), Keys(((-3, -3), (0, 0)), ((1, 1),))
    kept = grouped({day(n): monday if n % 7 == 0 else weekday for n in range(70)})
    assert [k for k, _ in kept] == [monday, weekday]
    assert dict(by_day(kept)) == {day(n): monday if n % 7 == 0 else weekday for n in range(70)}


@given(
    st.dictionaries(st.integers(0, 40).map(day), st.tuples(OFFSETS, OFFSETS, st.none() | st.integers(0, 9).map(day))),
    st.sets(st.integers(-9, 50).map(day)),
)
def test_keys_are_the_same_from_their_text(drawn: Mapping[date, Any], known: set[date]) -> None:
    keys = {d: Keys(_spans(loaded), _spans(awaited), origin) for d, (loaded, awaited, origin) in drawn.items()}
    again = dict(by_day(parse_keys([k.to_values(days) for k, days in grouped(keys)])))
    assert again == keys
    for made, (loaded, awaited, origin) in drawn.items():
        start = origin or made
        assert again[made].loaded_for(made) == [start + timedelta(n) for n in sorted(loaded)]
        to_come = {start + timedelta(n) for n in awaited - loaded}
        assert again[made].awaited_for(made, known) == sorted(to_come & known)


def _spans(offsets: set[int]) -> tuple[tuple[int, int | None], ...]:
    return spans_of((day(n) for n in offsets), day(0))


@dataclass
class Lake:
    """A table `orders` whose days have a number each, and `total`, which adds the numbers of the keys it was given."""

    orders: dict[date, DayReceipt] = field(default_factory=dict)
    totals: dict[date, DayReceipt] = field(default_factory=dict)
    sums: dict[date, int] = field(default_factory=dict)
    keys: dict[date, Keys] = field(default_factory=dict)

    def correct(self, number: int, value: int) -> None:
        """Give a day of `orders` another number; 0: no rows."""
        entry = DayEntry(int(value > 0), str(value), "")
        self.orders[day(number)] = DayReceipt(entry, 0, "", "code", "settings", "")

    def value(self, at: date) -> int:
        """The number of a day now; 0 of a day without rows."""
        found = self.orders.get(at)
        return int(found.entry.fingerprint) if found is not None and found.entry.rows else 0

    def states(self, wanted: Input, **made: Any) -> States:
        """The states of today, or of a write that is made from `wanted`."""
        contracts = [
            Contract("orders", "", COLUMNS, "day", (), (), made_by="orders"),
            Contract("total", "", COLUMNS, "day", (), (wanted,), made_by="total", **made),
        ]
        tables = {"orders": TableView(0, self.orders), "total": TableView(0, self.totals)}
        view = LakeView(day(0), None, timedelta(), tables, {})
        return States(contracts, view, {"orders": CODES, "total": CODES})

    def make(self, window: Input, keys: Mapping[date, Keys], *, unpinned: tuple[str, ...] = ()) -> None:
        """Make days of `total` in one commit, as the IO manager does. Days without `keys` are made from the window."""
        now = self.states(replace(window, keys=grouped(keys)), is_being_made=True, unpinned=unpinned)
        text = parameters_of(now.contracts["total"], now.view).to_json()
        assert parse_parameters(text) == parameters_of(now.contracts["total"], now.view)
        for at, own in keys.items():
            self.sums[at], self.keys[at] = sum(map(self.value, own.loaded_for(at))), own
            entry = DayEntry(1, str(self.sums[at]), now.digests.of("total", at), now.built_as("total", at))
            self.totals[at] = DayReceipt(entry, 0, "", "code", "settings", "", parameters=text)

    def is_right(self, at: date) -> bool:
        """Whether the day holds what its keys give today, and no day that it waited for has come with rows."""
        keys = self.keys[at]
        came = any(map(self.value, keys.awaited_for(at, self.orders)))
        return not came and self.sums[at] == sum(map(self.value, keys.loaded_for(at)))


WINDOW = Input("orders", 2, 1)
STEPS = st.lists(
    st.tuples(st.integers(0, KNOWN - 1), st.integers(0, 3))
    | st.dictionaries(st.integers(0, KNOWN - 1), st.tuples(OFFSETS, OFFSETS, st.none() | st.just(0)), min_size=1),
    max_size=12,
)


@given(STEPS)
def test_each_day_that_is_called_fresh_is_what_its_keys_give_today(steps: list[Any]) -> None:
    """After any corrections and runs, in any order; and what changed nothing makes no day stale."""
    lake = Lake()
    for step in steps:
        if isinstance(step, tuple):
            lake.correct(*step)
        else:
            lake.make(WINDOW, {day(n): _keys(*drawn) for n, drawn in step.items()})
        states = lake.states(WINDOW)
        for at in lake.totals:
            if states.of("total", at) is State.FRESH:
                assert lake.is_right(at)
            else:
                assert not _has_all(lake, at) or not lake.is_right(at) or states.of("total", at) is State.STALE


def _keys(loaded: set[int], awaited: set[int], origin: int | None) -> Keys:
    return Keys(_spans(loaded), _spans(awaited), None if origin is None else day(origin))


def _has_all(lake: Lake, at: date) -> bool:
    return all(d in lake.orders for d in lake.keys[at].loaded_for(at))


def test_a_day_that_is_made_again_with_the_whole_window_is_fresh_again() -> None:
    """The keys of the receipt before do not count for the write."""
    lake = Lake()
    for number in range(4):
        lake.correct(number, number + 1)
    lake.make(WINDOW, {day(2): Keys(((-2, 0),), ((1, 1),))})
    assert lake.states(WINDOW).of("total", day(2)) is State.INCOMPLETE
    whole = lake.states(WINDOW, is_being_made=True)
    assert whole.absent("total", day(2)) == []
    lake.make(WINDOW, {day(2): Keys(((-2, 1),))})
    assert lake.states(WINDOW).of("total", day(2)) is State.FRESH


def test_a_day_whose_step_read_what_no_receipt_names_is_unpinned_until_its_inputs_change() -> None:
    lake = Lake()
    for number in range(4):
        lake.correct(number, number + 1)
    lake.make(WINDOW, {day(2): Keys(((-2, 1),))}, unpinned=("orders of another lake",))
    assert lake.states(WINDOW).of("total", day(2)) is State.UNPINNED
    assert not lake.states(WINDOW).is_settled("total", day(2))
    lake.correct(1, 9)
    assert lake.states(WINDOW).of("total", day(2)) is State.STALE


def test_a_change_reaches_the_days_that_read_it_by_their_keys() -> None:
    lake = Lake()
    for number in range(8):
        lake.correct(number, number + 1)
    lake.make(WINDOW, {day(7): Keys(((-5, -5), (0, 0)))})
    states = lake.states(WINDOW)
    assert day(7) in states.reading("total", WINDOW, {day(2)})
    assert states.reading("total", WINDOW, {day(5)}) == {day(n) for n in (4, 5, 6, 7)}
