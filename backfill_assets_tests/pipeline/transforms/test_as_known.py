"""Versions of events as known at the cuts of days, against the rule row by row.

Tested here: `pipeline.transforms.staging`. Not tested here: the features, which do the same sums another way.
"""

from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

import pytest

from backfill_assets.core.days import ONE_DAY, asked_days, midnight
from backfill_assets.pipeline.transforms.staging import as_known

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

DAYS = asked_days("2024-03-03", "2024-03-05")
TIMES = [datetime(2024, 3, n, hour, tzinfo=UTC) for n, hour in product(range(1, 8), (0, 9))]


@pytest.mark.parametrize("grace", [0, 9])
def test_a_version_counts_on_the_days_at_whose_cut_it_was_current(spark: "SparkSession", grace: int) -> None:
    rows = [
        (n, date(2024, 3, event), known_from, known_until)
        for n, (event, known_from, known_until) in enumerate(product(range(1, 6), TIMES, [None, *TIMES]))
        if known_until is None or known_until > known_from
    ]
    found = as_known(
        spark.createDataFrame(rows, "n int, event_date date, known_from timestamp, known_until timestamp"),
        DAYS,
        2,
        grace,
    )
    expected = set()
    for n, event, known_from, known_until in rows:
        for day in DAYS:
            cut = midnight(day + ONE_DAY) + timedelta(hours=grace)
            current = known_from < cut and (known_until is None or cut <= known_until)
            if current and day - 2 * ONE_DAY <= event <= day:
                expected.add((n, day))
    assert {(r["n"], r["known_on"]) for r in found.collect()} == expected
    assert found.count() == len(expected)
