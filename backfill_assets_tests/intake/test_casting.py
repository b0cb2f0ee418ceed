"""Values as the types of their columns: exactly, or NULL, and whether one was lost.

Tested here: `intake.casting`. Not tested here: expressions that raise (`test_mapping`).
"""

from decimal import Decimal
from typing import Any

import pytest

from backfill_assets.intake.casting import (
    exact_cast,
    is_lost_in_cast,
    is_misfit,
    packed_value,
    unpacked_value,
)
from backfill_assets.kernel.core.column_types import read_type
from backfill_assets_tests.engine_choice import SparkSession

pytestmark = pytest.mark.on_spark("it is Spark's casts; Sail's are in test_differing")
CASES: list[tuple[str, str, Any, bool]] = [
    ("'19.99'", "DECIMAL(18,2)", Decimal("19.99"), False),
    ("'19.990'", "DECIMAL(18,2)", Decimal("19.99"), False),
    ("'19.999'", "DECIMAL(18,2)", None, True),
    ("'0.12345678901'", "DECIMAL(38,10)", None, True),
    ("'0.1234567890100'", "DECIMAL(38,11)", Decimal("0.12345678901"), False),
    ("'1.5e1'", "DECIMAL(5,0)", Decimal(15), False),
    ("19.999", "DECIMAL(18,2)", None, True),
    ("'123456.7'", "DECIMAL(5,1)", None, True),
    ("0.1D", "DECIMAL(5,1)", Decimal("0.1"), False),
    ("double('NaN')", "DECIMAL(5,1)", None, True),
    ("''", "DECIMAL(5,1)", None, False),
    ("CAST(NULL AS string)", "DECIMAL(5,1)", None, False),
    ("'1e400'", "DOUBLE", float("inf"), False),
    ("'true'", "BOOLEAN", True, False),
    ("'perhaps'", "BOOLEAN", None, True),
    ("2", "BOOLEAN", None, True),
    ("1", "BOOLEAN", True, False),
    ("1.5D", "INT", None, True),
    ("3000000000", "INT", None, True),
    ("'2024-02-30'", "DATE", None, True),
    ("''", "STRING", "", False),
    ("''", "BINARY", b"", False),
    ("array('a', NULL)", "ARRAY<STRING>", ["a", None], False),
]


def test_a_value_is_exact_or_null_and_a_lost_one_is_told(spark: "SparkSession") -> None:
    found = []
    for text, name, _, _ in CASES:
        value, kind = spark.sql(f"SELECT {text} AS x"), read_type(name)
        cast = exact_cast(value.x, value.dtypes[0][1], kind)
        carried = unpacked_value(packed_value(cast, kind), cast, kind)
        found.append(
            value.select(
                cast.alias("a"), carried.alias("b"), is_lost_in_cast(value.x, cast, kind).alias("c")
            )
        )
    rows = [frame.collect()[0] for frame in found]
    assert [(r["a"], r["c"]) for r in rows] == [(value, lost) for *_, value, lost in CASES]
    assert [r["b"] for r in rows] == [r["a"] for r in rows], "a vessel brings back the very value"


@pytest.mark.parametrize(
    ("found", "kind", "never"),
    [
        ("array<string>", "ARRAY<STRING>", False),
        ("string", "ARRAY<INT>", False),
        ("array<bigint>", "ARRAY<INT>", True),
        ("struct<a:int>", "STRING", True),
        ("array<int>", "INT", True),
        ("decimal(9,2)", "DECIMAL(18,4)", False),
    ],
)
def test_a_type_that_cannot_be_meant_spoils_its_files(found: str, kind: str, never: bool) -> None:
    assert is_misfit(found, read_type(kind)) is never
