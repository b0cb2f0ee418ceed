"""Streams, databases and dictionaries become bytes to search, and text is told from packed bytes.
Not here: the search of real files (`erasure.test_traces`)."""

import bz2
import gzip
import io
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.erasure.decoding import PACKED, is_text, unused_values, utf16_readings


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_is_packed_is_known_by_its_first_bytes(pack: "type[bytes]") -> None:
    packed = pack(b"ann" * 1000)
    (unpack,) = (u for magic, u in PACKED.items() if packed.startswith(magic))
    assert unpack(io.BytesIO(packed)).read() == b"ann" * 1000
    assert not is_text(packed)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"]
)
def test_texts_are_told_from_bytes_and_read_in_both_orders_of_utf_16(encoding: str) -> None:
    text = 'k1,Ren\u00e9 "x"\t4\r\n' * 9
    assert is_text(text.encode(encoding))
    assert not is_text(b"\0\1\2\3" * 9)
    if encoding.startswith("utf-16-"):
        assert any(text.encode() in wide for wide in utf16_readings(text.encode(encoding)))
        assert any(text.encode() in wide for wide in utf16_readings(b"x" + text.encode(encoding)))


def test_values_that_no_row_uses_are_told_once_with_their_column(tmp_path: Path) -> None:
    people = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), ["ann", "bob", "cy"])
    pq.write_table(
        pa.table({"who": people, "n": [1, 2, 3], "plain": ["a", "b", "c"]}), tmp_path / "x.parquet"
    )
    assert sorted(unused_values(tmp_path / "x.parquet")) == [b'{"who": "ann"}', b'{"who": "cy"}']
    pq.write_table(pa.table({"n": [1]}), tmp_path / "x.parquet")
    assert list(unused_values(tmp_path / "x.parquet")) == []
