"""A spread join gives the rows of a plain join, whatever the choice.

Tested here: `pipeline.transforms.spread`, by all rows. Not tested here: what a choice costs (the
guide `skew`).
"""

from collections import Counter
from datetime import UTC, date, datetime, time
from typing import Any, Literal

import pytest

from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets_tests.engine_choice import DataFrame, SparkSession

BY = ("shop", "customer")
CHOICES = [
    Input("staging", by=BY, isolate_nulls=True),
    Input("staging", by=BY, salt=16),
    Input("staging", by=BY, isolate_nulls=True, salt=3),
]
LEFT = [
    *(("A", "hot", n, float(n % 2), ["x"] * (n % 3)) for n in range(60)),
    *(("A", None, n, None, None) for n in range(20)),
    *((None, "hot", n, -0.0, []) for n in range(10)),
    *(("B", f"c{n % 5}", n, float("nan"), ["y"]) for n in range(10)),
]
RIGHT = [
    ("A", "hot", "gold"),
    ("A", "hot", "twice"),
    ("B", "c1", None),
    ("A", None, "no match"),
    ("Z", "z", "alone"),
]
FIRST = date(2024, 1, 1)


def _rows(frame: "DataFrame") -> Counter[str]:
    return Counter(str(sorted(row.asDict().items())) for row in frame.collect())


@pytest.mark.parametrize("how", ["inner", "left"])
def test_every_choice_gives_the_rows_of_a_plain_join(
    spark: "SparkSession", how: Literal["inner", "left"]
) -> None:
    from backfill_assets.pipeline.transforms.spread import spread_join

    left = spark.createDataFrame(
        LEFT, "shop STRING, customer STRING, n INT, x DOUBLE, tags ARRAY<STRING>"
    )
    right = spark.createDataFrame(RIGHT, "shop STRING, customer STRING, rank STRING")
    plain = left.join(right, [*BY], how)
    for choice in CHOICES:
        found = spread_join(left, right, choice, how)
        assert (found.columns, found.dtypes) == (plain.columns, plain.dtypes)
        assert _rows(found) == _rows(plain), choice.spread


def test_a_column_of_both_sides_that_is_no_key_is_refused_by_its_name(
    spark: "SparkSession",
) -> None:
    from backfill_assets.pipeline.transforms.spread import spread_join

    frame = spark.createDataFrame(RIGHT, "shop STRING, customer STRING, rank STRING")
    with pytest.raises(
        BackfillError, match="the join of staging by shop, customer: both sides have rank"
    ):
        spread_join(frame, frame, CHOICES[0])


def _event(key: int) -> tuple[Any, ...]:
    entity = "hot" if key % 10 < 6 else None if key % 10 == 9 else f"e{key % 7}"
    day = FIRST + ONE_DAY * (key % 11)
    at = datetime.combine(day, time(10), UTC)
    return (
        f"k{key}",
        at,
        entity,
        key * 37 % 101,
        key % 2,
        at,
        None if key % 4 else at + ONE_DAY * 3,
        day,
    )
