"""What was known at the cut of a day: arrivals after the cut change nothing, arrivals before it do.

Tested here: the basis `known_at_cut` of `kernel.core.digests`, with the cases in which staging's
rows cannot be trusted to be what the ledger says. Not tested here: the other digests
(`test_digests.py`) and the rows themselves (`pipeline`).
"""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.states import Codes, State
from backfill_assets_tests.builders import Story, day, loaded
from backfill_assets_tests.strategies import orders_of_loading

TABLE = "features_as_known"
NONE, SIX_HOURS, WHOLE_DAY = timedelta(), timedelta(hours=6), timedelta(days=1)


def _up_to_date(days: int = 6, grace: timedelta = NONE) -> Story:
    """A lake whose staging is up to date for all its loaded days."""
    return loaded(days, grace=grace).build("staging", *map(day, range(days)))


def _late(story: Story, arrival: int, event: int) -> Story:
    """A file arrives on one day with deliveries for another; staging of the touched days is brought
    up to date."""
    story.land(day(arrival), f"of {arrival} for {event}").load(day(arrival), touching=[day(event)])
    return story.build("staging", day(arrival), day(event))


@pytest.mark.parametrize(
    ("arrival", "moves"), [(2, True), (3, True), (4, False), (5, False), (9, False)]
)
def test_only_what_arrived_by_the_cut_counts(arrival: int, moves: bool) -> None:
    story = _up_to_date()
    before = story.digest(TABLE, day(3))
    assert (_late(story, arrival, event=2).digest(TABLE, day(3)) != before) is moves


@pytest.mark.parametrize("grace", [timedelta(microseconds=1), SIX_HOURS, WHOLE_DAY])
@pytest.mark.parametrize(("arrival", "moves"), [(3, True), (4, True), (5, False)])
def test_with_grace_the_arrival_day_of_the_cut_counts_whole(
    grace: timedelta, arrival: int, moves: bool
) -> None:
    story = _up_to_date(grace=grace)
    before = story.digest(TABLE, day(3))
    assert (_late(story, arrival, event=2).digest(TABLE, day(3)) != before) is moves


def test_a_grace_beyond_a_day_reaches_into_the_next() -> None:
    story = _up_to_date(7, grace=WHOLE_DAY + timedelta(microseconds=1))
    before = story.digest(TABLE, day(3))
    assert _late(story, 6, event=2).digest(TABLE, day(3)) == before
    assert _late(story, 5, event=2).digest(TABLE, day(3)) != before


def test_a_day_made_from_versions_of_old_code_is_made_again_once_these_are_and_none_before() -> (
    None
):
    story = _up_to_date().build(TABLE, day(2))
    story.codes["staging"] = Codes("code-2", "settings-1")
    assert story.state(TABLE, day(2)) is State.FRESH, (
        "the versions are outdated, and no input changed"
    )
    story.build(TABLE, day(3))
    assert story.state(TABLE, day(3)) is State.FRESH
    story.build("staging", *map(day, range(6)))
    assert [story.state(TABLE, day(n)) for n in (2, 3)] == [State.FRESH, State.STALE]
    assert story.build(TABLE, day(3)).state(TABLE, day(3)) is State.FRESH


@pytest.mark.parametrize(
    ("event", "inside"), [(0, False), (1, True), (2, True), (3, True), (4, False)]
)
def test_only_arrivals_for_days_of_the_window_count(event: int, inside: bool) -> None:
    story = _up_to_date()
    before = story.digest(TABLE, day(3))
    assert (_late(story, 3, event).digest(TABLE, day(3)) != before) is inside


def test_until_staging_is_up_to_date_its_write_counts() -> None:
    story = _up_to_date()
    before = story.digest(TABLE, day(3))
    story.land(day(5), "late").load(day(5), touching=[day(2)])
    stale = story.digest(TABLE, day(3))
    assert stale != before
    story.rewrite("staging", day(2), rows=1)
    assert story.digest(TABLE, day(3)) not in (stale, before), (
        "another stale write is another input"
    )
    assert story.build("staging", day(2)).digest(TABLE, day(3)) == before


