"""Window arithmetic: differences and cut spans come to the same as looking at every row on every day.

Tested here: `pipeline.transforms.windows`. Not tested here: which rows count on which days (`test_features.py`,
`test_features_as_known.py`): the intervals here are any, more than known intervals can be.
"""

from datetime import date
from functools import reduce
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.load.steadiness import explained_plan
from backfill_assets.pipeline import contracts
from backfill_assets.pipeline.transforms.windows import trailing
from backfill_assets_tests.pipeline.frames import assert_same, rows_of, to_spark
from backfill_assets_tests.pipeline.oracle import engine
from backfill_assets_tests.pipeline.worlds import FIRST, TRIED_IN_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.on_spark("it looks into Spark's plans")

ENTITIES = 500
ROWS = pa.schema(
    [
        ("entity", pa.string()),
        ("event_date", pa.date32()),
        ("value", pa.int64()),
        ("flag", pa.int32()),
        ("first_day", pa.date32()),
        ("last_day", pa.date32()),
    ]
)
NAIVE = """
SELECT r.entity, count(*) FILTER (x.d < r.event_date + {short}) AS events_short, count(*) AS events_long,
       coalesce(sum(r.value) FILTER (x.d < r.event_date + {short}), 0)::bigint AS value_short,
       sum(r.value)::bigint AS value_long, sum(r.flag)::bigint AS flagged_long,
       (x.d - max(r.event_date))::int AS days_since_last, x.d AS feature_date
FROM (SELECT cast(range AS date) AS d FROM range(DATE '{days.start}', DATE '{days.end}', INTERVAL 1 DAY)) x
JOIN landed r ON x.d >= r.event_date AND x.d < r.event_date + {long}
             AND x.d >= r.first_day AND (r.last_day IS NULL OR x.d <= r.last_day)
GROUP BY r.entity, x.d
"""


def day(number: int) -> date:
    """The tests' day of that number."""
    return FIRST + ONE_DAY * number


def row(event: int, first: int, last: int | None, entity: str = "A", value: int = 1, flag: int = 0) -> dict[str, Any]:
    """A row that counts on the days `first` through `last` (None: without end)."""
    days = {"event_date": day(event), "first_day": day(first), "last_day": None if last is None else day(last)}
    return {"entity": entity, "value": value, "flag": flag, **days}


def crowd(seed: int) -> Any:
    """Entities with up to six rows each, on intervals of any kind: empty ones, and some before the event."""
    random = Random(seed)
    rows = []
    for entity in range(ENTITIES):
        for _ in range(random.randint(1, 6)):
            first = random.randint(0, 10)
            last = random.choice((None, first + random.randint(-2, 7)))
            event, value, flag = random.randint(0, 7), random.randint(-2, 2), random.randint(0, 1)
            rows.append(row(event, first, last, str(entity), value, flag))
    return pa.Table.from_pylist(rows, ROWS)


@settings(TRIED_IN_SPARK, max_examples=5)
@given(st.integers(0, 2**32), st.tuples(st.integers(1, 7), st.integers(1, 7)), st.integers(0, 9), st.integers(1, 9))
def test_any_rows_come_to_what_a_look_at_every_row_on_every_day_comes_to(
    spark: "SparkSession", seed: int, windows: tuple[int, int], first: int, length: int
) -> None:
    short, long = sorted(windows)
    rows, days = crowd(seed), DayRange(day(first), day(first + length))
    naive = engine().register("landed", rows).sql(NAIVE.format(short=short, long=long, days=days))
    made = trailing(to_spark(spark, rows), days, (short, long), replaced=True)
    assert_same(made, naive.to_arrow_table(), contracts.features((short, long)))


def test_days_made_one_by_one_are_grouped_once_and_come_to_the_same(spark: "SparkSession") -> None:
    rows, days = crowd(7), DayRange(day(0), day(12))
    naive = engine().register("landed", rows).sql(NAIVE.format(short=2, long=5, days=days))
    landed = to_spark(spark, rows).localCheckpoint()
    each = [trailing(landed, DayRange(d, d + ONE_DAY), (2, 5), replaced=True) for d in days]
    assert_same(reduce(DataFrame.union, each), naive.to_arrow_table(), contracts.features((2, 5)))
    plan = explained_plan(spark, each[0]).lower()
    assert not [word for word in ("windowexec", "window [", "explode", "join") if word in plan]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([row(0, 0, None)], [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ([row(0, 0, None), row(2, 2, 2)], [(0, 0), (1, 1), (2, 0), (3, 3)]),
        ([row(0, 0, 0), row(0, 2, None)], [(0, 0), (2, 2), (3, 3)]),
        ([row(0, 0, None), row(1, 3, None)], [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3)]),
        ([row(0, 0, 1), row(0, 1, 3), row(1, 2, 2)], [(0, 0), (1, 1), (2, 1), (3, 3)]),
        ([row(0, 9, None), row(0, 3, 1)], []),
        ([row(0, 0, 0, value=5), row(0, 0, 0, value=-5)], [(0, 0)]),
    ],
    ids=[
        "it counts for the length of the window",
        "an event that is taken back gives way to the one before",
        "two intervals of one event day leave a gap",
        "a late event takes over when it becomes known",
        "versions of one day overlap, and a later event comes and goes between",
        "what never counts leaves nothing",
        "values that cancel out are still events",
    ],
)
def test_days_since_the_last_event(
    spark: "SparkSession", rows: list[dict[str, Any]], wanted: list[tuple[int, int]]
) -> None:
    made = trailing(to_spark(spark, pa.Table.from_pylist(rows, ROWS)), DayRange(day(0), day(12)), (1, 4), replaced=True)
    found = rows_of(made.select("feature_date", "days_since_last").toArrow())
    assert found == [(day(number), since) for number, since in wanted]
