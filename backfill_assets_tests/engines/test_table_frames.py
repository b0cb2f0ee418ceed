"""Frames of a table's rows at a version: of older files, of days, and of none.
Not here: what only Delta's own reader gives (`foreign.test_adoptable`), and which files are read
(`kernel.tables.test_data_files`)."""

from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.engines.table_frames import read_frame
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [{"entity": "A", "value": n, "event_date": day(n)} for n in range(3)]


def test_a_frame_holds_the_rows_of_the_days_asked_for_at_the_version_asked_for(
    spark: "SparkSession", tmp_path: Path
) -> None:
    lake = bare_lake(tmp_path / "lake")
    first = publish_by_hand(lake, STAGING, ROWS).version
    second = publish_by_hand(lake, STAGING, [ROWS[1] | {"value": 7}]).version

    def values(version: int, *days: int) -> list[tuple[int, object]]:
        frame = read_frame(spark, lake, "staging", version, "event_date", [day(n) for n in days])
        return sorted((row.value, row.event_date) for row in frame.collect())

    assert values(first, 1, 2) == [(1, day(1)), (2, day(2))]
    assert values(second, 1) == [(7, day(1))]
    assert values(second) == values(second, 9) == []
    every = read_frame(spark, lake, "staging", second, "event_date")
    assert sorted(row.value for row in every.collect()) == [0, 2, 7]
    assert every.columns == ["entity", "value", "event_date"]
