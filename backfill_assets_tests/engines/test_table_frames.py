"""Frames of a table's rows at a version: of older files, of days, and of none; and the files that
alone give its rows.
Not here: what only Delta's own reader gives (`foreign.test_adoptable`)."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.engines.table_frames import PlainFiles, plain_files, read_frame
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.logs import place_of

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


@pytest.mark.usefixtures("storages")
def test_the_files_of_the_wanted_days_are_chosen_at_the_version_asked_for(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    path = lake.table_place("staging").local()
    first = publish_by_hand(lake, STAGING, ROWS).version
    second = publish_by_hand(lake, STAGING, [ROWS[1] | {"value": 2}]).version

    def files(version: int, days: list[date] | None) -> PlainFiles:
        found = plain_files(place_of(path), version, "event_date", days)
        assert found is not None
        return found

    before, after = (files(version, [day(1), day(9)]) for version in (first, second))
    assert [len(before.paths), len(after.paths)] == [1, 1]
    assert before.paths != after.paths
    assert dict(after.columns) == {"entity": "string", "value": "bigint", "event_date": "date"}
    every = files(second, None).paths
    assert [len(every), len(files(second, []).paths)] == [3, 0]


@pytest.mark.usefixtures("storages")
def test_what_plain_files_cannot_tell_is_left_to_deltas_own_reader(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path / "lake")
    path = lake.table_place("staging").local()
    version = publish_by_hand(lake, STAGING, ROWS).version
    assert plain_files(place_of(path), version, "another_date", None) is None, (
        "not laid out by its day"
    )
    odd = bare_lake(tmp_path / "a [lake]")
    version = publish_by_hand(odd, STAGING, ROWS).version
    assert plain_files(odd.table_place("staging"), version, "event_date", None) is None, (
        "Spark would see a pattern"
    )
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")
    assert (
        plain_files(place_of(path), DeltaTable(path).version(), "event_date", None) is not None
    ), "others' files, our layout"
