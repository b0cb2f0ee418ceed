"""Landed parquet files: decoded to the last page, or unreadable with a reason.

Lives here: damaged, empty, encrypted and awkwardly named parquet files. Does not live here: text
files.
"""

import hashlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.parquet_files import odd_encodings, parquet_in_microseconds
from backfill_assets.intake.text_lines import Limits
from backfill_assets_tests.landed import bad_rows, stock, take_in

TABLE = pa.table({"id": list(range(5000)), "name": [f"name {i}" for i in range(5000)]})


def content_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1000, write_page_checksum=True)
    return bytes(sink.getvalue())


def unreadable(folder: Path, content: bytes, limits: Limits | None = None) -> str:
    intake = take_in(folder, "a.parquet", content, limits)
    assert (intake.rows, intake.bad_rows, intake.types) == (1, 1, {})
    assert intake.refused is not None
    assert bad_rows(intake) == {0: intake.refused}
    assert intake.parquet.parent == folder / "stock"
    return intake.refused


def test_a_whole_file_is_copied_and_never_linked(tmp_path: Path) -> None:
    content = content_of(TABLE)
    intake = take_in(tmp_path, "a.parquet", content)
    copy = tmp_path / "stock" / f"{hashlib.sha256(content).hexdigest()}.parquet"
    assert intake == StoredFile(
        intake.sha256,
        stock(tmp_path),
        copy.name,
        schema=intake.schema,
        rows=5000,
        content=intake.sha256,
    )
    assert not copy.is_symlink()
    assert copy.stat().st_ino != (tmp_path / "landing/a.parquet").stat().st_ino
    (tmp_path / "landing/a.parquet").write_bytes(b"rewritten in place")
    assert copy.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"id,name\n1,2\n",
        b"PAR1" + bytes(100) + b"PAR1",
        b"PARE" * 9,
        content_of(TABLE)[:-9],
        content_of(TABLE)[:9000],
        content_of(pa.table({})),
    ],
)
def test_what_is_no_parquet_is_unreadable(tmp_path: Path, content: bytes) -> None:
    assert unreadable(tmp_path, content)


@pytest.mark.parametrize("position", [200, 3000, 9000, 20000])
def test_a_flipped_bit_in_any_page_is_found_by_decoding(tmp_path: Path, position: int) -> None:
    content = bytearray(content_of(TABLE))
    content[position] ^= 0x10
    assert unreadable(tmp_path, bytes(content))


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["a", "A"], "twice"),
        (["a", "a"], "twice"),
        (["_metadata", "b"], "reserved"),
        (["", "b"], "blank"),
    ],
)
def test_names_that_spark_cannot_tell_apart_are_unreadable(
    tmp_path: Path, names: list[str], reason: str
) -> None:
    assert reason in unreadable(tmp_path, content_of(TABLE.rename_columns(names)))


@pytest.mark.parametrize(
    "kind", [pa.time32("ms"), pa.time64("us"), pa.float16(), pa.decimal256(50)], ids=str
)
def test_a_type_over_which_spark_would_end_the_whole_job_is_unreadable(
    tmp_path: Path, kind: pa.DataType
) -> None:
    inner = pa.table({"s": pa.array([{"t": None}], pa.struct([("t", kind)]))})
    for table in (pa.table({"t": pa.array([None], kind)}), inner):
        assert "Spark does not read" in unreadable(tmp_path, content_of(table))


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC")], ids=str)
def test_nanoseconds_are_unreadable_only_where_the_stock_leaves_them(
    tmp_path: Path, kind: pa.DataType
) -> None:
    assert (
        take_in(tmp_path, "b.parquet", content_of(pa.table({"a.t": pa.array([None], kind)}))).rows
        == 1
    )
    for inner in (
        pa.array([{"t": None}], pa.struct([("t", kind)])),
        pa.array([None], pa.list_(kind)),
    ):
        assert "nanoseconds" in unreadable(tmp_path, content_of(pa.table({"s": inner})))


