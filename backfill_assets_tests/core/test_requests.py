"""Requests: a changed input is a new one, a repeated look is not, and a day that fails is not asked for for ever.

Tested here: requests of `core.needs`. Not tested here: which days are ready (`test_needs`).
"""

from datetime import date

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.needs import RunRequest, identities, run_requests
from backfill_assets.core.states import Codes, States
from backfill_assets_tests.builders import Story, day, loaded

MOST = 3


def stale(*days: int) -> Story:
    """A lake in which these staging days are stale."""
    story = loaded(10).build("staging", *map(day, range(10))).land(day(10), "late")
    return story.load(day(10), touching=map(day, days))


def asked(story: Story, tried: dict[int, int], *days: int, rules: str = "") -> tuple[list[RunRequest], list[date]]:
    states = story.states()
    known = identities(states, "staging", map(day, days), rules)
    return run_requests(states, "staging", known, {day(n): count for n, count in tried.items()}, MOST, frozenset())


def one(number: int) -> DayRange:
    return DayRange(day(number), day(number) + ONE_DAY)


def test_neighbouring_days_are_one_request_that_names_only_the_days_that_need_it() -> None:
    (ask,), given_up = asked(stale(2, 5), {}, 2, 5)
    assert (ask.days, ask.attempt, given_up) == (DayRange(day(2), day(6)), 0, [])
    assert list(ask.asked) == [str(day(2)), str(day(5))]


def test_the_same_look_gives_the_same_key_and_a_changed_input_another() -> None:
    story = stale(2)
    (first,), _ = asked(story, {}, 2)
    (again,), _ = asked(story, {}, 2)
    assert first.key == again.key
    story.land(day(11), "later").load(day(11), touching=[day(2)])
    (changed,), _ = asked(story, {}, 2)
    assert changed.key != first.key


def test_inputs_that_return_to_what_they_were_are_a_new_request_because_of_the_write_in_between() -> None:
    story = stale(2)
    (first,), _ = asked(story, {}, 2)
    before = {d: dict(rows) for d, rows in story.ledger.items()}
    story.land(day(11), "later").load(day(11), touching=[day(2)]).build("staging", day(2))
    story.ledger = before
    assert story.digest("staging", day(2)).startswith(first.asked[str(day(2))].split(".")[0]), (
        "the inputs are as before"
    )
    (back,), _ = asked(story, {}, 2)
    assert back.key != first.key


def test_a_day_that_was_tried_in_vain_is_asked_for_alone_and_last_so_that_it_holds_no_other_back() -> None:
    found, given_up = asked(stale(2, 3, 4), {3: 1}, 2, 3, 4)
    assert [(a.days, a.attempt) for a in found] == [(one(2), 0), (one(4), 0), (one(3), 1)]
    assert not given_up
    assert len({a.key for a in found}) == len(found)


def test_every_attempt_has_a_key_of_its_own_and_they_are_bounded() -> None:
    story = stale(3)
    keys = {asked(story, {3: n}, 3)[0][0].key for n in range(MOST)}
    assert len(keys) == MOST
    assert asked(story, {3: MOST}, 3) == ([], [day(3)])


def test_whatever_an_attempt_was_tried_with_makes_another_request_when_it_changes() -> None:
    story = stale(3)
    keys = [asked(story, {}, 3)[0][0].key, asked(story, {}, 3, rules="relaxed gates")[0][0].key]
    states = story.states()
    codes = {**states.codes, "staging": Codes("other code", "settings-1")}
    changed = States(states.contracts.values(), states.view, codes)
    keys += [run_requests(changed, "staging", identities(changed, "staging", [day(3)]), {}, MOST, set())[0][0].key]
    story.land(day(12), "new input").load(day(12), touching=[day(3)])
    keys += [asked(story, {}, 3)[0][0].key]
    assert len(set(keys)) == len(keys)
