"""Frames over files of a narrower and a wider type of one table: the rows of both, in the wider type.

Tested here: `lake.data_files` on the engine of this run. Not tested here: other readers (`test_columns`).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.lake.data_files import read_frame
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.lake.test_columns import LARGE, LARGEST, NARROW, WIDE, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do


def test_older_files_are_read_in_the_wider_type(spark: "SparkSession", tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    for number in range(3):
        publish_by_hand(lake, NARROW, [row(number, LARGEST, None)], digest=str(number))
    narrow = lake.store.view("staging", "event_date").version
    publish_by_hand(lake, WIDE, [row(1, LARGE, None)], digest="large")
    version = lake.store.view("staging", "event_date").version
    frame = read_frame(spark, lake.table_place("staging"), version, "event_date")
    assert dict(frame.dtypes)["value"] == "bigint"
    found = sorted((r.event_date, r.value, r.marks, r.entity) for r in frame.collect())
    assert found == [(day(n), v, [v, None], "A") for n, v in enumerate((LARGEST, LARGE, LARGEST))]
    large = frame.where(f"value > {LARGEST} AND marks[0] > 1").selectExpr("value + 1 AS more")
    assert [r.more for r in large.collect()] == [LARGE + 1]
    before = read_frame(spark, lake.table_place("staging"), narrow, "event_date")
    assert dict(before.dtypes)["value"] == "int", "an earlier version is as it was"
    assert [r.value for r in before.collect()] == [LARGEST] * 3
