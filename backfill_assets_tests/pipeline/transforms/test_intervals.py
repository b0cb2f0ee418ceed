"""Intervals: their cuts cost few rows, whatever their length, and give every day its value.

Tested here: `pipeline.transforms.intervals`: the number of rows it makes, and any bounds, more than known intervals can
have. Not tested here: every aggregation and type (`test_declared.py`, `test_measures.py`).
"""

from datetime import datetime, time
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.pipeline.transforms.aggregation import Reach, Value, trailing
from backfill_assets_tests.pipeline.naive import FIRST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = pytest.mark.users_do

LENGTH = 40
DAYS = DayRange(FIRST, FIRST + ONE_DAY * LENGTH)
NUMBER = Value("number", "INT")


def _rows(random: Random, count: int) -> list[tuple[Any, ...]]:
    """Rows of one entity with bounds of any kind: none, empty ones, some before the event."""
    found = []
    for key in range(count):
        first = random.choice((None, random.randint(-5, LENGTH)))
        last = random.choice((None, None if first is None else first + random.randint(-2, 30), random.randint(0, 30)))
        day = random.randint(-30, LENGTH)
        found.append((f"{key:03d}", day, random.randint(-99, 99), first, last))
    return found


def _frame(spark: "SparkSession", rows: list[tuple[Any, ...]]) -> "DataFrame":
    days = [
        (k, FIRST + ONE_DAY * e, n, *(None if d is None else FIRST + ONE_DAY * d for d in b)) for k, e, n, *b in rows
    ]
    told = [("A", k, datetime.combine(d, time()), d, n, a, b) for k, d, n, a, b in days]
    schema = "entity STRING, event_key STRING, event_ts TIMESTAMP, event_date DATE, number INT"
    return spark.createDataFrame(told, f"{schema}, __first_day DATE, __last_day DATE")


def _least(rows: list[tuple[Any, ...]], reach: Reach, day: int) -> int | None:
    counts = [
        n for _, e, n, first, last in rows
        if e + reach.first <= day <= e + reach.last and (first is None or first <= day)
        and (last is None or day <= last)
    ]  # fmt: skip
    return min(counts, default=None)


def test_any_bounds_come_to_what_a_look_at_every_row_on_every_day_comes_to(spark: "SparkSession") -> None:
    from backfill_assets.pipeline.transforms.intervals import on_each_day
    from backfill_assets.pipeline.transforms.measures import Measure

    rows, reaches = _rows(Random(5), 60), (trailing(13), Reach(-9, -2))
    asked = {f"least_{i}": Measure("least", NUMBER, r) for i, r in enumerate(reaches)}
    events = {f"events_{i}": Measure("count", Value(), r) for i, r in enumerate(reaches)}
    found = {r["__day"]: r for r in on_each_day(_frame(spark, rows), ["entity"], DAYS, {**asked, **events}).collect()}
    for day in range(LENGTH):
        wanted = [_least(rows, reach, day) for reach in reaches]
        if any(w is not None for w in wanted):
            assert [found[day][name] for name in asked] == wanted, day
        else:
            assert day not in found


def test_an_event_that_no_window_reaches_is_left_out_before_anything_is_moved(spark: "SparkSession") -> None:
    from backfill_assets.pipeline.transforms import intervals
    from backfill_assets.pipeline.transforms.measures import Measure

    bounds = {"early": (-8, None, None), "reached": (-7, None, None), "late": (LENGTH + 2, None, None),
              "ahead": (LENGTH + 1, None, None), "gone": (5, None, 2)}  # fmt: skip
    rows = [(key, event, 1, first, last) for key, (event, first, last) in bounds.items()]
    measures = {str(r): Measure("count", Value(), r) for r in (trailing(8), Reach(-2, -1))}
    placed = intervals._placed(_frame(spark, rows), {"entity_0": "entity"}, DAYS, {})
    left = {r["event_key"] for r in placed.where(intervals._reaches(measures)).collect()}
    assert left == {"reached", "ahead"}


def test_an_event_costs_two_rows_for_each_window_however_long_it_is(spark: "SparkSession") -> None:
    from backfill_assets.pipeline.transforms import intervals
    from backfill_assets.pipeline.transforms.measures import Measure

    rows = [(f"{key:03d}", key, key, None, None) for key in range(LENGTH)]
    measures = {"n": Measure("count", Value(), trailing(30)), "g": Measure("greatest", NUMBER, trailing(30))}
    values = {m.value: f"value_{i}" for i, m in enumerate(measures.values())}
    placed = intervals._placed(_frame(spark, rows), {"entity_0": "entity"}, DAYS, values)
    grouped = placed.selectExpr("entity_0", "event", "first", "last", "1L AS n", "value_1 AS g")
    once = {(m.part, m.value): name for name, m in measures.items()}
    assert intervals._points(grouped, ["entity_0"], LENGTH - 1, (measures, once)).count() <= 4 * LENGTH
