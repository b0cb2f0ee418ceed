"""What follows from a request rides along: in one run where every day of the range may be covered, else not.

Tested here: `core.downstream` on lakes told as stories. Not tested here: ticks and catch-ups that ask for such runs.
"""

from datetime import date

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.downstream import with_downstream
from backfill_assets.core.needs import RunRequest, identities, needs, run_requests
from backfill_assets.core.receipts import Built
from backfill_assets_tests.builders import HORIZON, WINDOW, Story, day, loaded

DAYS = 30


def late(*events: int) -> Story:
    """A lake of fresh days into which deliveries for these days came late, and were loaded."""
    story = loaded(DAYS).build_all(*map(day, range(DAYS)))
    story.land(day(DAYS - 1), "late")
    return story.load(day(DAYS - 1), touching=[day(DAYS - 1), *map(day, events)])


def asked(story: Story, busy: dict[str, set[date]] | None = None, tried: int = 0) -> list[RunRequest]:
    """What a look at the lake asks for."""
    taken, states = busy or {}, story.states()
    found = needs(states, taken)
    requests: list[RunRequest] = []
    for name, days in found.ready.items():
        known = identities(states, name, days)
        requests += run_requests(states, name, known, dict.fromkeys(days, tried), 3, taken.get(name, frozenset()))[0]
    return with_downstream(states, requests, found, taken)


def test_late_rows_of_days_far_apart_are_one_run_of_all_levels() -> None:
    (request,) = asked(late(5, 12))
    assert (request.table, set(request.asked)) == ("staging", {str(day(n)) for n in (5, 12, DAYS - 1)})
    assert request.downstream == ("features", "features_as_known", "labels", "training")
    assert request.span.start == day(5 - HORIZON)


def test_what_the_run_covers_holds_all_that_follows() -> None:
    story = late(5)
    (request,) = asked(story)
    before = {n: set(story.tables[n].stamps) for n in story.tables}
    for name in (request.table, *request.downstream):
        states = story.states()
        story.build(name, *(d for d in request.span if not states.is_settled(name, d)))
    assert {n: set(story.tables[n].stamps) for n in before} == before
    left = needs(story.states(), {}).needed
    assert not any(left[name] for name in (request.table, *request.downstream))


def test_a_request_that_was_tried_in_vain_stays_alone() -> None:
    assert all(r.downstream == () and len(r.days) == 1 for r in asked(late(5), tried=1))


def test_a_table_with_a_day_in_between_that_may_not_be_made_does_not_ride_along() -> None:
    story = late(5, 12)
    story.rewrite("features", day(9), built=Built.HELD)
    (request,) = asked(story)
    assert request.downstream == ()
    assert request.span == DayRange(day(5), day(DAYS - 1) + ONE_DAY)


def test_a_table_that_another_run_works_on_does_not_ride_along() -> None:
    requests = asked(late(5), busy={"features": {day(6)}})
    assert requests[0].downstream == ()


def test_a_request_that_the_first_run_makes_anyhow_is_left_out() -> None:
    story = late(5)
    story.rewrite("features", day(25), input_digest="older")
    first, *others = asked(story)
    assert "features" in first.downstream
    assert others == []


def test_windows_of_the_contracts_say_how_far_a_change_reaches() -> None:
    story = loaded(DAYS).build_all(*map(day, range(DAYS)))
    story.rewrite("staging", day(5), input_digest="older")
    (request,) = asked(story)
    assert request.span.start == day(5 - HORIZON)
    assert request.span.last >= day(5 + WINDOW - 1)
