"""What files decode to, for a search of their bytes: packed streams, rows of databases, unused
values of dictionaries.

Not here: what is searched for, and Parquet's rows (`traces`). Whatever a decoder raises is the
caller's to catch: anybody may have made the files.
"""

import bz2
import contextlib
import gzip
import json
import lzma
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# How files of a kind begin.
PARQUET = b"PAR1"
ZIP = b"PK\x03\x04"
SQLITE = b"SQLite format 3\0"
WAL = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
PACKED: Mapping[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda packed: gzip.GzipFile("", "rb", fileobj=packed),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
WIDE = ("utf-16-le", "utf-16-be")
CONTROL = frozenset(range(32)) - {*b"\t\n\v\f\r\x1b\x1f"}  # no text has the others


class Unsearched(Exception):
    """What a file decodes to cannot be searched to its end."""


def utf16_readings(data: bytes) -> Iterator[bytes]:
    """The bytes read as UTF-16 of both orders, from the first and the second byte on, as UTF-8."""
    for name in WIDE:
        for start in (0, 1):
            yield data[start:].decode(name, "ignore").encode(errors="ignore")


def is_text(head: bytes) -> bool:
    """Whether a stream that begins so is text: of one byte per sign, UTF-8 or UTF-16."""
    if not CONTROL & {*head}:
        return True
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    return b"\0" in head and any(_is_wide(head, side) for side in (0, 1))


def _is_wide(head: bytes, zero_side: int) -> bool:
    """Whether bytes look like UTF-16: of most signs one byte is zero, always the one at `zero_side`
    (0: the first)."""
    least = len(head) * 2 // 5
    zeros, others = head[zero_side::2].count(0), head[1 - zero_side :: 2].count(0)
    return zeros >= least and others == 0


def database_rows(path: Path) -> Iterator[bytes]:
    """Every row of every table of a database, its cells side by side."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as opened:
        tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
        for (name,) in opened.execute(tables).fetchall():
            quoted = name.replace('"', '""')
            for row in opened.execute(f'SELECT * FROM "{quoted}"'):
                yield b" ".join(map(_cell_bytes, row))


def _cell_bytes(cell: object) -> bytes:
    """A cell of SQLite as bytes: of numbers their digits."""
    return cell if isinstance(cell, bytes) else str(cell).encode()


def unused_values(path: Path) -> Iterator[bytes]:
    """The texts in dictionaries of a Parquet file that none of its rows has, each as JSON with its
    column's name."""
    import pyarrow.parquet as pq

    texts = _text_columns(path)
    if not texts:
        return
    columns = dict.fromkeys(name.partition(".")[0] for name in texts)
    with pq.ParquetFile(path, read_dictionary=texts) as opened:
        for group in range(opened.num_row_groups):
            for column in columns:
                chunks = opened.read_row_group(group, columns=[column]).column(column).chunks
                arrays = [array for chunk in chunks for array in _dictionary_arrays(chunk)]
                for value in _unused_dictionary_values(arrays):
                    text = value if isinstance(value, str) else str(value)
                    yield json.dumps({column: text}).encode()


def _text_columns(path: Path) -> list[str]:
    """The paths of a Parquet file's columns of texts or bytes."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as opened:
        columns = [opened.schema.column(i) for i in range(len(opened.schema))]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _dictionary_arrays(array: Any) -> Iterator["pa.DictionaryArray[Any]"]:
    """The arrays with a dictionary in a column, however nested."""
    import pyarrow as pa

    if isinstance(array, pa.DictionaryArray):
        yield array
    elif isinstance(array, pa.StructArray):
        for number in range(array.type.num_fields):
            yield from _dictionary_arrays(array.field(number))
    elif isinstance(array, (pa.ListArray, pa.LargeListArray)):
        yield from _dictionary_arrays(array.values)


def _unused_dictionary_values(arrays: "Collection[pa.DictionaryArray[Any]]") -> set[Any]:
    """The values of dictionaries that no row uses."""
    known, used = set[Any](), set[Any]()
    for array in arrays:
        known.update(array.dictionary.to_pylist())
        used.update(array.unique().dictionary_decode().to_pylist())
    return known - used