def test_a_missing_day_of_staging_shows() -> None:
    story = loaded(6)
    story.build("staging", *(day(n) for n in range(6) if n != 2))
    missing = story.digest(TABLE, day(3))
    assert story.build("staging", day(2)).digest(TABLE, day(3)) != missing


def test_a_day_without_arrivals_differs_from_a_missing_one() -> None:
    story = loaded(6)
    story.ledger.pop(day(2))
    story.build("staging", *(day(n) for n in range(6) if n != 2))
    missing = story.digest(TABLE, day(3))
    assert story.build("staging", day(2), rows=0).digest(TABLE, day(3)) != missing


def test_a_held_day_of_staging_counts_by_its_write() -> None:
    story = _up_to_date()
    before = story.digest(TABLE, day(3))
    story.rewrite("staging", day(2), built=Built.HELD)
    held = story.digest(TABLE, day(3))
    assert held != before
    assert _held_again(story).digest(TABLE, day(3)) not in (held, before)
    assert story.build("staging", day(2)).digest(TABLE, day(3)) == before


def _held_again(story: Story) -> Story:
    return story.rewrite("staging", day(2), built=Built.HELD, fingerprint="older still")


def test_a_held_day_outside_the_window_does_not_count() -> None:
    story = _up_to_date()
    before = story.digest(TABLE, day(3))
    assert story.rewrite("staging", day(4), built=Built.HELD).digest(TABLE, day(3)) == before


def test_an_edited_day_of_staging_shows_until_it_is_repaired() -> None:
    story = _up_to_date()
    before = story.digest(TABLE, day(3))
    assert story.edit("staging", day(2)).digest(TABLE, day(3)) != before
    assert story.build("staging", day(2)).digest(TABLE, day(3)) == before


def test_an_edited_day_of_raw_shows_until_it_is_repaired() -> None:
    story = _up_to_date()
    before = story.digest(TABLE, day(3))
    story.edit("raw", day(2)).build("staging", day(2))
    assert story.digest(TABLE, day(3)) != before
    assert story.load(day(2)).build("staging", day(2)).digest(TABLE, day(3)) == before


def test_whether_the_cut_has_passed_is_part_of_the_digest_and_nothing_else_of_the_frontier() -> (
    None
):
    story = _up_to_date(3)
    story.build("staging", *map(day, range(3, 8)))
    seen = []
    for n in range(3, 8):
        seen.append(story.digest(TABLE, day(4)))
        story.land(day(n), f"file-{n}").load(day(n), touching=[])
    moved = [n for n, (a, b) in enumerate(pairwise(seen), start=4) if a != b]
    assert moved == [5], "once, when the frontier reaches midnight after day 4"


def test_a_file_that_arrived_before_the_cut_but_was_loaded_later_counts() -> None:
    story = loaded(6)
    story.land(day(2), "found in a drawer").build("staging", *map(day, range(6)))
    before = story.digest(TABLE, day(3))
    assert story.load(day(2)).build("staging", day(2)).digest(TABLE, day(3)) != before


@given(st.lists(st.tuples(st.integers(4, 9), st.integers(0, 9)), max_size=6))
def test_nothing_that_arrives_after_the_cut_ever_counts_once_staging_is_up_to_date(
    late: list[tuple[int, int]],
) -> None:
    story = _up_to_date(10)
    before = story.digest(TABLE, day(3))
    for arrival, event in late:
        story.land(day(arrival), f"{arrival} {event}").load(day(arrival), touching=[day(event)])
    assert story.build("staging", *map(day, range(10))).digest(TABLE, day(3)) == before


@given(orders_of_loading)
def test_it_does_not_depend_on_the_order_of_loading(order: list[int]) -> None:
    story = Story()
    for n in order:
        story.land(day(n), f"file-{n}")
    for n in order:
        story.load(day(n), touching=[day(n), day(0), day(2)])
    assert story.build("staging", *map(day, range(6))).digest(TABLE, day(3)) == _in_order()


def _in_order() -> str:
    story = Story()
    for n in range(6):
        story.land(day(n), f"file-{n}").load(day(n), touching=[day(n), day(0), day(2)])
    return story.build("staging", *map(day, range(6))).digest(TABLE, day(3))
