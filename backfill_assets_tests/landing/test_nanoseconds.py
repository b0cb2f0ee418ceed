"""Parquet timestamps finer than Spark's: converted exactly, and told where digits would be cut.

Tested here: `landing.parquet_files.in_microseconds`. Not tested here: loads of such files (`test_mapping`).
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.landing.parquet_files import in_microseconds

WHOLE, CUT = 1_700_000_000_000_001_000, 1_700_000_000_000_001_001  # nanoseconds since 1970
TOLD = "of the file has digits below the microsecond, which would be cut off in {} of its rows"


def written(path: Path, nanos: list[int | None], *, old: bool = False) -> Path:
    table = pa.table({"n": pa.array(range(len(nanos)), pa.int64()), "at": pa.array(nanos, pa.timestamp("ns"))})
    if old:
        pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    else:
        pq.write_table(table, path, version="2.6")
    return path


def test_a_file_without_nanoseconds_is_left_as_it_is(tmp_path: Path) -> None:
    landed = tmp_path / "a.parquet"
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("us"))}), landed)
    assert in_microseconds(landed, tmp_path / "b.parquet") == (landed, {})
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_whole_microseconds_are_converted_without_a_word_and_the_order_of_rows_stays(tmp_path: Path) -> None:
    landed, target = written(tmp_path / "a.parquet", [WHOLE, None, 0, -1_000]), tmp_path / "b.parquet"
    assert in_microseconds(landed, target) == (target, {})
    found = pq.read_table(target)
    assert found.schema.field("at").type == pa.timestamp("us")
    assert found.column("at").cast(pa.int64()).to_pylist() == [WHOLE // 1_000, None, 0, -1]
    assert found.column("n").to_pylist() == [0, 1, 2, 3]
    assert not landed.exists(), "the one that Spark would refuse is gone"


def test_digits_that_would_be_cut_are_told_with_the_number_of_rows(tmp_path: Path) -> None:
    landed = written(tmp_path / "a.parquet", [CUT, WHOLE, None, CUT])
    _, inexact = in_microseconds(landed, tmp_path / "b.parquet")
    assert inexact == {"at": TOLD.format(2)}


def test_int96_stays_as_it_is_and_its_cut_digits_are_told(tmp_path: Path) -> None:
    landed = written(tmp_path / "a.parquet", [CUT, WHOLE], old=True)
    assert in_microseconds(landed, tmp_path / "b.parquet") == (landed, {"at": TOLD.format(1)})
    whole = written(tmp_path / "c.parquet", [WHOLE], old=True)
    assert in_microseconds(whole, tmp_path / "d.parquet") == (whole, {})
