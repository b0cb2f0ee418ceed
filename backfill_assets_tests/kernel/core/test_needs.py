"""What has to be made again: exactly the days that need it, each only once its inputs are in place.

Tested here: `kernel.core.needs`, on lakes told as stories, and the property that doing what is
needed ends. Not tested here: requests of runs (`dagster.test_run_requests`), and sensors
(`dagster.adapter.test_ticks`).
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.needs import needed_days, rebuild_needs
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.states import Codes, State, States
from backfill_assets_tests.builders import CONTRACTS, HORIZON, MATURITY, WINDOW, Story, day, loaded

DAYS = tuple(map(day, range(10)))
BUILT = [c.name for c in CONTRACTS[1:]]


def built() -> Story:
    return loaded(10).build_all(*DAYS)


def late(story: Story, arrival: int = 10, touches: Iterable[int] = (5,)) -> Story:
    """A delivery for earlier days lands and is loaded."""
    story.land(day(arrival), f"late {arrival}")
    return story.load(day(arrival), touching=[day(arrival), *map(day, touches)])


def forgotten(story: Story, table: str, *days: date) -> Story:
    """The table without receipts for these days."""
    before = story.tables[table]
    latest = {d: r for d, r in before.latest.items() if d not in days}
    story.tables[table] = before.__class__(before.version, latest, before.inputs, before.frontier)
    return story


def ready(story: Story, table: str, **more: object) -> set[date]:
    return set(rebuild_needs(story.states(), {}).ready[table])


def make_what_is_ready(story: Story) -> int:
    """Make all that can be made now; how many days were made."""
    found = rebuild_needs(story.states(), {})
    for name, days in found.ready.items():
        if name == "raw":
            story.load(*sorted(days))
        else:
            story.build(name, *sorted(days))
    return sum(map(len, found.ready.values()))


def test_a_late_delivery_needs_its_event_day_and_its_own_day_in_staging_before_all_else() -> None:
    story = late(built())
    assert ready(story, "staging") == {day(5), day(10)}
    found = rebuild_needs(story.states(), {})
    assert {n for n, days in found.ready.items() if days} == {"staging"}
    assert found.waiting["features"][day(10)] == ("staging", day(10))


def test_what_hangs_on_a_day_follows_once_it_is_made_and_only_if_its_content_changed() -> None:
    story = late(built())
    same = story.tables["staging"].latest[day(5)].entry.fingerprint
    story.build("staging", day(10)).build("staging", day(5), content=same)
    assert ready(story, "features") == {day(10)}, "early cut-off"
    story = late(built()).build("staging", day(5), day(10))
    assert ready(story, "features") == {day(n) for n in range(5, 5 + WINDOW)} | {day(10)}
    newly_mature = day(11 - 1 - HORIZON - MATURITY)
    assert ready(story, "labels") == {day(3), day(4)} | {day(8), day(9)} | {newly_mature}, (
        "their horizons, and time"
    )


def test_a_day_that_others_may_write_is_not_made_anew_and_its_readers_wait() -> None:
    story = built().edit("staging", day(5))
    assert rebuild_needs(story.states(), {}).ready["staging"] == {day(5)}
    found = rebuild_needs(
        States(CONTRACTS, replace(story.view(), others_write=frozenset({"staging"})), story.codes),
        {},
    )
    assert not found.needed["staging"]
    assert not found.ready["features"]
    assert day(5) in found.needed["features"]
    assert set(found.waiting["features"].values()) == {("staging", day(5))}


def test_an_arrival_day_is_needed_if_something_landed_and_is_not_loaded() -> None:
    story = built().land(day(10), "new").land(day(3), "more for an old day")
    assert ready(story, "raw") == {day(3), day(10)}
    assert rebuild_needs(story.states(), {"raw": {day(3)}}).ready["raw"] == {day(10)}


@pytest.mark.parametrize(
    ("table", "gone"), [("staging", 5), ("features", 5), ("features_as_known", 4)]
)
def test_a_missing_day_between_the_first_receipt_and_the_frontier_is_needed(
    table: str, gone: int
) -> None:
    story = forgotten(built(), table, day(gone))
    story.ledger.pop(day(gone), None)
    assert day(gone) in needed_days(story.states())[table]


def test_a_missing_day_before_the_first_receipt_is_needed_by_deliveries_or_by_another_day() -> None:
    story = loaded(10).build("staging", *DAYS[4:])
    for n in range(3):
        story.ledger.pop(day(n))
    found = needed_days(story.states())
    assert found["features"] == set(DAYS[3:]), "deliveries for them are loaded"
    assert found["staging"] == {day(3), *(day(3 - n) for n in range(1, WINDOW))}, (
        "its own, and features' window"
    )


def test_what_lies_behind_the_first_needed_day_is_needed_with_it_and_not_by_a_later_look() -> None:
    story = loaded(10)
    for n in (0, 2, 3, 4, 5):
        story.ledger.pop(day(n))
    story.build("staging", *DAYS).build("features", *DAYS[6:])
    assert ready(story, "features") == set(DAYS[1:6]), "of these only day 1 has deliveries"


def test_a_missing_day_that_a_made_day_requires_is_needed() -> None:
    story = loaded(10).build("staging", *DAYS[4:]).build("features", *DAYS[4:])
    for n in range(4):
        story.ledger.pop(day(n))
    assert needed_days(story.states())["staging"] == {day(n) for n in range(4 - WINDOW + 1, 4)}


def test_held_outdated_and_pending_days_are_never_needed() -> None:
    story = late(built())
    story.rewrite("staging", day(5), built=Built.HELD)
    story.codes["features"] = Codes("code-2", "settings-1")
    assert ready(story, "staging") == {day(10)}
    assert story.state("features", day(2)) is State.OUTDATED
    assert day(2) not in needed_days(story.states())["features"]
    story.land(day(12), "tomorrow's").load(day(12), touching=[day(20)])
    assert day(20) not in needed_days(story.states())["features_as_known"]


def test_what_a_run_is_making_is_not_asked_for_and_holds_up_what_hangs_on_it() -> None:
    story = late(built()).build("staging", day(10)).build("features", *[])
    found = rebuild_needs(story.states(), {"staging": {day(5)}})
    assert not found.ready["staging"]
    assert found.ready["features"] == {day(10)}
    assert found.waiting["features"] == {} or day(5) in found.waiting["features"]


EVENTS = st.lists(
    st.tuples(st.integers(0, 8), st.lists(st.integers(0, 9), max_size=3)), min_size=1, max_size=6
)


@given(events=EVENTS, order=st.randoms(use_true_random=False))
def test_doing_what_is_needed_ends_and_leaves_every_day_as_if_built_at_once(
    events: list[tuple[int, list[int]]], order: object
) -> None:
    story = Story()
    for number, (arrival, touched) in enumerate(events):
        story.land(day(arrival), f"file {number}").load(
            day(arrival), touching=[day(arrival), *map(day, touched)]
        )
        rounds = 0
        while make_what_is_ready(story):
            rounds += 1
            assert rounds <= len(CONTRACTS), "one level a round, whatever was late"
        settled = {State.FRESH, State.PENDING, State.MISSING}
        states = story.states()
        for name in BUILT:
            found = {
                d: states.of(name, d) for d in story.tables.get(name, story.tables["raw"]).latest
            }
            assert set(found.values()) <= settled, (name, found)
        assert not any(needed_days(states).values())
