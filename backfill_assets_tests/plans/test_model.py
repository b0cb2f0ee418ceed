"""The text of a plan: what is written is what is read, and what is not ours is refused.

Tested here: `plans.model`. Not tested here: the file in the lake (`plans/test_files.py`).
"""

import json
from datetime import UTC, date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.plans.model import (
    DayMove,
    Pins,
    Plan,
    PlanLook,
    PreflightTick,
    Price,
    TableImpact,
    parse_plan,
    plan_json,
)
from backfill_assets.plans.plan import cut_chunks
from backfill_assets.plans.policy import Policy, Tolerances
from backfill_assets_tests.strategies import day_ranges, texts

shares = st.none() | st.floats(0, 10)
prices = st.builds(
    Price, st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 10**12)
)
several_ranges = st.lists(day_ranges, max_size=3).map(tuple)
days_by_word = st.dictionaries(texts, several_ranges, max_size=2)
impacts = st.builds(
    TableImpact,
    texts,
    st.lists(texts, max_size=2).map(tuple),
    days_by_word,
    days_by_word,
    several_ranges,
    several_ranges,
    st.none() | prices,
)
policies = st.builds(
    Policy,
    tolerances=st.builds(Tolerances, rows=shares, nulls=shares, means=shares),
    force=st.booleans(),
)
digests = st.dictionaries(texts, texts, max_size=2)
pins = st.builds(
    Pins,
    digests,
    digests,
    digests,
    st.dictionaries(texts, st.integers(-1, 99), max_size=2),
    st.none() | st.datetimes(timezones=st.just(UTC)),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan."""
    days = draw(day_ranges)
    chunks = cut_chunks(days, Policy(chunk="30d", canary=draw(st.integers(0, 3))))
    return Plan(
        draw(texts),
        draw(st.datetimes(timezones=st.just(UTC))),
        draw(texts),
        days,
        ("raw", "staging"),
        chunks,
        draw(policies),
        draw(pins),
        draw(st.lists(impacts, max_size=2).map(tuple)),
        draw(
            st.lists(st.builds(PreflightTick, texts, st.booleans(), texts), max_size=2).map(tuple)
        ),
        draw(st.dictionaries(st.integers(1, 9), prices, max_size=2)),
        draw(texts),
        draw(texts),
        draw(st.none() | st.integers(1, 99)),
    )


@given(plans())
def test_a_plan_comes_back_from_its_text_as_it_was(plan: Plan) -> None:
    assert parse_plan(plan_json(plan)) == plan


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "3",
        "[" * 100_000,
        b"\xff",
        '{"backfill_assets_plan": 2}',
        '{"backfill_assets_plan": 1}',
    ],
)
def test_what_is_no_plan_is_refused(text: str | bytes) -> None:
    with pytest.raises(BackfillError, match="not understood"):
        parse_plan(text)


@given(plans())
def test_a_plan_of_other_days_than_were_written_or_of_another_id_is_refused(plan: Plan) -> None:
    body = json.loads(plan_json(plan))
    changed = {**body, "note": body["note"] + "!"}
    with pytest.raises(BackfillError, match=r"the plan: .* not what was written"):
        parse_plan(json.dumps(changed))
    with pytest.raises(BackfillError, match=r"the plan other: .* it is of the plan"):
        parse_plan(json.dumps(body), "other")


START = date(2024, 3, 1)


def test_days_beyond_the_range_gain_or_lose_rows() -> None:
    moves = (
        DayMove("staging", START + ONE_DAY, 1, 0, 0),
        DayMove("staging", START, 1, 0, 0),
        DayMove("raw", START - ONE_DAY, 0, 2, 0),
        DayMove("raw", START - 2 * ONE_DAY, 0, 0, 5),
    )
    assert PlanLook(moves).beyond(DayRange(START, START + ONE_DAY)) == [
        START - ONE_DAY,
        START + ONE_DAY,
    ]
