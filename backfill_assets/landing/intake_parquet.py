"""Landed parquet files: decoded once from end to end, so that a broken page is found before Spark meets it.

Lives here: whether such a file can be read as a whole, how many rows it has, its names and types. Does not live here:
how large it may become (`intake_sizes`), the copy of it (`intake`) and what its columns mean. Not found here: flipped
bits that still decode, in files written without page checksums; the content's SHA-256 at least keeps them from changing
later.
"""

import json
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.landing.intake_bytes import Limits, Unreadable
from backfill_assets.landing.intake_rows import folded_name, name_fault, shown
from backfill_assets.landing.intake_sizes import WINDOW_ROWS, Expanded, large_dictionaries, refuse_footer

DECIMAL_DIGITS = 38  # Spark's most
READ_TYPES = frozenset({"None", "String", "Enum", "Decimal", "Date", "Timestamp", "Int", "Null", "JSON", "BSON"})
# What pyarrow raises over hostile files; an OSError with a number is the machine's, not the file's.
CORRUPT = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError)


def examine(source: BinaryIO, size: int, limits: Limits) -> tuple[int, tuple[str, ...]]:
    """Rows and column names of a parquet file of `size` bytes; raises Unreadable with the reason if any page is bad."""
    if size == 0:
        raise Unreadable("the file has 0 bytes")
    try:
        with pq.ParquetFile(source, pre_buffer=False) as file:
            _refuse_schema(file.schema_arrow)
            refuse_footer(file.metadata, file.schema, size, limits)
            _refuse_unknown_to_spark(file.schema, file.metadata)
            expected, names = file.metadata.num_rows, tuple(file.schema_arrow.names)
        rows = _decoded(source, limits)
    except Unreadable:
        raise
    except MemoryError:
        raise Unreadable("decoding it takes more memory than a file may") from None
    except CORRUPT as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        raise Unreadable(f"not a whole parquet file: {lines[0]}") from None
    if rows != expected:
        raise Unreadable(f"its footer promises {expected} rows, its pages hold {rows}")
    return rows, names


def _decoded(source: BinaryIO, limits: Limits) -> int:
    """How many rows the pages hold, every one of them decoded."""
    rows, expanded, kept = 0, Expanded(limits), large_dictionaries(source)
    with pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False, read_dictionary=kept) as file:
        for batch in file.iter_batches(WINDOW_ROWS, use_threads=False):
            rows += batch.num_rows
            expanded.add(batch)
    return rows


def _refuse_unknown_to_spark(schema: pq.ParquetSchema, footer: pq.FileMetaData) -> None:
    """Spark ends the whole job over one such file (tried on 4.2.0), so that no other file would be read either.

    Only what is known to be read passes. Nanoseconds in a column of their own do: they are converted (`nanoseconds`),
    but not those inside lists and structs.
    """
    for column in (schema.column(i) for i in range(footer.num_columns)):
        kind = json.loads(column.logical_type.to_json())
        name, unit = kind["Type"], kind.get("timeUnit")
        if name == "Timestamp" and unit == "nanoseconds" and column.path != column.name:
            raise Unreadable(f"{shown(column.path)} counts nanoseconds, which Spark does not read; write microseconds")
        if name not in READ_TYPES or kind.get("precision", 0) > DECIMAL_DIGITS:
            raise Unreadable(f"{shown(column.path)} has a type that Spark does not read: {column.logical_type}")
    for group in (footer.row_group(i) for i in range(footer.num_row_groups)):
        for chunk in (group.column(c) for c in range(group.num_columns)):
            if chunk.compression in ("BROTLI", "LZO"):
                raise Unreadable(f"it is compressed with {chunk.compression}, which Spark does not read")


def _refuse_schema(schema: pa.Schema) -> None:
    if not schema.names:
        raise Unreadable("it has no columns")
    for name in schema.names:
        if why := name_fault(name):
            raise Unreadable(why)
    for names in _levels(list(schema)):
        seen: set[str] = set()
        for name in names:
            if folded_name(name) in seen:
                raise Unreadable(f"the name {shown(name)} occurs twice, case aside")
            seen.add(folded_name(name))


def _levels(fields: list[pa.Field]) -> Iterator[list[str]]:
    """The names that must differ from one another: those of the file, then those of each struct in it."""
    yield [f.name for f in fields]
    for field in fields:
        kind = field.type
        if kind.num_fields:
            inner = [kind.field(i) for i in range(kind.num_fields)]
            yield from _levels(inner)
