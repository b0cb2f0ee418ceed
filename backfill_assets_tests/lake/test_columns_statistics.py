"""Statistics of files: rows and NULLs, and no value of any column.

Tested here: `lake.columns` on real Parquet files. Not tested here: their use by a reader.
"""

import gc
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.lake.columns import file_statistics, read_footer


def stats_of(folder: Path, **columns: Any) -> dict[str, Any]:
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=2)
    found: dict[str, Any] = json.loads(file_statistics(read_footer(folder / "x.parquet")))
    return found


def test_rows_and_nulls_of_all_row_groups_are_counted_and_no_value_is_named(tmp_path: Path) -> None:
    """Whatever the values: in a log that is never changed a bound would be an entity's for good."""
    far = pa.array([2**63 - 1, -(2**63), 0, None, 1], pa.int64())
    found = stats_of(
        tmp_path, n=[5, None, -3, 7, None], t=["b", "a", None, "é", "x" * 99], many=[[3, None], None, [], [1], [2]],
        at=far.cast(pa.timestamp("us", "UTC")), day=pa.array([1, 2, 3, 2**31 - 1, 4], pa.int32()).cast(pa.date32()),
    )  # fmt: skip
    assert found == {"numRecords": 5, "nullCount": {"at": 1, "day": 0, "n": 2, "t": 1}}


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
