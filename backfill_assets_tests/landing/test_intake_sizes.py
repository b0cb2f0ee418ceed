"""What a parquet file takes once expanded: refused by name before anything has to hold it.

Lives here: bombs of every kind that fit into kilobytes, and honest files beside them. Does not live here: types and
broken pages (`test_intake_parquet`).
"""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.landing.intake_bytes import Limits
from backfill_assets_tests.lake.landed import take_in

SMALL = Limits(max_row_bytes=100_000, max_window_bytes=10_000_000, max_bytes=50_000_000, bomb_floor_bytes=1 << 30)


def refusal(folder: Path, column: pa.Array, limits: Limits = SMALL, **how: object) -> tuple[int, str | None]:
    """How large the file was, and why it was refused."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": column}), sink, compression="zstd", **how)
    content = sink.getvalue().to_pybytes()
    return len(content), take_in(folder, "a.parquet", content, limits).unreadable


def repeated(value: str | bytes, times: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), pa.array([value]))


def test_a_dictionary_of_one_large_value_is_refused_without_being_expanded(tmp_path: Path) -> None:
    size, why = refusal(tmp_path, repeated("d" * 90_000, 20_000))
    assert size < 30_000
    assert why == "4096 rows in turn expand to 368640000 bytes, more than the limit of 10000000"
    assert refusal(tmp_path, repeated(b"d" * 90_000, 20_000))[1] == why


def test_a_dictionary_that_expands_slowly_is_refused_for_the_whole_file(tmp_path: Path) -> None:
    assert "its rows expand to more than" in (refusal(tmp_path, repeated("d" * 2_000, 40_000))[1] or "")


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


def test_a_page_that_decompresses_too_well_is_a_bomb(tmp_path: Path) -> None:
    values = pa.array(["z" * 50_000] * 100)
    _, why = refusal(tmp_path, values, replace(SMALL, bomb_floor_bytes=1 << 20), use_dictionary=False)
    assert why == "it decompresses more than 250 fold: a decompression bomb"


def test_rows_of_nothing_are_counted_by_what_they_expand_to(tmp_path: Path) -> None:
    size, why = refusal(tmp_path, pa.nulls(1_300_000, pa.int32()), replace(SMALL, max_bytes=5_000_000))
    assert size < 5_000
    assert why == "its 1300000 rows expand to more than the limit of 5000000 bytes"


def test_honest_dictionaries_pass(tmp_path: Path) -> None:
    assert refusal(tmp_path, repeated("d" * 100, 100_000))[1] is None
    assert refusal(tmp_path, repeated("d" * 90_000, 50))[1] is None
    assert refusal(tmp_path, pa.array([f"{i:05d}" * 4_000 for i in range(50)]))[1] is None


def test_a_list_is_a_value_too_and_no_longer_than_one_may_be(tmp_path: Path) -> None:
    def flags(*lengths: int) -> pa.Array:
        offsets = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array([False] * offsets[-1]))

    assert refusal(tmp_path, flags(100_000))[1] is None
    _, why = refusal(tmp_path, flags(100_001))
    assert why == "'a.list.element' has values of more than the limit of 100000 bytes"
    _, why = refusal(tmp_path, flags(100_001, 1, 1))
    assert why == "'a' has a value of 100001 bytes, more than the limit of 100000"
