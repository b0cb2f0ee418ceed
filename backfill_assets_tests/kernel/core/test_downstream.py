"""What will follow from the days that need making: what a person is shown beside days that are
still right.

Tested here: `kernel.core.downstream`, against what really follows when everything is made. Not
tested here: what needs making now (`test_needs.py`) and how it is shown (`reports`).
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.downstream import requests_with_downstream, stale_after_needed
from backfill_assets.kernel.core.needs import rebuild_needs, request_identities, run_requests
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.states import State
from backfill_assets_tests.builders import CONTRACTS, HORIZON, MATURITY, Story, day, loaded
from backfill_assets_tests.strategies import examples

DAYS = tuple(map(day, range(10)))
LATE = day(5)


def built() -> Story:
    return loaded(10).build_all(*DAYS)


def followed(story: Story, touches: Mapping[int, set[date]]) -> dict[str, set[date]]:
    """The days that were fresh and became stale while everything that needs it was made, table by
    table."""
    fresh = {(c.name, d) for c in CONTRACTS for d in DAYS if story.state(c.name, d) is State.FRESH}
    found: dict[str, set[date]] = defaultdict(set)
    for made in CONTRACTS:
        stale = [d for d in DAYS if story.state(made.name, d) is State.STALE]
        found[made.name] = {d for d in stale if (made.name, d) in fresh}
        if made.name == "raw":
            for arrival in stale:
                story.load(arrival, touching=touches[(arrival - DAYS[0]).days])
        else:
            story.build(made.name, *stale)
    return found


def test_a_delivery_day_that_is_not_loaded_yet_raises_the_frontier_and_with_it_ripens_labels() -> (
    None
):
    story = built().land(day(10), "next")
    ripe = day(10 - HORIZON - MATURITY)
    assert ripe in stale_after_needed(story.states())["labels"]


def test_held_days_do_not_follow() -> None:
    story = built().rewrite("features", LATE, built=Built.HELD).land(LATE, "more of it")
    assert LATE not in stale_after_needed(story.states())["features"]


@settings(deadline=None, max_examples=examples(30))
@given(
    st.sets(st.integers(0, 9), max_size=3),
    st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=3),
)
def test_the_forecast_is_what_follows_when_everything_is_made(
    changed: set[int], late: dict[int, int]
) -> None:
    touches = {n: {day(n), day(late.get(n, n))} for n in range(10)}
    story = loaded(10)
    for arrival in late:
        story.load(day(arrival), touching=touches[arrival])
    story.build_all(*DAYS)
    for number in changed:
        story.land(day(number), f"more of {number}")
    told = stale_after_needed(story.states())
    assert told == followed(story, touches)


MANY = 30


def late(*events: int) -> Story:
    """A lake of fresh days into which deliveries for these days came late, and were loaded."""
    story = loaded(MANY).build_all(*map(day, range(MANY)))
    story.land(day(MANY - 1), "late")
    return story.load(day(MANY - 1), touching=[day(MANY - 1), *map(day, events)])


def requested(story: Story, busy: dict[str, set[date]] | None = None, tried: int = 0) -> list[Work]:
    """What a look at the lake asks for."""
    taken, states = busy or {}, story.states()
    found = rebuild_needs(states, taken)
    requests: list[Work] = []
    for name, days in found.ready.items():
        known = request_identities(states, name, days)
        requests += run_requests(
            states, name, known, dict.fromkeys(days, tried), 3, taken.get(name, frozenset())
        )[0]
    return requests_with_downstream(states, requests, found, taken)


def test_late_rows_of_days_far_apart_are_one_run_of_all_levels() -> None:
    (request,) = requested(late(5, 12))
    assert (request.table, set(request.needed)) == (
        "staging",
        {str(day(n)) for n in (5, 12, MANY - 1)},
    )
    assert request.tables[1:] == ("features", "features_as_known", "labels", "training")
    assert request.days.start == day(5 - HORIZON)


def test_what_the_run_covers_holds_all_that_follows() -> None:
    story = late(5)
    (request,) = requested(story)
    before = {n: set(story.tables[n].latest) for n in story.tables}
    for name in request.tables:
        states = story.states()
        story.build(name, *(d for d in request.days if not states.is_settled(name, d)))
    assert {n: set(story.tables[n].latest) for n in before} == before
    left = rebuild_needs(story.states(), {}).needed
    assert not any(left[name] for name in request.tables)


def test_a_request_that_was_tried_in_vain_stays_alone() -> None:
    assert all(r.tables[1:] == () and len(r.days) == 1 for r in requested(late(5), tried=1))


def test_a_table_with_a_day_in_between_that_may_not_be_made_does_not_ride_along() -> None:
    story = late(5, 12)
    story.rewrite("features", day(9), built=Built.HELD)
    (request,) = requested(story)
    assert request.tables[1:] == ()
    assert request.days == DayRange(day(5), day(MANY - 1) + ONE_DAY)


def test_a_table_that_another_run_works_on_does_not_ride_along() -> None:
    requests = requested(late(5), busy={"features": {day(6)}})
    assert requests[0].tables[1:] == ()
