"""Rows that know their content and their number: of text and Parquet files, on an engine without `_metadata`.

Lives here: the copies and their types. Does not live here: Spark's own way, which every test of a load takes.
"""

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.landing.content_store import StoredFile
from backfill_assets.landing.text_lines import Unreadable
from backfill_assets.load import landed_rows as numbered

SCANNED = datetime(2024, 3, 1, tzinfo=UTC)


def stock_file(folder: Path, table: pa.Table) -> StoredFile:
    path = folder / "a.parquet"
    pq.write_table(table, path, row_group_size=2)
    return StoredFile("a" * 64, path, {}, "", SCANNED)


def test_rows_are_numbered_from_one_across_row_groups_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = stock_file(tmp_path, pa.table({"x": ["a", "b", "c", "d", "e"]}))
    copy = pq.read_table(numbered._copy(tmp_path, file))
    assert copy.to_pydict() == {"x": ["a", "b", "c", "d", "e"], "__number": [1, 2, 3, 4, 5]}
    assert numbered._copy(tmp_path, file).stat().st_mtime_ns == numbered._copy(tmp_path, file).stat().st_mtime_ns


def test_types_come_as_spark_reads_them(tmp_path: Path) -> None:
    columns = {
        "u32": pa.array([1 << 31], pa.uint32()),
        "u64": pa.array([(1 << 64) - 1], pa.uint64()),
        "ms": pa.array([0], pa.timestamp("ms", "Europe/Berlin")),
        "local": pa.array([0], pa.timestamp("us")),
        "day": pa.array([date(1969, 12, 31)]),
        "word": pa.array(["ä"]).dictionary_encode(),
    }
    copy = pq.read_schema(numbered._copy(tmp_path, stock_file(tmp_path, pa.table(columns))))
    found = {f.name: str(f.type) for f in copy}
    assert found == {
        "u32": "int64", "u64": "decimal128(20, 0)", "ms": "timestamp[us, tz=UTC]", "local": "timestamp[us]",
        "day": "date32[day]", "word": "string", "__number": "int64",
    }  # fmt: skip


def test_what_stands_in_lists_and_structs_comes_as_spark_reads_it_too(tmp_path: Path) -> None:
    moments = pa.array([1], pa.timestamp("ms"))
    columns = {
        "many": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), moments),
        "named": pa.StructArray.from_arrays([moments, pa.array([7], pa.uint8())], ["at", "n"]),
    }
    copy = pq.read_table(numbered._copy(tmp_path, stock_file(tmp_path, pa.table(columns))))
    assert str(copy.schema.field("many").type) == "list<element: timestamp[us]>"
    assert str(copy.schema.field("named").type) == "struct<at: timestamp[us], n: int16>"
    assert copy.to_pydict()["named"] == [{"at": datetime(1970, 1, 1, 0, 0, 0, 1000), "n": 7}]  # noqa: DTZ001


def test_a_moment_beyond_microseconds_spoils_its_own_file_only(tmp_path: Path) -> None:
    far = pa.array([9_000_000_000_000_000_000], pa.int64()).view(pa.timestamp("ms"))
    with pytest.raises(Unreadable, match="out of bounds timestamp"):
        numbered._copy(tmp_path, stock_file(tmp_path, pa.table({"at": far})))


@pytest.mark.slow
def test_rows_that_are_large_once_expanded_are_copied_as_they_were_judged(tmp_path: Path) -> None:
    rows = 40_000
    words = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["d" * 60_000]))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": words}), path)
    copy = numbered._copy(tmp_path, StoredFile("b" * 64, path, {}, "", SCANNED))
    assert pq.read_metadata(copy).num_rows == rows
