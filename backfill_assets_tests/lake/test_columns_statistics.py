"""Statistics of files: bounds that are never narrower than the truth, whatever the values.

Tested here: `lake.columns` on real Parquet files. Not tested here: their use by a reader.
"""

import gc
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.lake.columns import file_statistics, read_footer

EPOCH = date(1970, 1, 1)
INSTANTS = st.datetimes(datetime(1, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


def stats_of(folder: Path, **columns: Any) -> dict[str, Any]:
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=2)
    found: dict[str, Any] = json.loads(file_statistics(read_footer(folder / "x.parquet")))
    return found


def test_rows_nulls_and_bounds_cover_all_row_groups(tmp_path: Path) -> None:
    found = stats_of(tmp_path, n=[5, None, -3, 7, None], t=["b", "a", None, "é", "c"])
    assert found["numRecords"] == 5
    assert found["nullCount"] == {"n": 2, "t": 1}
    assert (found["minValues"], found["maxValues"]) == ({"n": -3, "t": "a"}, {"n": 7, "t": "é"})


def test_a_column_of_nulls_has_no_bounds_and_long_texts_have_none(tmp_path: Path) -> None:
    found = stats_of(tmp_path, n=pa.array([None, None], pa.int64()), t=["x" * 33, "y"])
    assert found["minValues"] == found["maxValues"] == {}
    assert found["nullCount"] == {"n": 2, "t": 0}


@given(instants=st.lists(INSTANTS, min_size=1, max_size=5))
def test_bounds_of_times_are_milliseconds_and_hold_every_value(tmp_path_factory: Any, instants: list[datetime]) -> None:
    column = pa.array(instants, pa.timestamp("us", "UTC"))
    found = stats_of(tmp_path_factory.mktemp("times"), at=column)
    least, greatest = (datetime.fromisoformat(found[k]["at"]) for k in ("minValues", "maxValues"))
    assert least <= min(instants) < least + timedelta(milliseconds=1)
    assert greatest - timedelta(milliseconds=1) < max(instants) <= greatest


def test_a_time_at_the_end_of_the_calendar_has_no_bound(tmp_path: Path) -> None:
    end = datetime.max.replace(tzinfo=UTC)
    assert "at" not in stats_of(tmp_path, at=pa.array([end], pa.timestamp("us", "UTC")))["maxValues"]


@given(
    days=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5),
    moments=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5),
)
def test_a_date_or_time_beyond_the_calendar_leaves_its_column_without_bounds_and_every_row_is_counted(
    tmp_path_factory: Any, days: list[int], moments: list[int]
) -> None:
    rows = min(len(days), len(moments))
    found = stats_of(
        tmp_path_factory.mktemp("far"),
        day=pa.array(days[:rows], pa.int32()).cast(pa.date32()),
        at=pa.array(moments[:rows], pa.int64()).cast(pa.timestamp("us", "UTC")),
        n=list(range(rows)),
    )
    assert (found["numRecords"], found["nullCount"]) == (rows, {"day": 0, "at": 0, "n": 0})
    assert (found["minValues"]["n"], found["maxValues"]["n"]) == (0, rows - 1)
    first, last = (date.min - EPOCH).days, (date.max - EPOCH).days
    assert ("day" in found["minValues"]) == all(first <= d <= last for d in days[:rows])
    if "day" in found["minValues"]:
        told = [date.fromisoformat(found[k]["day"]) for k in ("minValues", "maxValues")]
        assert told == [EPOCH + timedelta(pick(days[:rows])) for pick in (min, max)]


def test_of_an_arrays_elements_nothing_is_told(tmp_path: Path) -> None:
    found = stats_of(tmp_path, n=[1, 2], many=[[3, None], None])
    assert found["nullCount"] == {"n": 0}
    assert (found["minValues"], found["maxValues"]) == ({"n": 1}, {"n": 2})


def test_a_footer_that_was_looked_at_is_gone_without_a_search_for_garbage(tmp_path: Path) -> None:
    gc.collect()
    gc.disable()
    others = [found for found in gc.get_objects() if isinstance(found, pq.FileMetaData)]  # of tests that failed before
    try:
        stats_of(tmp_path, n=[1, 2], many=[[3, None], None])
        left = [found for found in gc.get_objects() if isinstance(found, pq.FileMetaData)]
        assert {id(found) for found in left} <= {id(found) for found in others}
    finally:
        gc.enable()