def test_a_codec_that_spark_lacks_is_unreadable(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, compression="brotli")
    assert "BROTLI" in unreadable(tmp_path, bytes(sink.getvalue()))


def test_types_that_spark_reads_are_read_old_timestamps_too(tmp_path: Path) -> None:
    kinds = [
        pa.timestamp("us", "UTC"),
        pa.uint64(),
        pa.decimal128(38),
        pa.date32(),
        pa.large_string(),
        pa.binary(16),
    ]
    table = pa.table({str(i): pa.array([None], kind) for i, kind in enumerate(kinds)})
    assert take_in(tmp_path, "a.parquet", content_of(table)).refused is None
    sink = pa.BufferOutputStream()
    moment = pa.table({"t": pa.array([0], pa.timestamp("ns"))})
    pq.write_table(moment, sink, use_deprecated_int96_timestamps=True)
    assert take_in(tmp_path, "b.parquet", bytes(sink.getvalue())).rows == 1


@pytest.mark.slow
def test_the_limits_hold_for_parquet_too(tmp_path: Path) -> None:
    assert "more than the limit" in unreadable(tmp_path, content_of(TABLE), Limits(max_bytes=1000))
    assert "columns" in unreadable(tmp_path, content_of(TABLE), Limits(max_columns=1))


SMALL = Limits(
    max_row_bytes=100_000,
    max_window_bytes=10_000_000,
    max_bytes=50_000_000,
    bomb_floor_bytes=1 << 30,
)


