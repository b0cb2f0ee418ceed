"""Lateness as numbers: by hand, against brute force, and what must hold for any rows. Milliseconds,
no JVM."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange, midnight
from backfill_assets.reports.completeness import (
    Aged,
    Cell,
    age_for,
    completeness_by_age,
    look_back_advice,
    look_back_for,
    table_watermarks,
    watermark_day,
)
from backfill_assets_tests.builders import CONTRACTS, HORIZON

FIRST = date(2024, 2, 20)
AGES = st.dictionaries(st.integers(0, 120), st.integers(1, 50), max_size=12)
WATCHED = st.integers(2, 24).map(lambda n: DayRange(FIRST, FIRST + ONE_DAY * n))
CELLS = st.lists(
    st.builds(
        lambda arrival, age, rows: Cell(
            FIRST + ONE_DAY * arrival, FIRST + ONE_DAY * (arrival - age), rows
        ),
        st.integers(0, 30),
        st.integers(-2, 30),
        st.integers(1, 5),
    ),
    max_size=60,
)


@given(AGES)
def test_what_look_backs_miss_is_what_a_simulated_nightly_job_misses(ages: dict[int, int]) -> None:
    arrivals = [age + 200 for age in ages]  # each age's rows belong to event day 200
    for advice in look_back_advice(ages, 40):
        seen = 0
        for (_, rows), arrival in zip(ages.items(), arrivals, strict=True):
            nights = range(
                arrival, arrival + 60
            )  # the night after day A reprocesses the event days A - N + 1 .. A
            seen += rows if any(night - advice.days + 1 <= 200 <= night for night in nights) else 0
        assert advice.missed == sum(ages.values()) - seen


@given(AGES, st.floats(0.01, 1))
def test_the_advised_look_back_is_the_smallest_that_sees_the_share(
    ages: dict[int, int], share: float
) -> None:
    advice = look_back_advice(ages)
    days = look_back_for(share, advice)
    assert all(1 - a.missed_share < share for a in advice[: days - 1 if days else None])
    assert days is None or 1 - advice[days - 1].missed_share >= share


@given(CELLS, WATCHED)
def test_completeness_is_what_counting_row_by_row_gives(
    cells: list[Cell], watched: DayRange
) -> None:
    rows = [
        (c.event_day, c.age_days) for c in cells if c.arrival_day in watched for _ in range(c.rows)
    ]
    through = len(watched) // 2
    expected = 1.0
    for found in reversed(completeness_by_age(cells, watched)):
        if found.age_days < through:
            old = {d for d in watched if d + ONE_DAY * (found.age_days + 1) in watched}
            by_next = sum(day in old and age <= found.age_days + 1 for day, age in rows)
            by_now = sum(day in old and age <= found.age_days for day, age in rows)
            expected *= by_now / by_next if by_next else 1
        assert found.share == pytest.approx(expected)


def test_the_age_for_a_share_is_the_smallest_that_reaches_it() -> None:
    shares = [Aged(0, 0.5, 1, 1), Aged(1, 0.9, 1, 1), Aged(2, 1.0, 1, 1)]
    assert [age_for(s, shares) for s in (0.1, 0.9, 0.91, 1.0)] == [0, 1, 2, 2]
    assert age_for(0.5, []) is None


@pytest.mark.parametrize(
    "frontier", [datetime(2024, 3, 10, tzinfo=UTC), datetime(2024, 3, 10, 7, tzinfo=UTC)]
)
def test_all_rows_up_to_the_age_of_the_watermark_day_arrive_before_the_frontier(
    frontier: datetime,
) -> None:
    for age in range(5):
        day = watermark_day(frontier, age)
        assert midnight(day + ONE_DAY * (1 + age)) <= frontier < midnight(day + ONE_DAY * (2 + age))


def test_watermarks_follow_the_inputs_of_each_table() -> None:
    newest = dict.fromkeys((c.name for c in CONTRACTS), FIRST + ONE_DAY * 9)
    frontier = midnight(FIRST + ONE_DAY * 10)
    measured = FIRST + ONE_DAY * 6
    marks = {
        w.table: w
        for w in table_watermarks(
            CONTRACTS, newest, {"raw": measured}, lambda _: frontier, frontier + timedelta(hours=5)
        )
    }
    assert {name: (w.day - FIRST).days if w.day else None for name, w in marks.items()} == {
        "raw": 6,
        "staging": 6,
        "features": 6,
        "features_as_known": 9,
        "labels": 6 - HORIZON,
        "training": 6 - HORIZON,
    }
    assert marks["raw"].lag_days == 3
    assert marks["raw"].clock_lag_days == 3 + 5 / 24


def test_a_table_that_was_not_built_so_far_holds_back_what_is_made_of_it() -> None:
    newest = {c.name: FIRST + ONE_DAY * 9 for c in CONTRACTS if c.name != "features"} | {
        "staging": FIRST
    }
    days = {
        w.table: w.day
        for w in table_watermarks(
            CONTRACTS, newest, {"raw": FIRST + ONE_DAY * 6}, lambda _: None, midnight(FIRST)
        )
    }
    assert days["staging"] == FIRST
    assert days["features"] is None
    assert days["labels"] == FIRST - ONE_DAY * HORIZON


def test_without_a_measured_age_only_what_is_known_at_a_cut_has_a_watermark() -> None:
    newest = dict.fromkeys((c.name for c in CONTRACTS), FIRST)
    marks = table_watermarks(
        CONTRACTS, newest, {}, lambda _: midnight(FIRST + ONE_DAY), midnight(FIRST + ONE_DAY)
    )
    assert [w.table for w in marks if w.day] == ["features_as_known"]
    assert all(w.lag_days is None for w in marks if w.day is None)
