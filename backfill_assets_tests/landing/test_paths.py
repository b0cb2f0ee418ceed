"""A path names a day only where nothing else can be meant, and a number orders files only where all else is equal.

Tested here: what a path says by itself, and what rows get from it. Not tested here: lakes whose
days an earlier release read (`load.test_path_days`).
"""

import re
from datetime import date

import pytest

from backfill_assets.landing.paths import BY_NUMBER, NUMBER, are_numbered, day_of, is_read_otherwise
from backfill_assets.landing.select import arrival_of, expressions, number_of, uses_path
from backfill_assets_tests.engines import SparkSession

MARCH = date(2024, 3, 1)
AS_BEFORE = {
    **dict.fromkeys((
        "dt=2024-03-01/part-0.csv", "arrival_date=2024-03-01/part-0.csv", "loadDate=2024-3-1/part-0.csv",
        "a/2024/03/01/05/o.csv", "2024/03/01.csv.gz", "year=2024/month=3/day=1/x.csv",
        "Y=2024/M=03/D=01/hour=07/x.csv", "orders-2024-03-01.csv", "orders_2024-03-01T09-15-30.csv",
        "dt=2024-03-01/of-2024-02-28.csv",
    ), MARCH),
    "2024/2/29/x.csv": date(2024, 2, 29), "dt=2024-02-30/x.csv": None, "orders.csv": None, "12024-03-01.csv": None,
}  # fmt: skip
OTHERWISE = {
    **dict.fromkeys((
        "year=2024/region=12/store=7/2024-03-01.csv", "year=2024/month=03/part=7/2024-03-01.csv",
        "valid_from=2024-03-04/dt=2024-03-01/o.csv", "dt=2024-02-30/2024-03-01.csv",
    ), MARCH),
    **dict.fromkeys((
        "year=2024/week=09/day=3/o.csv", "year=2024/month=03/part=7/o.csv", "2024/month=03/day=01/o.csv",
        "orders2024/03/01/o.csv", "2024-03/01/o.csv", "2024/03/7-of-9.csv", "week=2024-03-04/o.csv",
        "event_date=2024-02-01/dt=2024-03-01/o.csv", "2024-03-01_2024-03-31.csv",
    ), None),
}  # fmt: skip


@pytest.mark.parametrize(("path", "day"), [*AS_BEFORE.items(), *OTHERWISE.items()])
def test_a_day_is_read_only_by_keys_that_say_so_whole_and_unambiguous(path: str, day: date | None) -> None:
    assert (day_of(path), is_read_otherwise(path)) == (day, path in OTHERWISE)


@pytest.mark.parametrize(
    "names",
    [
        ["dt=2024-03-01/o-9h.csv", "dt=2024-03-01/o-10h.csv", "dt=2024-03-02/o-9h.csv", "dt=2024-03-02/o.csv"],
        ["dt=2024-03-01/o.csv", "dt=2024-03-02/o.csv"], ["dt=2024-03-01/o-9h.csv", "dt=2024-03-01/p-10h.csv"],
        ["dt=2024-03-01/o-9.csv", "dt=2024-03-01/o-09.csv"], ["dt=2024-03-01/eu/o-1.csv", "dt=2024-03-01/us/o-2.csv"],
        ["dt=2024-03-01/o-1709999990123.csv", "dt=2024-03-01/o-1710000010456.csv"], ["o-9.csv", "o-10.csv"],
        ["dt=2024-03-09/o_09-15-30.csv", "dt=2024-03-09/o_17-05-10.csv"],
        ["dt=2024-03-09/T18_30_20.0079Z.csv", "dt=2024-03-09/T18_30_20.1Z.csv"],
    ],
)  # fmt: skip
def test_numbers_order_files_of_one_day_only_where_the_paths_are_alike_otherwise(names: list[str]) -> None:
    assert are_numbered(["dt=2024-03-01/o-9h.csv", "dt=2024-03-01/o-10h.csv", "dt=2024-03-02/o-9h.csv"])
    assert not are_numbered(names)


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("dt=2024-03-01/o-9h.csv", "9"), ("o.7.csv", "7"), ("7", "7"), ("a/7.csv", "7"), ("2/o.csv", None),
        ("o-20240301173000.csv", None), ("o-1.5.csv", None), ("o-0,5.csv", None),
    ],
)  # fmt: skip
def test_a_number_is_whole_or_none(path: str, number: str | None) -> None:
    found = re.search(NUMBER, path)
    assert (found[1] if found else None) == number


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