def refusal(
    folder: Path, column: pa.Array, limits: Limits = SMALL, **how: object
) -> tuple[int, str | None]:
    """How large the file was, and why it was refused."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": column}), sink, compression="zstd", **how)
    content = sink.getvalue().to_pybytes()
    return len(content), take_in(folder, "a.parquet", content, limits).refused


def repeated(value: str | bytes, times: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), pa.array([value]))


def test_a_dictionary_of_one_large_value_is_refused_without_being_expanded(tmp_path: Path) -> None:
    size, why = refusal(tmp_path, repeated("d" * 90_000, 20_000))
    assert size < 30_000
    assert why == "4096 rows in turn expand to 368640000 bytes, more than the limit of 10000000"
    assert refusal(tmp_path, repeated(b"d" * 90_000, 20_000))[1] == why


@pytest.mark.parametrize("wrap", ["list", "struct", "map"])
def test_a_dictionary_inside_of_other_types_is_no_way_around(tmp_path: Path, wrap: str) -> None:
    values = pa.array(["d" * 90_000] * 200)
    offsets = pa.array(range(201), pa.int32())
    columns = {
        "list": lambda: pa.ListArray.from_arrays(offsets, values),
        "struct": lambda: pa.StructArray.from_arrays([values], ["s"]),
        "map": lambda: pa.MapArray.from_arrays(offsets, pa.array(range(200)), values),
    }
    assert "200 rows in turn expand to" in (refusal(tmp_path, columns[wrap]())[1] or "")


def test_one_value_longer_than_a_row_may_be_is_refused_with_its_column(tmp_path: Path) -> None:
    _, why = refusal(tmp_path, pa.array(["x", "y" * 100_001]), use_dictionary=False)
    assert why == "'a' has a value of 100001 bytes, more than the limit of 100000"
    _, why = refusal(tmp_path, pa.array(["y" * 900_000]), use_dictionary=False)
    assert why == "'a' has values of more than the limit of 100000 bytes"


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.large_binary()], ids=str)
def test_a_value_of_any_kind_of_text_is_no_longer_than_one_may_be(
    tmp_path: Path, kind: pa.DataType
) -> None:
    one, long = (b"e", b"x" * (3 << 20)) if "binary" in str(kind) else ("e", "x" * (3 << 20))
    rows = [one] * 299 + [long]
    content = content_of(pa.table({"a": pa.array(rows, kind)}))
    assert unreadable(tmp_path, content).startswith("'a' has a value of 3145728 bytes")


def test_a_page_that_decompresses_too_well_is_a_bomb(tmp_path: Path) -> None:
    values = pa.array(["z" * 50_000] * 100)
    _, why = refusal(
        tmp_path, values, replace(SMALL, bomb_floor_bytes=1 << 20), use_dictionary=False
    )
    assert why == "it decompresses more than 250 fold: a decompression bomb"


def test_a_list_is_a_value_too_and_no_longer_than_one_may_be(tmp_path: Path) -> None:
    def flags(*lengths: int) -> pa.Array:
        offsets = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array([False] * offsets[-1])
        )

    assert refusal(tmp_path, flags(100_000))[1] is None
    _, why = refusal(tmp_path, flags(100_001))
    assert why == "'a.list.element' has values of more than the limit of 100000 bytes"
    _, why = refusal(tmp_path, flags(100_001, 1, 1))
    assert why == "'a' has a value of 100001 bytes, more than the limit of 100000"


def test_an_encoding_that_an_engine_may_lack_is_named_with_its_column_and_the_way_out(
    tmp_path: Path,
) -> None:
    table = pa.table({"score": [0.1, 0.2], "name": ["a", "b"]})
    pq.write_table(table, tmp_path / "plain.parquet")
    split = {"score": "BYTE_STREAM_SPLIT"}
    pq.write_table(table, tmp_path / "split.parquet", use_dictionary=False, column_encoding=split)
    assert odd_encodings(tmp_path / "plain.parquet") == ""
    assert odd_encodings(tmp_path / "split.parquet").startswith(
        "'score' is encoded as BYTE_STREAM_SPLIT, which the engine"
    )


WHOLE, CUT = 1_700_000_000_000_001_000, 1_700_000_000_000_001_001  # nanoseconds since 1970
TOLD = "of the file has digits below the microsecond, which would be cut off in {} of its rows"


def written(path: Path, nanos: list[int | None], *, old: bool = False) -> Path:
    table = pa.table(
        {"n": pa.array(range(len(nanos)), pa.int64()), "at": pa.array(nanos, pa.timestamp("ns"))}
    )
    if old:
        pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    else:
        pq.write_table(table, path, version="2.6")
    return path


def test_whole_microseconds_are_converted_without_a_word_and_the_order_of_rows_stays(
    tmp_path: Path,
) -> None:
    landed, target = (
        written(tmp_path / "a.parquet", [WHOLE, None, 0, -1_000]),
        tmp_path / "b.parquet",
    )
    assert parquet_in_microseconds(landed, target) == (target, {})
    found = pq.read_table(target)
    assert found.schema.field("at").type == pa.timestamp("us")
    assert found.column("at").cast(pa.int64()).to_pylist() == [WHOLE // 1_000, None, 0, -1]
    assert found.column("n").to_pylist() == [0, 1, 2, 3]
    assert parquet_in_microseconds(target, tmp_path / "c.parquet") == (target, {}), (
        "without nanoseconds it stays as it is"
    )
    assert not (tmp_path / "c.parquet").exists()


@pytest.mark.parametrize(
    ("nanos", "old", "cut"),
    [([CUT, WHOLE, None, CUT], False, 2), ([CUT, WHOLE], True, 1), ([WHOLE], True, 0)],
)
def test_digits_that_would_be_cut_are_told_with_the_number_of_rows_and_int96_stays_as_it_is(
    tmp_path: Path, nanos: list[int | None], old: bool, cut: int
) -> None:
    landed, target = written(tmp_path / "a.parquet", nanos, old=old), tmp_path / "b.parquet"
    expected = {"at": TOLD.format(cut)} if cut else {}
    assert parquet_in_microseconds(landed, target) == (landed if old else target, expected)
