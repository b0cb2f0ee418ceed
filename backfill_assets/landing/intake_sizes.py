"""What a landed parquet file takes once it is expanded: a few kilobytes can stand for terabytes.

Lives here: the bounds by the footer before anything is decoded, and those of decoded rows, whose dictionaries are
never expanded to find out. Does not live here: types and broken pages (`intake_parquet`).
"""

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.landing.intake_bytes import Limits, Unreadable
from backfill_assets.landing.intake_rows import shown

WINDOW_ROWS = 4_096  # Spark decodes so many rows of all columns at once
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12, "BYTE_ARRAY": 4}
GROUP_ROWS, GROUP_BYTES = 131_072, 32 << 20  # of a row group: enough for compression, little enough for one Spark task
TEXTS = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
SMALL_VALUE_BYTES = 16 << 10  # a dictionary of such values cannot blow up a window, and reads five times as fast plain


def refuse_footer(footer: pq.FileMetaData, schema: pq.ParquetSchema, size: int, limits: Limits) -> None:
    """Raise Unreadable for a file of `size` bytes whose footer promises more than the limits allow."""
    if footer.num_columns > limits.max_columns:
        raise Unreadable(f"it has {footer.num_columns} columns, more than the limit of {limits.max_columns}")
    chunks = list(_chunks(footer))
    total = sum(c.total_uncompressed_size for _, _, c in chunks)
    if total > limits.max_bytes:
        raise Unreadable(f"it decompresses to {total} bytes, more than the limit of {limits.max_bytes}")
    if total > limits.bomb_floor_bytes and total > limits.max_ratio * size:
        raise Unreadable(f"it decompresses more than {limits.max_ratio} fold: a decompression bomb")
    cells = 0
    for index, rows, chunk in chunks:
        column = schema.column(index)
        width = WIDTHS.get(column.physical_type) or max(1, column.length)
        cells += width * chunk.num_values
        if max(width, _mean_bytes(chunk, limits), width * chunk.num_values // max(1, rows)) > limits.max_row_bytes:
            raise Unreadable(f"{shown(column.path)} has values of more than the limit of {limits.max_row_bytes} bytes")
    if cells > limits.max_bytes:
        raise Unreadable(f"its {footer.num_rows} rows expand to more than the limit of {limits.max_bytes} bytes")


def grouped(source: pq.ParquetFile, schema: pa.Schema | None = None) -> Iterator[pa.Table]:
    """All rows in order, cast to `schema`: read as they were judged, WINDOW_ROWS in turn, and given as row groups."""
    waiting: list[pa.Table] = []
    for batch in source.iter_batches(WINDOW_ROWS, use_threads=False):
        table = pa.Table.from_batches([batch])
        waiting.append(table.cast(schema) if schema is not None else table)
        if len(waiting) * WINDOW_ROWS >= GROUP_ROWS or sum(t.nbytes for t in waiting) >= GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _chunks(footer: pq.FileMetaData) -> Iterator[tuple[int, int, Any]]:
    for group in (footer.row_group(i) for i in range(footer.num_row_groups)):
        yield from ((c, group.num_rows, group.column(c)) for c in range(group.num_columns))


def _mean_bytes(chunk: Any, limits: Limits) -> int:
    """What its values take on average at least, headers of pages left out."""
    return int(max(0, chunk.total_uncompressed_size - limits.max_row_bytes) // max(1, chunk.num_values))


def large_dictionaries(source: BinaryIO) -> list[str]:
    """The paths of columns whose dictionaries hold a large value: to be read without expanding them."""
    with pq.ParquetFile(source, pre_buffer=False) as file:
        schema, footer = file.schema, file.metadata
    texts = [schema.column(i).path for i in range(len(schema)) if schema.column(i).physical_type == "BYTE_ARRAY"]
    found: set[str] = set()
    with pq.ParquetFile(source, read_dictionary=texts, pre_buffer=False) as file:
        for index in range(footer.num_row_groups):
            group = footer.row_group(index)
            held = (group.column(c) for c in range(group.num_columns))
            could = [c.path_in_schema for c in held if c.path_in_schema in texts and _may_be_large(c)]
            for path in could:
                first = next(file.iter_batches(1, row_groups=[index], columns=[path], use_threads=False), None)
                if first is not None and max(map(_largest_entry, first.columns)) > SMALL_VALUE_BYTES:
                    found.add(path)
    return sorted(found)


def _may_be_large(chunk: Any) -> bool:
    return bool(chunk.has_dictionary_page) and chunk.total_uncompressed_size > SMALL_VALUE_BYTES


def _largest_entry(column: pa.Array) -> int:
    """The longest value in a dictionary, whether or not a row uses it."""
    if pa.types.is_dictionary(column.type):
        return pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    return max(map(_largest_entry, _children(column)), default=0)


class Expanded:
    """Adds up what the decoded rows of one file take; `add` raises Unreadable where a limit is passed."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._total = limits, 0

    def add(self, batch: pa.RecordBatch) -> None:
        """At most WINDOW_ROWS rows in turn, dictionaries not expanded."""
        window = 0
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            size, longest = _value_bytes(column)
            window += size
            if longest > self._limits.max_row_bytes:
                most = self._limits.max_row_bytes
                raise Unreadable(f"{shown(name)} has a value of {longest} bytes, more than the limit of {most}")
        self._total += window
        if window > self._limits.max_window_bytes:
            most = self._limits.max_window_bytes
            raise Unreadable(f"{batch.num_rows} rows in turn expand to {window} bytes, more than the limit of {most}")
        if self._total > self._limits.max_bytes:
            raise Unreadable(f"its rows expand to more than the limit of {self._limits.max_bytes} bytes")


def _value_bytes(column: pa.Array) -> tuple[int, int]:
    """What the values take as plain bytes, and the longest of them (0 where they have a fixed width)."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    elif any(says(kind) for says in TEXTS):
        lengths = pc.binary_length(column)
    else:
        inner = [_value_bytes(child) for child in _children(column)]
        longest = max((longest for _, longest in inner), default=0)
        if inner and hasattr(kind, "value_type"):  # a list: its elements take a byte each at least
            longest = max(longest, (pc.max(pc.list_value_length(column)).as_py() or 0) * _width(kind.value_type))
        return column.nbytes + sum(size for size, _ in inner), longest
    return pc.sum(lengths).as_py() or 0, pc.max(lengths).as_py() or 0


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 1


def _children(column: pa.Array) -> list[pa.Array]:
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return [column.storage]
    if pa.types.is_struct(kind):
        return list(column.flatten())
    if pa.types.is_map(kind):
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        return [part.slice(start, end - start) for part in (column.keys, column.items)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [column.flatten()]
    return []
