"""What aggregations take and give, without Spark.

Tested here: `pipeline.transforms.aggregation`. Not tested here: computing them
(`test_measures.py`).
"""

import pytest

from backfill_assets.pipeline.transforms.aggregation import (
    Aggregation,
    Value,
    result_type,
    trailing_reach,
)


@pytest.mark.parametrize(
    ("agg", "of", "told"),
    [
        ("sum", "DECIMAL(28,4)", "DECIMAL(38,4)"),
        ("avg", "DECIMAL(24,0)", "DECIMAL(28,4)"),
        ("last", "BINARY", "BINARY"),
    ],
)
def test_the_longest_decimals_still_fit(agg: str, of: str, told: str) -> None:
    assert result_type(agg, of) == told  # type: ignore[arg-type]


def test_a_value_is_null_for_what_is_passed_over_and_has_one_zero() -> None:
    assert Value("x", "DOUBLE", "k > 1").sql == "CASE WHEN k > 1 THEN (x) + 0D END"
    assert Value().sql == "1"
    assert not Aggregation("n", "count", Value(), trailing_reach(1)).nullable
