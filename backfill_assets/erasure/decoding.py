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

PARQUET, ZIP, SQLITE, WAL = (
    b"PAR1",
    b"PK\x03\x04",
    b"SQLite format 3\0",
    (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"),
)
PACKED: Mapping[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda packed: gzip.GzipFile("", "rb", fileobj=packed),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
WIDE = ("utf-16-le", "utf-16-be")
CONTROL = frozenset(range(32)) - {*b"\t\n\v\f\r\x1b\x1f"}  # no text has the others


class Unsearched(Exception):
    """What a file decodes to cannot be searched to its end."""


def widened(data: bytes) -> Iterator[bytes]:
    """The bytes read as UTF-16 of both orders, from the first and the second byte on, as UTF-8."""
    for name in WIDE:
        for start in (0, 1):
            yield data[start:].decode(name, "ignore").encode(errors="ignore")


def is_text(head: bytes) -> bool:
    """Whether a stream that begins so is text: of one byte per sign, UTF-8 or UTF-16."""
    if not CONTROL & {*head}:
        return True
    least = len(head) * 2 // 5  # of UTF-16 most signs have a byte of zero, all on one side
    wide = head.count(0) and any(
        head[side::2].count(0) >= least and head[1 - side :: 2].count(0) == 0 for side in (0, 1)
    )
    return bool(wide) or head.startswith((b"\xff\xfe", b"\xfe\xff"))


def database_rows(path: Path) -> Iterator[bytes]:
    """Every row of every table of a database, its cells side by side."""
    with contextlib.closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    ) as opened:
        for (name,) in opened.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall():
            for row in opened.execute(f'SELECT * FROM "{name.replace(chr(34), chr(34) * 2)}"'):
                yield b" ".join(
                    cell if isinstance(cell, bytes) else str(cell).encode() for cell in row
                )


def unused_values(path: Path) -> Iterator[bytes]:
    """The texts in dictionaries of a Parquet file that none of its rows has, each as JSON with its
    column's name."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as plain:
        schema = plain.schema
        texts = [
            c.path
            for c in map(schema.column, range(len(schema)))
            if c.physical_type == "BYTE_ARRAY"
        ]
    with pq.ParquetFile(path, read_dictionary=texts) as opened:
        for group in range(opened.num_row_groups if texts else 0):
            for column in dict.fromkeys(t.partition(".")[0] for t in texts):
                chunks = opened.read_row_group(group, columns=[column]).column(column).chunks
                for value in _unused([d for chunk in chunks for d in _dictionaries(chunk)]):
                    yield json.dumps(
                        {column: value if isinstance(value, str) else str(value)}
                    ).encode()


def _dictionaries(array: Any) -> Iterator["pa.DictionaryArray[Any]"]:
    """The arrays with a dictionary in a column, however nested."""
    import pyarrow as pa

    if isinstance(array, pa.DictionaryArray):
        yield array
    elif isinstance(array, pa.StructArray):
        for number in range(array.type.num_fields):
            yield from _dictionaries(array.field(number))
    elif isinstance(array, (pa.ListArray, pa.LargeListArray)):
        yield from _dictionaries(array.values)


def _unused(arrays: "Collection[pa.DictionaryArray[Any]]") -> set[Any]:
    """The values of dictionaries that no row uses."""
    known = {value for array in arrays for value in array.dictionary.to_pylist()}
    return known - {
        value for array in arrays for value in array.unique().dictionary_decode().to_pylist()
    }
