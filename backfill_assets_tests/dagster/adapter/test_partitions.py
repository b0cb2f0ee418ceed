"""Dagster's definitions of a table's partitions, and their mappings, against the calendar.

Tested here: `dagster.adapter.partitions`. Not tested here: runs over such partitions
(`end_to_end.test_periods`).
"""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.partitions import (
    calendar_of_schedule,
    left_out_of,
    partitions_of,
    shown_mapping,
)
from backfill_assets.kernel.core.calendars import DAILY, Calendar, LeftOut, Unit, parse_calendar
from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.days import inclusive_range

START, NOW = date(2024, 2, 14), datetime(2025, 1, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "day",
        "week",
        "week from sunday",
        "month",
        "quarter",
        "year",
        "day without saturday, sunday, 2024-03-29, 2024-12-25",
    ],
)
def test_dagster_has_the_keys_of_the_calendar(text: str) -> None:
    calendar = parse_calendar(text)
    found = partitions_of(calendar, START).get_partition_keys(current_time=NOW)
    last = NOW.date() if not calendar.is_of_days else date(2025, 1, 14)
    keys = [k for k in calendar.keys_in(inclusive_range(START, last)) if k >= START]
    assert found == [*map(str, keys)]


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ("30 6 * * *", "day"),
        ("0 0 * * MON", "week"),
        ("0 0 * * 7", "week from sunday"),
        ("0 0 1 1-12 *", "month"),
        ("0 6 1 */3 *", "quarter"),
        ("0 0 1 JAN *", "year"),
    ],
)
def test_a_schedule_of_whole_days_is_known_by_the_days_on_which_it_fires(
    schedule: str, text: str
) -> None:
    assert calendar_of_schedule(schedule) == parse_calendar(text)
    assert calendar_of_schedule(partitions_of(parse_calendar(text), START).cron_schedule) == (
        parse_calendar(text)
    )


@pytest.mark.parametrize(
    "schedule",
    [
        "0 0 * * 1-5",  # a Friday would hold three days
        "0 0 15 * *",
        "0 0 1 2,5,8,11 *",
        "0 0,12 * * *",
        "0 * * * *",
        "*/5 * * * *",
    ],
)
def test_a_schedule_of_other_days_is_none_of_a_calendar(schedule: str) -> None:
    assert calendar_of_schedule(schedule) is None


MONTHS, DAYS = "0 0 1 * *", "0 0 * * *"


@pytest.mark.parametrize(
    ("schedule", "exclusions", "zone"),
    [
        (MONTHS, ["0 0 1 8 *"], "UTC"),
        (
            MONTHS,
            ["0 0 1 AUG,12 *", datetime(2024, 3, 1, tzinfo=ZoneInfo("Europe/Berlin"))],
            "Europe/Berlin",
        ),
        (DAYS, ["0 0 * * 6,0", "0 0 25 12 *", datetime(2024, 5, 1, tzinfo=UTC)], "UTC"),
        (
            "30 6 * * *",
            [
                "0 6 * * 1",
                "30 6 29 2 *",
                datetime(2024, 5, 1, 6, 30, tzinfo=ZoneInfo("US/Pacific")),
            ],
            "US/Pacific",
        ),
        (DAYS, [datetime(2024, 5, 1, 6, tzinfo=UTC), "* * 1 * *"], "UTC"),
        (DAYS, [], "UTC"),
    ],
)
def test_what_exclusions_leave_out_is_known_by_numbers_and_dates(
    schedule: str, exclusions: list[str | datetime], zone: str
) -> None:
    made = dg.TimeWindowPartitionsDefinition(
        start="2024-01-01",
        end="2026-01-01",
        cron_schedule=schedule,
        fmt="%Y-%m-%d",
        timezone=zone,
        exclusions=exclusions or None,
    )
    calendar = calendar_of_schedule(schedule) or DAILY
    left_out = LeftOut.parse(left_out_of(made))
    expected = [
        key
        for key in calendar.keys_in(inclusive_range(date(2024, 1, 1), date(2025, 12, 30)))
        if not left_out.has(key)
    ]
    found = made.get_partition_keys()
    assert [*map(str, expected)] == [key for key in found if key < "2025-12-31"]


def test_a_schedule_of_days_that_no_numbers_describe_leaves_out_nothing_here() -> None:
    unknown = ["0 0 1-7 * 1", "@monthly", "*/5 * 1 * *"]
    assert left_out_of(dg.DailyPartitionsDefinition("2024-01-01", exclusions=unknown)) == []


def test_a_lake_of_days_has_the_definition_that_it_always_had() -> None:
    daily = dg.DailyPartitionsDefinition(start_date="2024-02-14", timezone="UTC")
    assert partitions_of(DAILY, START) == daily


def test_a_month_is_shown_with_all_its_days_and_a_day_with_its_month() -> None:
    month = Calendar(Unit.MONTH)
    months, days = partitions_of(month, START), partitions_of(DAILY, START)
    of_days = shown_mapping([Input("staging", 3, made_in=month)], as_windows=False)
    of_month = shown_mapping([Input("monthly", calendar=month)], as_windows=True)
    assert isinstance(of_days, dg.TimeWindowPartitionMapping)
    found = of_days.get_upstream_mapped_partitions_result_for_partitions(
        months.empty_subset().with_partition_keys(["2024-03-01"]), months, days, current_time=NOW
    ).partitions_subset.get_partition_keys()
    assert [*found] == [*map(str, inclusive_range(date(2024, 3, 1), date(2024, 3, 31)))]
    found = of_month.get_upstream_mapped_partitions_result_for_partitions(
        days.empty_subset().with_partition_keys(["2024-03-31"]), days, months, current_time=NOW
    ).partitions_subset.get_partition_keys()
    assert [*found] == ["2024-03-01"]
    assert isinstance(shown_mapping([Input("staging", 3)], False), dg.IdentityPartitionMapping)
