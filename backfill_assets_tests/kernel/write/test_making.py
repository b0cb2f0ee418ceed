"""The plan of a table's rows: rows that no day asked for stay to be told, and one span makes none
for another. Not here: what is read for which days, and what becomes of the rows
(`test_derived`)."""

from datetime import date
from typing import TYPE_CHECKING

import pytest

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.write.computing import (
    ROWS_OF_A_PLAN,
    _spans_to_compute,
    _within_span,
    _without_days,
)
from backfill_assets_tests.builders import FEATURES, STAGING, TRAINING, day, loaded
from backfill_assets_tests.lakes import ECHO

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.users_do
FIRST = date(2024, 3, 1)
SPANS = (DayRange(FIRST, FIRST + ONE_DAY), DayRange(FIRST + 4 * ONE_DAY, FIRST + 6 * ONE_DAY))


def rows(spark: "SparkSession", *numbers: int | None) -> "DataFrame":
    """One row on each day of these numbers (None: without a day)."""
    days = [("k", 1, None if n is None else FIRST + ONE_DAY * n) for n in numbers]
    return spark.createDataFrame(days, "event_key string, value bigint, event_date date")


def days_in(frame: "DataFrame") -> list[int | None]:
    found = [
        None if r["event_date"] is None else (r["event_date"] - FIRST).days for r in frame.collect()
    ]
    return sorted(found, key=str)


def test_leaving_days_out_keeps_the_rows_without_a_day(spark: "SparkSession") -> None:
    assert days_in(_without_days(rows(spark, 0, 1, None), ECHO, [FIRST])) == [1, None]


def test_a_row_that_one_span_made_for_a_day_of_another_is_not_taken_for_one_of_that_day(
    spark: "SparkSession",
) -> None:
    made = rows(spark, 0, 2, 4, None, 9)
    assert days_in(_within_span(made, ECHO, SPANS[0], SPANS)) == [0, 9, None, None, None]
    assert days_in(_within_span(made, ECHO, SPANS[1], SPANS)) == [4, 9, None, None, None]
    assert days_in(_within_span(made, ECHO, SPANS[0], SPANS[:1])) == [0, 2, 4, 9, None]


def test_days_far_apart_are_computed_together_with_few_rows_and_apart_with_many() -> None:
    story = loaded(9)
    story.build("staging", *map(day, range(9)), rows=1)
    story.build("features", *map(day, range(9)), rows=1)
    todo = [day(0), day(2), day(3), day(6)]
    assert _spans_to_compute(story.view(), TRAINING, todo) == [DayRange(day(0), day(7))]
    story.build("training", day(1), rows=ROWS_OF_A_PLAN)
    apart = [DayRange(day(0), day(1)), DayRange(day(2), day(4)), DayRange(day(6), day(7))]
    assert _spans_to_compute(story.view(), TRAINING, todo) == apart
    story.build("staging", day(1), rows=ROWS_OF_A_PLAN)
    assert _spans_to_compute(story.view(), STAGING, todo) == [DayRange(day(0), day(7))], (
        "made from deliveries"
    )


def test_days_nearer_than_their_windows_are_long_are_computed_together() -> None:
    story = loaded(9)
    story.build("staging", *map(day, range(9)), rows=ROWS_OF_A_PLAN)
    (window,) = FEATURES.inputs
    far = 1 + window.before  # the gap has as many days as each part would read for itself
    two = [DayRange(day(0), day(1)), DayRange(day(far), day(far + 1))]
    assert _spans_to_compute(story.view(), FEATURES, [day(0), day(far)]) == two
    one = [DayRange(day(0), day(far))]
    assert _spans_to_compute(story.view(), FEATURES, [day(0), day(far - 1)]) == one
