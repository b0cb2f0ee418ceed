"""Sums of whole numbers: exact however large they grow on the way, NULL where the end does not fit, never an error.

Tested here: that features and labels sum by `pipeline.transforms.measures`. Not tested here: the windows.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets_tests.pipeline.built_in import features, labels, outcome_by_rule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.users_do

LEAST, GREATEST = -(2**63), 2**63 - 1
DAY = date(2024, 3, 5)
AT_ONCE = DayRange(DAY, DAY + ONE_DAY)
CASES: dict[str, tuple[Sequence[int], int | None]] = {
    "nothing large": ((1, 2, -4), -1),
    "least": ((LEAST,), LEAST),
    "greatest": ((GREATEST,), GREATEST),
    "large on the way": ((GREATEST, GREATEST, -GREATEST, -5), GREATEST - 5),
    "small on the way": ((LEAST, LEAST, GREATEST, 2), LEAST + 1),
    "one too many": ((GREATEST, 1), None),
    "one too few": ((LEAST, -1), None),
    "borrowed": ((-1, 2**32), 2**32 - 1),
}


def staging(spark: "SparkSession") -> "DataFrame":
    rows = [(entity, DAY, value, 0) for entity, (values, _) in CASES.items() for value in values]
    found = spark.createDataFrame(rows, "entity string, event_date date, value bigint, flag int")
    added = "entity AS event_key", "timestamp(event_date) AS event_ts", "cast(NULL AS timestamp) AS known_until"
    return found.selectExpr("*", *added)


def test_features_of_one_entity_whose_sum_overflows_leave_all_others_as_they_are(spark: "SparkSession") -> None:
    found = features(staging(spark), AT_ONCE, (1, 2)).collect()
    wanted = {e: (s, s, len(values)) for e, (values, s) in CASES.items()}
    assert {r["entity"]: (r["value_short"], r["value_long"], r["events_long"]) for r in found} == wanted


def test_labels_are_decided_by_exact_sums_even_where_the_columns_cannot_hold_them(spark: "SparkSession") -> None:
    known = staging(spark).selectExpr("entity", "date_sub(event_date, 1) AS feature_date").distinct()
    day_before = DayRange(DAY - ONE_DAY, DAY)
    frontier = datetime(2100, 1, 1, tzinfo=UTC)
    found = labels(staging(spark), known, day_before, outcome_by_rule("value", "any", 1, 1), frontier).collect()
    wanted = {e: (s, 0, int(sum(values) > 0)) for e, (values, s) in CASES.items()}
    assert {r["entity"]: (r["forward"], r["backward"], r["label"]) for r in found} == wanted
    rising = labels(staging(spark), known, day_before, outcome_by_rule("value", "rise", 1, 1), frontier).collect()
    assert {r["entity"]: r["label"] for r in rising} == {e: label for e, (_, _, label) in wanted.items()}
