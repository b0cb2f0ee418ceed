"""What will follow from the days that need making: what a person is shown beside days that are
still right.

Tested here: `reading.downstream`, against what really follows when everything is made. Not
tested here: what needs making now (`kernel.core.test_needs`) and how it is shown (`reports`).
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.states import State
from backfill_assets.reading.downstream import stale_after_needed
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
