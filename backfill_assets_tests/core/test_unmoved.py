"""A look that takes over what an earlier one found says the same of every day as one that judges them all.

Tested here: `core.unmoved`, by way of `core.states`. Not tested here: the states themselves (`test_states`).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.days import ONE_DAY, midnight
from backfill_assets.core.digests import parameters_of
from backfill_assets.core.receipts import Built
from backfill_assets.core.states import Codes, State, States
from backfill_assets.core.unmoved import moved_days
from backfill_assets.core.view import Release
from backfill_assets_tests.builders import CONTRACTS, Story, day, loaded

DAYS = 8
TABLES = [c.name for c in CONTRACTS]
MADE = TABLES[1:]


def judged(states: States) -> dict[tuple[str, date], State]:
    """Every day that has a receipt, as a verdict over a table asks."""
    return {(t, d): states.of(t, d) for t in TABLES for d in states.view.table(t).stamps}


def _arrives(story: Story, table: str, number: int) -> None:
    other = day((number * 5) % DAYS)
    story.land(day(number), f"more-{story.writes}").load(day(number), touching=[day(number), other])


def _lands(story: Story, table: str, number: int) -> None:
    story.land(day(number), f"more-{story.writes}")


def _cut_off(story: Story, table: str, number: int) -> None:
    story.land(day(number), f"more-{story.writes}").load(day(number), finish=False)


def _built_again(story: Story, table: str, number: int) -> None:
    story.build(table, day(number), content=f"content-{story.writes}" if number % 2 else "")


def _held(story: Story, table: str, number: int) -> None:
    story.rewrite(table, day(number), built=Built.HELD)


def _edited(story: Story, table: str, number: int) -> None:
    story.edit(table, day(number))


def _edited_landed(story: Story, table: str, number: int) -> None:
    story.edit(("raw", "arrivals")[number % 2], day(number))


def _made_with_a_wider_window(story: Story, table: str, number: int) -> None:
    contract = next(c for c in CONTRACTS if c.name == table)
    wide = replace(contract, inputs=tuple(replace(i, before=i.before + 2) for i in contract.inputs))
    others = [c for c in CONTRACTS if c.name != table]
    digest = States([*others, wide], story.view(), story.codes).digests.of(table, day(number))
    story.rewrite(table, day(number), input_digest=digest)
    before, text = story.tables[table], parameters_of(wide, story.view()).to_json()
    stamps = {**before.stamps, day(number): replace(before.stamps[day(number)], parameters=text)}
    story.tables[table] = replace(before, stamps=stamps)


def _next_day(story: Story, table: str, number: int) -> None:
    story.land(day(DAYS + number), f"more-{story.writes}").load(day(DAYS + number))


def _lost(story: Story, table: str, number: int) -> None:
    stamps = {d: s for d, s in story.tables[table].stamps.items() if d != day(number)}
    story.tables[table] = replace(story.tables[table], version=story.tables[table].version + 1, stamps=stamps)
    story.build(table, day(number))


def _as_of(story: Story, table: str, number: int) -> None:
    story.as_of = midnight(day(DAYS + number))


EDITS: list[Callable[[Story, str, int], None]] = [
    _arrives, _lands, _cut_off, _built_again, _held, _edited, _edited_landed, _made_with_a_wider_window,
    _next_day, _lost, _as_of,
]  # fmt: skip
EDIT = st.tuples(st.sampled_from(EDITS), st.sampled_from(MADE), st.integers(0, DAYS - 1))


@given(st.lists(st.lists(EDIT, min_size=1, max_size=4), max_size=4))
def test_what_is_taken_over_is_what_judging_every_day_again_would_find(rounds: list[list[Any]]) -> None:
    story = loaded(DAYS).build_all(*map(day, range(DAYS)))
    before = story.states()
    judged(before)
    for of_round in rounds:
        for edit, table, number in of_round:
            edit(story, table, number)
        now = States(CONTRACTS, story.view(), story.codes, before)
        assert judged(now) == judged(story.states())
        before = now


def test_a_write_of_one_day_has_only_those_judged_again_that_it_may_reach() -> None:
    story = loaded(60).build_all(*map(day, range(60)))
    before = story.view()
    story.build("staging", day(30), content="other")
    moved = moved_days(CONTRACTS, before, story.view())
    assert moved is not None
    assert (moved["raw"], moved["staging"]) == (set(), {day(30)})
    windows = {i.before + i.after + 1 for c in CONTRACTS for i in c.inputs if i.table == "staging"}
    assert all(len(days) <= max(windows) for days in moved.values())


class Trusting(States):
    """Judges no day."""

    def _of(self, table: str, day: date) -> State:
        pytest.fail(f"{table} {day} is judged again")


def test_what_was_found_before_is_not_judged_again() -> None:
    story = loaded(DAYS).build_all(*map(day, range(DAYS)))
    before = story.states()
    assert judged(before) == judged(Trusting(CONTRACTS, story.view(), story.codes, before))


def test_where_other_rows_may_count_every_day_is_judged_again() -> None:
    story = loaded(DAYS).build_all(*map(day, range(DAYS)))
    view = story.view()
    released = replace(view.delivered["raw"], releases=(Release(frozenset({day(1)}), day(0), day(1)),))
    for other in (replace(view, delivered={"raw": released}), replace(view, grace=view.grace + ONE_DAY)):
        assert moved_days(CONTRACTS, view, other) is None
    codes = dict.fromkeys(story.codes, Codes("other code", "settings"))
    before = story.states()
    assert set(judged(before).values()) == {State.FRESH}
    assert set(judged(States(CONTRACTS, view, codes, before)).values()) == {State.OUTDATED}


def test_a_day_that_was_made_with_another_window_is_judged_again_as_nobody_looked_how_far_it_reaches() -> None:
    story = loaded(40).build_all(*map(day, range(40)))
    first = max(i.before for c in CONTRACTS for i in c.inputs if c.name == "features") + 1
    _made_with_a_wider_window(story, "features", 35)
    before = story.states()
    assert before.of("features", day(35)) is State.OUTDATED
    story.build("staging", day(35 - first), content="other")
    assert States(CONTRACTS, story.view(), story.codes, before).of("features", day(35)) is State.STALE
