"""A row's text is the same on every engine, but for numbers far from 1: Spark and Sail are each
held to one list. Not here: which rows have a text (`test_deliveries`)."""

import json
from typing import TYPE_CHECKING

import pytest

from backfill_assets.intake.landed_rows import row_text
from backfill_assets_tests.processes import run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.on_spark(
    "it holds Spark to the list; Sail is held to it by a program of its own"
)

# Value in Spark SQL -> as JSON tells it.
TOLD = {
    "CAST('-0.05' AS DECIMAL(18,2))": "-0.05",
    "CAST(1 AS DECIMAL(38,18))": "1.000000000000000000",
    "TIMESTAMP '1969-12-31 23:59:59.999999Z'": "1969-12-31 23:59:59.999999",
    "TIMESTAMP_NTZ '9999-12-31 00:00:00'": "9999-12-31 00:00:00",
    "-0.0D": "-0.0",
    "0.001D": "0.001",
    "CAST('NaN' AS DOUBLE)": "NaN",
    "array(1.5D, NULL)": ["1.5", None],
    "named_struct('at', TIMESTAMP '2024-03-31 02:30:00Z')": {"at": "2024-03-31 02:30:00"},
    "9223372036854775807L": 9223372036854775807,
    "DATE '0001-01-01'": "0001-01-01",
    "map('k', 1)": {"k": 1},
    "map(X'FF', 'of bytes')": {"/w==": "of bytes"},
    "map(3, 'of a number')": {"3": "of a number"},
    "'ä\"日'": 'ä"日',
}
ON_SAIL = """
    from backfill_assets_tests.intake.test_row_text import text_of
    from backfill_assets_tests.second_engine_probe import session_on
    with session_on("sail") as session:
        print(text_of(session))
"""


def text_of(session: "SparkSession") -> str:
    """The row of all these values."""
    from pyspark.sql import functions as F

    frame = session.sql(
        f"SELECT {', '.join(f'{said} AS c{n}' for n, said in enumerate(TOLD))}, CAST(NULL AS "
        "DOUBLE) x"
    )
    made = frame.select(
        row_text((f.name, F.col(f.name), f) for f in frame.schema.fields).alias("text")
    )
    return str(made.collect()[0][0])


def as_said(text: str) -> dict[str, object]:
    return dict(zip(TOLD, json.loads(text).values(), strict=True))


def test_spark_writes_what_any_engine_writes(spark: "SparkSession") -> None:
    assert as_said(text_of(spark)) == TOLD


@pytest.mark.usefixtures("processes")
def test_sail_writes_it_too() -> None:
    assert as_said(run_python(ON_SAIL)) == TOLD
