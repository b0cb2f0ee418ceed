"""Intervals: their cuts cost few rows, whatever their length, and give every day its value; what
meets on a day costs one.

Tested here: `pipeline.transforms.intervals`: the number of rows it makes, and any bounds, more than
known intervals can have. Not tested here: every aggregation and type (`test_declared.py`,
`test_measures.py`).
"""

from datetime import datetime, time
from random import Random
from typing import Any

import pytest

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.pipeline.transforms.aggregation import (
    Aggregation,
    Reach,
    Value,
    trailing_reach,
)
from backfill_assets_tests.engine_choice import DataFrame, SparkSession
from backfill_assets_tests.pipeline.naive import FIRST

pytestmark = pytest.mark.users_do
LENGTH = 40
DAYS = DayRange(FIRST, FIRST + ONE_DAY * LENGTH)
NUMBER = Value("number", "INT")


def _rows(random: Random, count: int) -> list[tuple[Any, ...]]:
    """Rows of one entity with bounds of any kind: none, empty ones, some before the event."""
    found = []
    for key in range(count):
        first = random.choice((None, random.randint(-5, LENGTH)))
        last = random.choice(
            (None, None if first is None else first + random.randint(-2, 30), random.randint(0, 30))
        )
        day = random.randint(-30, LENGTH)
        found.append((f"{key:03d}", day, random.randint(-99, 99), first, last))
    return found


def _frame(spark: "SparkSession", rows: list[tuple[Any, ...]]) -> "DataFrame":
    days = [
        (k, FIRST + ONE_DAY * e, n, *(None if d is None else FIRST + ONE_DAY * d for d in b))
        for k, e, n, *b in rows
    ]
    told = [("A", k, datetime.combine(d, time()), d, n, a, b) for k, d, n, a, b in days]
    schema = "entity STRING, event_key STRING, event_ts TIMESTAMP, event_date DATE, number INT"
    return spark.createDataFrame(told, f"{schema}, __first_day DATE, __last_day DATE")


def _reaching(rows: list[tuple[Any, ...]], reach: Reach, day: int) -> list[int]:
    """The numbers of the rows that count for a reach on a day."""
    found = []
    for _, event, number, first, last in rows:
        in_reach = event + reach.first <= day <= event + reach.last
        if in_reach and (first is None or first <= day) and (last is None or day <= last):
            found.append(number)
    return found


def _least(rows: list[tuple[Any, ...]], reach: Reach, day: int) -> int | None:
    return min(_reaching(rows, reach, day), default=None)


def test_any_bounds_come_to_what_a_look_at_every_row_on_every_day_comes_to(
    spark: "SparkSession",
) -> None:
    from backfill_assets.pipeline.transforms.intervals import on_each_day
    from backfill_assets.pipeline.transforms.measures import Measure

    rows, reaches = _rows(Random(5), 60), (trailing_reach(13), Reach(-9, -2))
    asked = {f"least_{i}": Measure("least", NUMBER, r) for i, r in enumerate(reaches)}
    events = {f"events_{i}": Measure("count", Value(), r) for i, r in enumerate(reaches)}
    found = {
        r["__day"]: r
        for r in on_each_day(_frame(spark, rows), ["entity"], DAYS, {**asked, **events}).collect()
    }
    for day in range(LENGTH):
        wanted = [_least(rows, reach, day) for reach in reaches]
        if any(w is not None for w in wanted):
            assert [found[day][name] for name in asked] == wanted, day
        else:
            assert day not in found


def test_sums_of_64_bits_over_ranges_are_exact_whatever_they_pass_through(
    spark: "SparkSession",
) -> None:
    from backfill_assets.pipeline.transforms.declared import measured_aggregates

    rows, reach = _rows(Random(7), 60), trailing_reach(13)
    wide = Value("number * 90000000000000000", "BIGINT")  # up to 8.9e18
    columns = (Aggregation("total", "sum", wide, reach), Aggregation("mean", "avg", wide, reach))
    frame = _frame(spark, rows)
    found, _, exact = measured_aggregates(frame, DAYS, ["entity"], columns)
    told = {r["__day"]: r for r in found.select("__day", *exact).collect()}
    assert told
    for day in range(LENGTH):
        counted = [n * 90_000_000_000_000_000 for n in _reaching(rows, reach, day)]
        assert (day in told) == bool(counted), day
        if counted:
            assert int(told[day]["total"]) == sum(counted), day
            assert told[day]["mean"] == pytest.approx(sum(counted) / len(counted)), day


def test_however_many_events_begin_and_end_on_a_day_one_row_of_it_is_sorted_and_run_through(
    spark: "SparkSession",
) -> None:
    from backfill_assets.pipeline.transforms.intervals import _numbered_days, _points_by_position
    from backfill_assets.pipeline.transforms.measures import Measure

    asked = {f"events_{n}": Measure("count", Value(), trailing_reach(n)) for n in (3, 7, 13)}
    values = {Value(): "value_0"}
    placed = _numbered_days(_frame(spark, _rows(Random(11), 400)), {"e": "entity"}, DAYS, values)
    points = _points_by_position(placed, ["e"], LENGTH - 1, (asked, values))
    assert sorted(r["position"] for r in points.collect()) == [*range(LENGTH)]
