"""Measures: sums that depend on no order, and what does not fit.

Tested here: `pipeline.transforms.measures`, through declared features of one day. Not tested here:
on which days a measure counts (`test_intervals.py`, `test_declared.py`).
"""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.pipeline.transforms.aggregation import Agg, Aggregation, Value, trailing_reach
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.pipeline.naive import FIRST

pytestmark = pytest.mark.on_spark(
    "the bounds of a DOUBLE are Spark's; on Sail such columns are refused by name"
)
NOON = datetime(FIRST.year, FIRST.month, FIRST.day, 12)  # noqa: DTZ001 - sessions are in UTC
TENTHS = [0.1, 0.2, 0.3, 1e18, -1e18, 0.7]  # as doubles their sum depends on the order
CASES: list[tuple[str, Agg, str, list[Any], Any]] = [
    ("tenths", "sum", "DOUBLE", TENTHS, 1.3),
    ("mean", "avg", "DOUBLE", [0.1, 0.2, 0.6], 0.3),
    ("nan", "sum", "DOUBLE", [1.0, float("nan")], None),
    ("infinite", "avg", "DOUBLE", [1.0, float("-inf")], None),
    ("too_long", "sum", "DOUBLE", [1.0, 1e19], None),
    ("nothing", "sum", "DOUBLE", [None], 0.0),
    ("no_mean", "avg", "DOUBLE", [None], None),
    ("zeros", "max", "DOUBLE", [-0.0, 0.0], 0.0),
    ("nan_is_most", "max", "DOUBLE", [1e308, float("nan")], float("nan")),
    ("wide", "sum", "BIGINT", [2**62, 2**62], None),
    ("wide_mean", "avg", "BIGINT", [2**62, 2**62], float(2**62)),
    ("back", "sum", "BIGINT", [2**62, 2**62, -(2**63)], 0),
    (
        "cents",
        "sum",
        "DECIMAL(18,2)",
        [Decimal("9999999999999999.99")] * 2,
        Decimal("19999999999999999.98"),
    ),
    (
        "third",
        "avg",
        "DECIMAL(18,2)",
        [Decimal("0.01"), Decimal(0), Decimal(0)],
        Decimal("0.003333"),
    ),
    (
        "beyond_64_bits",
        "sum",
        "DECIMAL(18,2)",
        [Decimal("9999999999999999.99")] * 12,
        Decimal("119999999999999999.88"),
    ),
    (
        "below",
        "sum",
        "DECIMAL(18,2)",
        [Decimal("-9999999999999999.99")] * 12,
        Decimal("-119999999999999999.88"),
    ),
    (
        "far_mean",
        "avg",
        "DECIMAL(18,2)",
        [Decimal("9999999999999999.99")] * 12,
        Decimal("9999999999999999.990000"),
    ),
    (
        "fine",
        "sum",
        "DECIMAL(18,9)",
        [Decimal("-0.000000001"), Decimal("999999999.000000002")],
        Decimal("999999999.000000001"),
    ),
    ("finer", "sum", "DECIMAL(18,10)", [Decimal("7.0000000001")] * 3, Decimal("21.0000000003")),
    ("whole", "sum", "DECIMAL(12,0)", [Decimal(-5), Decimal(7)], Decimal(2)),
    (
        "long",
        "sum",
        "DECIMAL(20,2)",
        [Decimal("999999999999999999.99")] * 2,
        Decimal("1999999999999999999.98"),
    ),
    ("no_sum", "sum", "DECIMAL(18,2)", [None], Decimal("0.00")),
    ("tie", "last", "BIGINT", [3, 1, 2, None], 2),
    ("tie_first", "first", "BIGINT", [None, 3, 1, 2], 3),
    ("none", "days_since_last", "BIGINT", [None], None),
]


@pytest.fixture(scope="module")
def found(spark: "SparkSession") -> Any:
    """The one row of features in which each case is a column, over events of one moment in no
    order."""
    from backfill_assets.pipeline.transforms.declared import features_now

    rows = [
        {
            "event_key": f"{place:02d}",
            **{name: values[place] for name, _, _, values, _ in CASES if place < len(values)},
        }
        for place in range(max(len(values) for *_, values, _ in CASES))
    ]
    schema = "event_key STRING, " + ", ".join(f"{name} {kind}" for name, _, kind, _, _ in CASES)
    names = ["event_key", *(name for name, *_ in CASES)]
    frame = spark.createDataFrame(
        [tuple(r.get(n) for n in names) for r in reversed(rows)], schema
    ).repartition(3)
    frame = frame.selectExpr(
        "*",
        "'A' AS entity",
        f"TIMESTAMP '{NOON}' AS event_ts",
        f"DATE '{FIRST}' AS event_date",
        "CAST(NULL AS TIMESTAMP) AS known_until",
    )
    columns = [
        Aggregation(n, agg, Value(n, kind), trailing_reach(3)) for n, agg, kind, _, _ in CASES
    ]
    (row,) = features_now(frame, DayRange(FIRST, FIRST + ONE_DAY), ["entity"], columns).collect()
    return row


@pytest.mark.parametrize(("name", "wanted"), [(name, wanted) for name, *_, wanted in CASES])
def test_a_measure_is_exact_or_null(found: Any, name: str, wanted: Any) -> None:
    assert repr(found[name]) == repr(wanted)
