"""Requests of runs: which days one run makes together, and which requests are new.

Tested here: `dagster.run_requests`, on lakes told as stories. Not tested here: which days need a
rebuild (`kernel.core.test_needs`), and sensors (`dagster.adapter.test_ticks`).
"""

from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.dagster.run_requests import (
    MOST_GAP_DAYS,
    joined_ranges,
    request_identities,
    requests_with_downstream,
    run_requests,
)
from backfill_assets.kernel.core.closures import Closure
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.states import Codes, States
from backfill_assets_tests.builders import HORIZON, Story, day, loaded

DAYS = tuple(map(day, range(10)))


def test_neighbours_are_joined_over_settled_days_as_long_as_that_is_cheaper_than_a_run() -> None:
    story = loaded(MOST_GAP_DAYS + 30).build("staging", *map(day, range(MOST_GAP_DAYS + 30)))
    states, far = story.states(), MOST_GAP_DAYS + 20
    assert joined_ranges(states, "staging", [day(3), day(1), day(7)]) == [DayRange(day(1), day(8))]
    assert joined_ranges(states, "staging", [day(1), day(far)]) == [
        DayRange(day(1), day(2)),
        DayRange(day(far), day(far + 1)),
    ]


@pytest.mark.parametrize("between", ["held", "outdated", "missing", "busy"])
def test_days_are_not_joined_over_a_day_that_must_be_left_alone(between: str) -> None:
    story, busy = loaded(10).build_all(*DAYS), set[date]()
    if between == "held":
        story.rewrite("staging", day(5), built=Built.HELD)
    elif between == "outdated":
        story.codes["staging"] = Codes("code-2", "settings-1")
        story.build("staging", day(4), day(6))
    elif between == "missing":
        story = loaded(10).build("staging", *(d for d in DAYS if d != day(5)))
    else:
        busy = {day(5)}
    found = joined_ranges(story.states(), "staging", [day(4), day(6)], busy)
    assert found == [DayRange(day(4), day(5)), DayRange(day(6), day(7))]


def test_arrival_days_are_joined_over_days_on_which_nothing_landed() -> None:
    story = Story().land(day(1), "a").land(day(4), "b")
    assert joined_ranges(story.states(), "raw", [day(1), day(4)]) == [DayRange(day(1), day(5))]


MOST = 3


def stale(*days: int) -> Story:
    """A lake in which these staging days are stale."""
    story = loaded(10).build("staging", *map(day, range(10))).land(day(10), "late")
    return story.load(day(10), touching=map(day, days))


def requested(
    story: Story, tried: dict[int, int], *days: int, rules: str = ""
) -> tuple[list[Work], list[date]]:
    states = story.states()
    known = request_identities(states, "staging", map(day, days), rules)
    return run_requests(
        states, "staging", known, {day(n): count for n, count in tried.items()}, MOST, frozenset()
    )


def one(number: int) -> DayRange:
    return DayRange(day(number), day(number) + ONE_DAY)


def test_inputs_that_return_to_what_they_were_are_a_new_request_after_a_write() -> None:
    story = stale(2)
    (first,), _ = requested(story, {}, 2)
    before = {d: dict(rows) for d, rows in story.ledger.items()}
    story.land(day(11), "later").load(day(11), touching=[day(2)]).build("staging", day(2))
    story.ledger = before
    assert story.digest("staging", day(2)).startswith(first.needed[str(day(2))].split(".")[0]), (
        "the inputs are as before"
    )
    (back,), _ = requested(story, {}, 2)
    assert back.key != first.key


def test_a_day_that_was_tried_in_vain_is_asked_for_alone_and_last() -> None:
    found, given_up = requested(stale(2, 3, 4), {3: 1}, 2, 3, 4)
    assert [(a.days, a.attempt) for a in found] == [(one(2), 0), (one(4), 0), (one(3), 1)]
    assert not given_up
    assert len({a.key for a in found}) == len(found)


def test_every_attempt_has_a_key_of_its_own_and_they_are_bounded() -> None:
    story = stale(3)
    keys = {requested(story, {3: n}, 3)[0][0].key for n in range(MOST)}
    assert len(keys) == MOST
    assert requested(story, {3: MOST}, 3) == ([], [day(3)])


def test_whatever_an_attempt_was_tried_with_makes_another_request_when_it_changes() -> None:
    story = stale(3)
    keys = [
        requested(story, {}, 3)[0][0].key,
        requested(story, {}, 3, rules="relaxed gates")[0][0].key,
    ]
    states = story.states()
    codes = {**states.codes, "staging": Codes("other code", "settings-1")}
    changed = States(states.contracts.values(), states.view, codes)
    keys += [
        run_requests(
            changed, "staging", request_identities(changed, "staging", [day(3)]), {}, MOST, set()
        )[0][0].key
    ]
    story.land(day(12), "new input").load(day(12), touching=[day(3)])
    keys += [requested(story, {}, 3)[0][0].key]
    assert len(set(keys)) == len(keys)


MANY = 30


def late_lake(*events: int) -> Story:
    """A lake of fresh days into which deliveries for these days came late, and were loaded."""
    story = loaded(MANY).build_all(*map(day, range(MANY)))
    story.land(day(MANY - 1), "late")
    return story.load(day(MANY - 1), touching=[day(MANY - 1), *map(day, events)])


def requested_together(
    story: Story, busy: dict[str, set[date]] | None = None, tried: int = 0
) -> list[Work]:
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
    (request,) = requested_together(late_lake(5, 12))
    assert (request.table, set(request.needed)) == (
        "staging",
        {str(day(n)) for n in (5, 12, MANY - 1)},
    )
    assert request.tables[1:] == ("features", "features_as_known", "labels", "training")
    assert request.days.start == day(5 - HORIZON)


def test_what_the_run_covers_holds_all_that_follows() -> None:
    story = late_lake(5)
    (request,) = requested_together(story)
    before = {n: set(story.tables[n].latest) for n in story.tables}
    for name in request.tables:
        states = story.states()
        story.build(name, *(d for d in request.days if not states.is_settled(name, d)))
    assert {n: set(story.tables[n].latest) for n in before} == before
    left = rebuild_needs(story.states(), {}).needed
    assert not any(left[name] for name in request.tables)


def test_a_request_that_was_tried_in_vain_stays_alone() -> None:
    assert all(
        r.tables[1:] == () and len(r.days) == 1 for r in requested_together(late_lake(5), tried=1)
    )


def test_a_table_with_a_day_in_between_that_may_not_be_made_does_not_ride_along() -> None:
    story = late_lake(5, 12)
    story.rewrite("features", day(9), built=Built.HELD)
    (request,) = requested_together(story)
    assert request.tables[1:] == ()
    assert request.days == DayRange(day(5), day(MANY - 1) + ONE_DAY)


def test_a_table_that_another_run_works_on_does_not_ride_along() -> None:
    requests = requested_together(late_lake(5), busy={"features": {day(6)}})
    assert requests[0].tables[1:] == ()


def closed_features(story: Story, until: int) -> Story:
    """The story, with features closed up to this day."""
    story.tables["features"] = replace(story.tables["features"], closure=Closure(day(until)))
    return story


def test_a_table_of_which_a_covered_day_is_closed_does_not_ride_along() -> None:
    """That day is right before the run and stale within it, so that the run would be refused."""
    requests = requested_together(closed_features(late_lake(5, 12), until=6))
    assert {request.tables for request in requests} == {("staging",)}


def test_open_days_of_a_closed_table_are_made_along() -> None:
    (request,) = requested_together(closed_features(late_lake(15), until=6))
    assert "features" in request.tables
