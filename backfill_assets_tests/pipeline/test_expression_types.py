"""Types of expressions, told without Spark, are those that Spark finds.

Tested here: `pipeline.expressions`, against Spark's own analysis. Not tested here: which
expressions are allowed.
"""

import pytest
import sqlglot

from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.pipeline.expressions import UnknownType, expression_type
from backfill_assets_tests.engine_choice import SparkSession

pytestmark = pytest.mark.on_spark("Spark is asked for its types")
KINDS = {
    "d": "DECIMAL(18,2)",
    "e": "DECIMAL(5,4)",
    "n": "BIGINT",
    "k": "INT",
    "x": "DOUBLE",
    "s": "STRING",
    "b": "BOOLEAN",
    "t": "TIMESTAMP",
    "day": "DATE",
    "xs": "ARRAY<INT>",
}
COLUMNS = {name: read_type(kind) for name, kind in KINDS.items()}
TOLD = {
    "d": "DECIMAL(18,2)",
    "xs": "ARRAY<INT>",
    "d + e": "DECIMAL(21,4)",
    "d - 1": "DECIMAL(19,2)",
    "d * e": "DECIMAL(24,6)",
    "d * 1.19": "DECIMAL(22,4)",
    "d * 2": "DECIMAL(20,2)",
    "d * k": "DECIMAL(29,2)",
    "d + n": "DECIMAL(23,2)",
    "d * x": "DOUBLE",
    "n + k": "BIGINT",
    "k * 2": "INT",
    "n / 2": "DOUBLE",
    "n div 2": "BIGINT",
    "-d": "DECIMAL(18,2)",
    "abs(k)": "INT",
    "if(b, d, e)": "DECIMAL(20,4)",
    "CASE WHEN b THEN k ELSE n END": "BIGINT",
    "coalesce(d, 0)": "DECIMAL(18,2)",
    "greatest(k, n)": "BIGINT",
    "nullif(s, '')": "STRING",
    "lower(s) || 'x'": "STRING",
    "substr(s, 1, 2)": "STRING",
    "b AND NOT n > 1": "BOOLEAN",
    "s LIKE 'a%'": "BOOLEAN",
    "s IN ('a', 'b')": "BOOLEAN",
    "d IS NULL": "BOOLEAN",
    "n BETWEEN 1 AND 2": "BOOLEAN",
    "contains(s, 'a')": "BOOLEAN",
    "cast(t AS date)": "DATE",
    "cast(s AS decimal(20, 3))": "DECIMAL(20,3)",
    "1.5": "DECIMAL(2,1)",
    "0.05": "DECIMAL(2,2)",
    "1e3": "DOUBLE",
    "3000000000": "BIGINT",
    "true": "BOOLEAN",
    "try_divide(n, k)": "DOUBLE",
    "try_add(d, 1)": "DECIMAL(19,2)",
    "(d)": "DECIMAL(18,2)",
}
SPARKS_OWN_INT = ("length(s)", "hour(t)", "datediff(day, day)")  # told as BIGINT, which holds them


@pytest.mark.parametrize(
    "text",
    [
        "d / e",
        "t + INTERVAL 1 DAY",
        "transform(xs, i -> i + 1)",
        "NULL",
        "s + 1",
        "cast(s AS smallint)",
        "coalesce(s, n)",
        "d * d * d",
    ],
)
def test_a_type_that_is_not_known_is_not_guessed(text: str) -> None:
    with pytest.raises(UnknownType):
        expression_type(sqlglot.parse_one(text, read="spark"), COLUMNS)


@pytest.mark.parametrize(
    ("text", "kind"), [*TOLD.items(), *((t, "BIGINT") for t in SPARKS_OWN_INT)]
)
def test_the_type_is_told_in_the_one_spelling(text: str, kind: str) -> None:
    assert str(expression_type(sqlglot.parse_one(text, read="spark"), COLUMNS)) == kind


def test_spark_finds_the_same_types(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in KINDS.items()))
    found = frame.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(TOLD))).schema
    names = [f.dataType.simpleString().upper() for f in found]
    assert dict(zip(TOLD, names, strict=True)) == TOLD
