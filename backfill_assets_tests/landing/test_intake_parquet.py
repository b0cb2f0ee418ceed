"""Landed parquet files: decoded to the last page, or unreadable with a reason.

Lives here: damaged, empty, encrypted and awkwardly named parquet files. Does not live here: text files.
"""

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.landing.intake import Intake
from backfill_assets.landing.intake_bytes import Limits
from backfill_assets.landing.stock import find
from backfill_assets_tests.lake.landed import bad_rows, take_in

TABLE = pa.table({"id": list(range(5000)), "name": [f"name {i}" for i in range(5000)]})


def content_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1000, write_page_checksum=True)
    return bytes(sink.getvalue())


def unreadable(folder: Path, content: bytes, limits: Limits | None = None) -> str:
    intake = take_in(folder, "a.parquet", content, limits)
    assert (intake.rows, intake.bad_rows, intake.columns) == (1, 1, {})
    assert intake.unreadable is not None
    assert bad_rows(intake) == {0: intake.unreadable}
    assert intake.parquet.parent == folder / "stock"
    return intake.unreadable


def test_a_whole_file_is_copied_and_never_linked(tmp_path: Path) -> None:
    content = content_of(TABLE)
    intake = take_in(tmp_path, "a.parquet", content)
    copy = tmp_path / "stock" / f"{hashlib.sha256(content).hexdigest()}.parquet"
    assert intake == Intake(intake.sha256, 5000, 0, copy, {}, ("id", "name"))
    assert not copy.is_symlink()
    assert copy.stat().st_ino != (tmp_path / "landing/a.parquet").stat().st_ino
    (tmp_path / "landing/a.parquet").write_bytes(b"rewritten in place")
    assert copy.read_bytes() == content


def test_a_file_without_rows_is_no_fault(tmp_path: Path) -> None:
    assert take_in(tmp_path, "a.parquet", content_of(TABLE.slice(0, 0))).rows == 0


@pytest.mark.parametrize("content", [b"", b"PAR1", b"id,name\n1,2\n", b"PAR1" + bytes(100) + b"PAR1", b"PARE" * 9])
def test_what_is_no_parquet_is_unreadable(tmp_path: Path, content: bytes) -> None:
    assert unreadable(tmp_path, content)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_unreadable(tmp_path: Path, share: float) -> None:
    content = content_of(TABLE)
    assert "not a whole parquet file" in unreadable(tmp_path, content[: int(len(content) * share)])


@pytest.mark.parametrize("position", [200, 3000, 9000, 20000])
def test_a_flipped_bit_in_any_page_is_found_by_decoding(tmp_path: Path, position: int) -> None:
    content = bytearray(content_of(TABLE))
    content[position] ^= 0x10
    assert unreadable(tmp_path, bytes(content))


def test_noise_never_gets_further_than_unreadable(tmp_path: Path) -> None:
    content = content_of(TABLE.slice(0, 50))
    for start in range(4, len(content) - 8, 97):
        noisy = content[:start] + os.urandom(8) + content[start + 8 :]
        intake = take_in(tmp_path, f"{start}.parquet", noisy)
        assert intake.unreadable or intake.rows == 50


@pytest.mark.parametrize(
    ("names", "reason"),
    [(["a", "A"], "twice"), (["a", "a"], "twice"), (["_metadata", "b"], "reserved"), (["", "b"], "blank")],
)
def test_names_that_spark_cannot_tell_apart_are_unreadable(tmp_path: Path, names: list[str], reason: str) -> None:
    assert reason in unreadable(tmp_path, content_of(TABLE.rename_columns(names)))


