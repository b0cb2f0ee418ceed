"""A row's place: numbers that follow from contents alone, and days that folders tell.

Tested here: what a row gets from its place. Not tested here: loads of such rows (`end_to_end.test_own_payload`).
"""

from datetime import date
from typing import TYPE_CHECKING

import pytest

from backfill_assets.landing.content_store import identity
from backfill_assets.landing.paths import BY_NUMBER
from backfill_assets.landing.select import arrival_of, expressions, number_of, uses_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = {date(2024, 2, 29): "2024-02-29 23:59:59.999999", None: None}


def test_the_arrival_is_the_end_of_the_day_that_the_path_names(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([(d,) for d in DAYS], "day date")
    found = frame.select("day", arrival_of(frame.day).cast("string").alias("at")).collect()
    assert {r["day"]: r["at"] for r in found} == DAYS


def test_the_number_of_a_row_grows_within_its_file_and_fits_64_bits(spark: "SparkSession") -> None:
    rows = [("f" * 64, 1), ("f" * 64, 2), ("0" * 64, 1)]
    frame = spark.createDataFrame(rows, "sha256 string, row_number bigint")
    found = [r["n"] for r in frame.select(number_of(frame.sha256, frame.row_number).alias("n")).collect()]
    assert found == [2**60, 2**60 + 1, 1]


def test_the_number_in_a_name_orders_files_then_rows_within_64_bits(spark: "SparkSession") -> None:
    rows = [("dt=2024-03-01/orders.csv", 7), ("dt=2024-03-01/o-9h.csv", 1), ("dt=2024-03-01/o-9h.csv", 20),
            ("o-010.csv.gz", 1), ("o-20240301173000.csv", 999_999_999)]  # fmt: skip
    frame = spark.createDataFrame(rows, "_file string, _row bigint").selectExpr(*expressions(BY_NUMBER))
    assert [r["seq"] for r in frame.collect()] == [
        None, 9_000_000_001, 9_000_000_020, 10_000_000_001, None
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("select", "uses"),
    [
        ("a AS event_key, at AS arrival_ts", False),
        ("a AS event_key, `at` `arrival_ts`", False),
        ("a AS event_key", True),
        ("substr(_file, 1, 3) AS country, at AS arrival_ts", True),
        ("'_file' AS country, at AS arrival_ts", False),
    ],
)
def test_a_select_depends_on_paths_where_it_names_them_or_no_arrival(select: str, uses: bool) -> None:
    assert uses_path(select) is uses


def test_one_content_at_two_paths_has_two_identities() -> None:
    one, other = identity("a" * 64, "dt=1/x"), identity("a" * 64, "dt=2/x")
    assert len({one, other, "a" * 64}) == 3
    assert len(one) == 64
