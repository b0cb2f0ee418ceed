"""Which chunk of a plan makes a week, a month, a quarter or a year, against a plain computation.

Tested here: `Plan.keys`, `Plan.keys_of`, `Plan.waves` and `ChunkWork.runs` over calendars, ranges and
policies. Not tested here: the calendars (`kernel.core.test_calendars`), and runs of such plans
(`end_to_end.test_periods_in_rooms`).
"""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.calendars import Calendar, parse_calendar
from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.plans.model import ChunkKind, Pins, Plan, parse_plan, plan_json
from backfill_assets.plans.plan import cut_chunks
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.work import ChunkWork
from backfill_assets_tests.builders import FEATURES, STAGING, contract

# Around a leap day, a week 53 (2020), ends of months of 28 to 31 days, and of a year.
STARTS = [date(2024, 2, 1), date(2020, 12, 20), date(2023, 12, 28), date(2024, 2, 28)]
CALENDARS = [
    parse_calendar(text)
    for text in (
        "week",
        "week from sunday",
        "month",
        "quarter",
        "year",
        "day without saturday, sunday, 2024-02-29",
    )
]
calendars = st.sampled_from(CALENDARS)
ranges = st.builds(
    lambda start, shift, days: DayRange(
        start + timedelta(days=shift), start + timedelta(days=shift + days)
    ),
    st.sampled_from(STARTS),
    st.integers(0, 40),
    st.integers(1, 120),
)
policies = st.builds(
    lambda chunk, canary, order, at_once: Policy(
        chunk=chunk, canary=canary, order=order, max_parallel=at_once
    ),
    st.sampled_from(["1d", "7d", "week", "month", "45d"]),
    st.integers(0, 3),
    st.sampled_from(["ascending", "newest-first"]),
    st.integers(1, 4),
)


def plan_of(calendar: Calendar, days: DayRange, policy: Policy) -> Plan:
    """A plan of a daily table and of one with these partitions."""
    return Plan(
        id="20240301-000000-0000",
        created=datetime(2024, 3, 1, tzinfo=UTC),
        user="ada",
        days=days,
        tables=("staging", "report"),
        chunks=cut_chunks(days, policy),
        policy=policy,
        pins=Pins({}, {}, {}, {}),
        periods={"report": tuple(map(calendar.span, calendar.keys_in(days)))},
    )


@given(calendars, ranges, policies)
def test_a_partition_is_made_once_by_the_last_chunk_that_has_a_day_of_it(
    calendar: Calendar, days: DayRange, policy: Policy
) -> None:
    plan = plan_of(calendar, days, policy)
    made = dict[date, int]()
    for chunk in plan.chunks:
        if chunk.kind is ChunkKind.BOUNDARY:
            assert plan.keys(chunk, "report") == [*plan.keys_of("report")]
            continue
        assert plan.keys(chunk, "staging") == [*chunk.days]
        for key in plan.keys(chunk, "report"):
            assert key not in made
            made[key] = chunk.number
    expected = dict[date, int]()
    for chunk in plan.chunks:
        if chunk.kind is not ChunkKind.BOUNDARY:
            expected |= dict.fromkeys(calendar.keys_in(chunk.days), chunk.number)
    assert made == expected
    assert [*plan.keys_of("report")] == sorted(made)
    assert [*plan.keys_of("staging")] == [*days]


@given(calendars, ranges, policies)
def test_no_chunk_makes_a_partition_while_another_makes_days_of_it(
    calendar: Calendar, days: DayRange, policy: Policy
) -> None:
    plan = plan_of(calendar, days, policy)
    waves = plan.waves()
    assert [chunk for wave in waves for chunk in wave] == [*plan.chunks]
    for wave in waves:
        assert len(wave) <= policy.max_parallel
        for chunk in wave:
            for key in plan.keys(chunk, "report") if chunk.kind is ChunkKind.CHUNK else ():
                at_once = [other for other in wave if other != chunk]
                assert not any({*other.days} & {*calendar.span(key)} for other in at_once)


@given(calendars, ranges, policies)
def test_the_runs_of_a_chunk_make_its_days_and_its_partitions_and_nothing_else(
    calendar: Calendar, days: DayRange, policy: Policy
) -> None:
    report = replace(contract("report", "period", Input("staging")), calendar=calendar)
    plan = plan_of(calendar, days, policy)
    plan = replace(plan, tables=("staging", "report", "features"))
    for chunk in plan.chunks[:-1] if plan.has_boundary else plan.chunks:
        work = ChunkWork(plan, chunk, plan.tables, chunk.days)
        runs = [(run.tables, [*run.days]) for run in work.runs([STAGING, report, FEATURES])]
        if keys := plan.keys(chunk, "report"):
            daily = [*chunk.days]
            assert runs == [(("staging",), daily), (("report",), keys), (("features",), daily)]
        else:  # one run, not two around the months that another chunk makes
            assert runs == [(("staging", "features"), [*chunk.days])]


def test_chunks_of_months_run_at_once_and_weeks_of_a_month_before_its_last() -> None:
    days = inclusive_range(date(2024, 1, 1), date(2024, 3, 31))
    by_month = Policy(chunk="month", canary=0, max_parallel=3)
    month = parse_calendar("month")
    waves = [[c.number for c in wave] for wave in plan_of(month, days, by_month).waves()]
    assert waves == [[1, 2, 3], [4]]
    by_week = by_month.model_copy(update={"chunk": "week", "max_parallel": 9})
    waves = [[c.number for c in wave] for wave in plan_of(month, days, by_week).waves()]
    assert waves == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13], [14]]


@pytest.mark.parametrize("calendar", CALENDARS)
def test_the_file_of_a_plan_names_what_each_partition_covers(calendar: Calendar) -> None:
    days = inclusive_range(date(2024, 2, 20), date(2024, 3, 2))
    plan = plan_of(calendar, days, Policy())
    assert parse_plan(plan_json(plan)) == plan