def test_names_inside_a_struct_count_too(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("k", pa.int32()), ("K", pa.int32())]))
    assert "'K' occurs twice" in unreadable(tmp_path, content_of(pa.table({"s": pa.array([None], kind)})))


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.time64("us"), pa.float16(), pa.decimal256(50)], ids=str)
def test_a_type_over_which_spark_would_end_the_whole_job_is_unreadable(tmp_path: Path, kind: pa.DataType) -> None:
    inner = pa.table({"s": pa.array([{"t": None}], pa.struct([("t", kind)]))})
    for table in (pa.table({"t": pa.array([None], kind)}), inner):
        assert "Spark does not read" in unreadable(tmp_path, content_of(table))


def test_a_type_that_is_not_known_to_be_read_is_unreadable(tmp_path: Path) -> None:
    table = pa.table({"u": pa.array([b"0" * 16], pa.uuid())})
    assert unreadable(tmp_path, content_of(table)) == "'u' has a type that Spark does not read: UUID"


def test_old_timestamps_of_far_years_stay_as_they_are(tmp_path: Path) -> None:
    far = pa.table({"t": pa.array([datetime(9999, 12, 31), datetime(2024, 3, 5), None], pa.timestamp("us"))})  # noqa: DTZ001
    sink = pa.BufferOutputStream()
    pq.write_table(far, sink, use_deprecated_int96_timestamps=True)
    content = sink.getvalue().to_pybytes()
    intake = take_in(tmp_path, "a.parquet", content)
    assert intake.parquet.read_bytes() == content, "Spark reads the old type itself; 64 bits of nanoseconds would wrap"
    found = find(tmp_path / "stock", intake.sha256, datetime.now(UTC))
    assert found is not None
    assert not found.inexact


def test_old_timestamps_with_digits_that_spark_cuts_are_named(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    nanos = pa.table({"t": pa.array([1_700_000_000_000_000_000, 1], pa.timestamp("ns"))})
    pq.write_table(nanos, sink, use_deprecated_int96_timestamps=True)
    found = find(
        tmp_path / "stock", take_in(tmp_path, "a.parquet", sink.getvalue().to_pybytes()).sha256, datetime.now(UTC)
    )
    assert found is not None
    assert "in 1 of its rows" in found.inexact["t"]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC")], ids=str)
def test_nanoseconds_are_unreadable_only_where_the_stock_does_not_convert_them(
    tmp_path: Path, kind: pa.DataType
) -> None:
    assert take_in(tmp_path, "b.parquet", content_of(pa.table({"a.t": pa.array([None], kind)}))).rows == 1
    for inner in (pa.array([{"t": None}], pa.struct([("t", kind)])), pa.array([None], pa.list_(kind))):
        assert "nanoseconds" in unreadable(tmp_path, content_of(pa.table({"s": inner})))


def test_a_codec_that_spark_lacks_is_unreadable(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, compression="brotli")
    assert "BROTLI" in unreadable(tmp_path, bytes(sink.getvalue()))


def test_types_that_spark_reads_are_read_old_timestamps_too(tmp_path: Path) -> None:
    kinds = [pa.timestamp("us", "UTC"), pa.uint64(), pa.decimal128(38), pa.date32(), pa.large_string(), pa.binary(16)]
    table = pa.table({str(i): pa.array([None], kind) for i, kind in enumerate(kinds)})
    assert take_in(tmp_path, "a.parquet", content_of(table)).unreadable is None
    sink = pa.BufferOutputStream()
    moment = pa.table({"t": pa.array([0], pa.timestamp("ns"))})
    pq.write_table(moment, sink, use_deprecated_int96_timestamps=True)
    assert take_in(tmp_path, "b.parquet", bytes(sink.getvalue())).rows == 1


def test_a_file_without_columns_is_unreadable(tmp_path: Path) -> None:
    assert unreadable(tmp_path, content_of(pa.table({})))


def test_the_limits_hold_for_parquet_too(tmp_path: Path) -> None:
    assert "more than the limit" in unreadable(tmp_path, content_of(TABLE), Limits(max_bytes=1000))
    assert "columns" in unreadable(tmp_path, content_of(TABLE), Limits(max_columns=1))
