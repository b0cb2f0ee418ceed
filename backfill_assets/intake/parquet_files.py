"""Landed Parquet files: decoded once from end to end, within bounds, and timestamps finer than
Spark's converted.

Not here: the child process that runs `examine_parquet` (`limited_decoding`), and the meaning of
columns (`mapping`). A few kilobytes can stand for terabytes. Spark refuses INT64 nanoseconds, and
cuts digits of INT96.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.intake.batches import folded_name, name_fault, quoted_text
from backfill_assets.intake.text_lines import Limits, Unreadable

WINDOW_ROWS = 4_096  # Spark decodes so many rows of all columns at once
WIDTHS = {
    "BOOLEAN": 1,
    "INT32": 4,
    "FLOAT": 4,
    "INT64": 8,
    "DOUBLE": 8,
    "INT96": 12,
    "BYTE_ARRAY": 4,
}
# Of a row group: enough for compression, little enough for one Spark task.
GROUP_ROWS = 131_072
GROUP_BYTES = 32 << 20
# Which a file's own Arrow schema may ask for.
VIEWS = (
    pa.types.is_string_view,
    pa.types.is_binary_view,
)
TEXTS = (
    pa.types.is_binary,
    pa.types.is_string,
    pa.types.is_large_binary,
    pa.types.is_large_string,
    *VIEWS,
)
LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
FLAT = (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_fixed_size_binary, pa.types.is_null)
# Of types within types: a client of Spark Connect reads no more than some 45 levels of a schema.
MAX_DEPTH = 20
DECIMAL_DIGITS = 38  # Spark's most
NANOS_PER_MICRO = 1_000
READ_TYPES = frozenset(
    {"None", "String", "Enum", "Decimal", "Date", "Timestamp", "Int", "Null", "JSON", "BSON"}
)
PLAIN_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"}
# pyarrow raises these over hostile files; an OSError with a number is the machine's fault.
CORRUPT = (
    pa.ArrowException,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
)


def examine_parquet(source: BinaryIO, size: int, limits: Limits, is_decoded: bool = True) -> int:
    """Judge the footer of a parquet file of `size` bytes, decode all of it if `is_decoded`, and
    return its number of rows, or raise Unreadable with the reason.

    Flipped bits that still decode go unseen in files without page checksums; the content's SHA-256
    keeps them as read.
    """
    if size == 0:
        raise Unreadable("the file has 0 bytes")
    try:
        with pq.ParquetFile(source, pre_buffer=False) as file:
            _refuse_schema(file.schema_arrow)
            _refuse_footer(file.metadata, file.schema, size, limits)
            _refuse_unknown_to_spark(file.schema, file.metadata)
            expected = file.metadata.num_rows
        rows = _decoded_rows(source, limits) if is_decoded else expected
    except Unreadable:
        raise
    except MemoryError:
        raise Unreadable("decoding it takes more memory than a file may") from None
    except CORRUPT as error:
        is_of_the_machine = isinstance(error, OSError) and error.errno is not None
        if is_of_the_machine:
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        raise Unreadable(f"not a whole parquet file: {lines[0]}") from None
    if rows != expected:
        raise Unreadable(f"its footer promises {expected} rows, its pages hold {rows}")
    return rows


def _decoded_rows(source: BinaryIO, limits: Limits) -> int:
    """Decode every row and return their number; raises Unreadable where they expand beyond the
    limits."""
    rows = expanded = 0
    with pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False) as file:
        for batch in file.iter_batches(WINDOW_ROWS, use_threads=False):
            rows += batch.num_rows
            expanded += _window_bytes(batch, limits)
            if expanded > limits.max_bytes:
                raise Unreadable(
                    f"its rows expand to more than the limit of {limits.max_bytes} bytes"
                )
    return rows


def _window_bytes(batch: pa.RecordBatch, limits: Limits) -> int:
    """The expanded size of at most WINDOW_ROWS rows."""
    window = 0
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        size, longest = _value_bytes(column)
        window += size
        if longest > limits.max_row_bytes:
            most = limits.max_row_bytes
            raise Unreadable(
                f"{quoted_text(name)} has a value of {longest} bytes, more than the limit of {most}"
            )
    if window > limits.max_window_bytes:
        most = limits.max_window_bytes
        raise Unreadable(
            f"{batch.num_rows} rows in turn expand to {window} bytes, more than the limit of {most}"
        )
    return window


def _refuse_unknown_to_spark(schema: pq.ParquetSchema, footer: pq.FileMetaData) -> None:
    """Refuse types and codecs over which Spark 4.2.0 ends the whole job, so that other files could
    not be read either.

    Nanoseconds in a column of their own pass, as `parquet_in_microseconds` converts them; those in
    lists and structs do not.
    """
    for index in range(footer.num_columns):
        column = schema.column(index)
        kind = json.loads(column.logical_type.to_json())
        name = kind["Type"]
        is_nanos = name == "Timestamp" and kind.get("timeUnit") == "nanoseconds"
        is_nested = column.path != column.name
        if is_nanos and is_nested:
            raise Unreadable(
                f"{quoted_text(column.path)} counts nanoseconds, which Spark does not read; write "
                "microseconds"
            )
        if name not in READ_TYPES or kind.get("precision", 0) > DECIMAL_DIGITS:
            raise Unreadable(
                f"{quoted_text(column.path)} has a type that Spark does not read: "
                f"{column.logical_type}"
            )
    for _, _, chunk in _column_chunks(footer):
        if chunk.compression in ("BROTLI", "LZO"):
            raise Unreadable(
                f"it is compressed with {chunk.compression}, which Spark does not read"
            )


def _refuse_schema(schema: pa.Schema) -> None:
    """Raise Unreadable for a file without columns, a name that no column can have, and names of one
    level that differ in case alone."""
    if not schema.names:
        raise Unreadable("it has no columns")
    for name in schema.names:
        why = name_fault(name)
        if why:
            raise Unreadable(why)
    for names in _name_levels(list(schema)):
        seen: set[str] = set()
        for name in names:
            if folded_name(name) in seen:
                raise Unreadable(f"the name {quoted_text(name)} occurs twice, case aside")
            seen.add(folded_name(name))


def odd_encodings(path: Path) -> str:
    """Why an engine may not read a file that pyarrow decodes: columns in encodings that some
    engines lack, and how to write them; empty without such a column."""
    with pq.ParquetFile(path) as file:
        chunks = [chunk for _, _, chunk in _column_chunks(file.metadata)]
    odd = dict[str, set[str]]()
    for chunk in chunks:
        odd[chunk.path_in_schema] = {*chunk.encodings} - PLAIN_ENCODINGS
    named = [f"{quoted_text(n)} is encoded as {'/'.join(sorted(odd[n]))}" for n in odd if odd[n]]
    if not named:
        return ""
    advice = "write it plain or by dictionary"
    return f"{', '.join(named)}, which the engine does not decode: {advice}"


def _name_levels(fields: list[pa.Field], depth: int = 1) -> Iterator[list[str]]:
    """Yield each set of names that must differ: those of the file, then those of each struct in
    it."""
    if depth > MAX_DEPTH:
        raise Unreadable(f"a column has types nested more than {MAX_DEPTH} levels deep")
    yield [f.name for f in fields]
    for field in fields:
        kind = field.type
        if kind.num_fields:
            inner = [kind.field(i) for i in range(kind.num_fields)]
            yield from _name_levels(inner, depth + 1)


def _refuse_footer(
    footer: pq.FileMetaData, schema: pq.ParquetSchema, size: int, limits: Limits
) -> None:
    """Raise Unreadable for a file of `size` bytes whose footer promises more than the limits
    allow."""
    if footer.num_columns > limits.max_columns:
        raise Unreadable(
            f"it has {footer.num_columns} columns, more than the limit of {limits.max_columns}"
        )
    chunks = list(_column_chunks(footer))
    total = sum(c.total_uncompressed_size for _, _, c in chunks)
    if total > limits.max_bytes:
        raise Unreadable(
            f"it decompresses to {total} bytes, more than the limit of {limits.max_bytes}"
        )
    if total > limits.bomb_floor_bytes and total > limits.max_ratio * size:
        raise Unreadable(f"it decompresses more than {limits.max_ratio} fold: a decompression bomb")
    cells = 0
    for index, rows, chunk in chunks:
        column = schema.column(index)
        width = WIDTHS.get(column.physical_type) or max(1, column.length)
        cells += width * chunk.num_values
        of_a_row = width * chunk.num_values // max(1, rows)
        if max(width, _mean_bytes(chunk, limits), of_a_row) > limits.max_row_bytes:
            raise Unreadable(
                f"{quoted_text(column.path)} has values of more than the limit of "
                f"{limits.max_row_bytes} bytes"
            )
    if cells > limits.max_bytes:
        raise Unreadable(
            f"its {footer.num_rows} rows expand to more than the limit of {limits.max_bytes} bytes"
        )


def row_group_tables(source: pq.ParquetFile, schema: pa.Schema | None = None) -> Iterator[pa.Table]:
    """Yield all rows in order as row groups, cast to `schema`; reads WINDOW_ROWS in turn, as
    `examine_parquet` did."""
    waiting: list[pa.Table] = []
    for batch in source.iter_batches(WINDOW_ROWS, use_threads=False):
        table = pa.Table.from_batches([batch])
        waiting.append(table.cast(schema) if schema is not None else table)
        has_rows = len(waiting) * WINDOW_ROWS >= GROUP_ROWS
        if has_rows or sum(t.nbytes for t in waiting) >= GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _column_chunks(footer: pq.FileMetaData) -> Iterator[tuple[int, int, Any]]:
    """Each chunk of a footer, with its column's position and the rows of its row group."""
    for group in (footer.row_group(i) for i in range(footer.num_row_groups)):
        yield from ((c, group.num_rows, group.column(c)) for c in range(group.num_columns))


def _mean_bytes(chunk: Any, limits: Limits) -> int:
    """A lower bound of the mean size of its values; leaves out page headers."""
    of_values = max(0, chunk.total_uncompressed_size - limits.max_row_bytes)
    return int(of_values // max(1, chunk.num_values))


def _value_bytes(column: pa.Array) -> tuple[int, int]:
    """The size of the values as plain bytes, and of the longest of them (0 for fixed widths)."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        lengths = pc.take(_text_lengths(column.dictionary), column.indices)
    elif any(says(kind) for says in TEXTS):
        lengths = _text_lengths(column)
    else:
        return _nested_bytes(column)
    return pc.sum(lengths).as_py() or 0, pc.max(lengths).as_py() or 0


def _nested_bytes(column: pa.Array) -> tuple[int, int]:
    """The size of values of fixed widths, or of values within values, as plain bytes, and of the
    longest of them (0 for fixed widths); a list takes as much as its elements at least."""
    inner = [_value_bytes(child) for child in _child_arrays(column)]
    longest = max((longest for _, longest in inner), default=0)
    is_list = hasattr(column.type, "value_type")
    if inner and is_list:  # its elements take a byte each at least
        most = pc.max(pc.list_value_length(column)).as_py() or 0
        longest = max(longest, most * _byte_width(column.type.value_type))
    return column.nbytes + sum(size for size, _ in inner), longest


def _text_lengths(texts: pa.Array) -> pa.Array:
    """The length of each text or value of bytes."""
    if any(says(texts.type) for says in VIEWS):
        texts = texts.cast(pa.large_binary())
    return pc.binary_length(texts)


def _byte_width(kind: pa.DataType) -> int:
    """The bytes of a value of a fixed width; 1 of any other type."""
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 1


def _child_arrays(column: pa.Array) -> list[pa.Array]:
    """The arrays of values within values: fields of a struct, keys and values of a map, elements of
    a list; none of a plain array. Raises Unreadable for a type whose size no bound knows."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return [column.storage]
    if pa.types.is_struct(kind):
        return list(column.flatten())
    if pa.types.is_map(kind):
        # A slice of a column shares keys and values with the whole one.
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        return [part.slice(start, end - start) for part in (column.keys, column.items)]
    if any(says(kind) for says in LISTS):
        return [column.flatten()]
    if not any(says(kind) for says in FLAT):
        raise Unreadable(
            f"it has values of the Arrow type {kind}, whose size no bound knows; write a plain type"
        )
    return []


def open_in_micros(path: Path) -> pq.ParquetFile:
    """Open a Parquet file whose INT96 become microseconds, as Spark reads them, without what is
    finer. Nanoseconds in 64 bits, the default of pyarrow, hold the years 1678 to 2261 alone."""
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")


def parquet_in_microseconds(landed: Path, target: Path) -> tuple[Path, dict[str, str]]:
    """Return the parquet for Spark (`landed`, or `target`, written from it) and its inexact columns
    with reasons."""
    with open_in_micros(landed) as source:
        old, top = _finer_columns(source)
        inexact = _int96_cuts(landed, old) if old else {}
        if not top:
            return landed, inexact
        inexact |= _convert_nanoseconds(source, target, top)
    return target, inexact


def has_finer_times(landed: Path) -> bool:
    """Whether a file has timestamps finer than Spark's, which `parquet_in_microseconds` looks
    through."""
    with pq.ParquetFile(landed) as source:
        return any(_finer_columns(source))


def _finer_columns(source: pq.ParquetFile) -> tuple[list[str], list[str]]:
    """The paths of columns in INT96, and the columns that count nanoseconds otherwise."""
    leaves = [source.schema.column(i) for i in range(len(source.schema))]
    old = [c.path for c in leaves if c.physical_type == "INT96"]
    nanos = [field.name for field in source.schema_arrow if _is_nanos(field.type)]
    return old, [name for name in nanos if name not in old]


def _is_nanos(kind: Any) -> bool:
    """Whether a type counts nanoseconds."""
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns"


def _convert_nanoseconds(source: Any, target: Path, names: Sequence[str]) -> dict[str, str]:
    """Write the rows in the same order, the named columns in microseconds."""
    fields = list[pa.Field]()
    for field in source.schema_arrow:
        if field.name in names:
            field = pa.field(field.name, pa.timestamp("us", field.type.tz))
        fields.append(field)
    wanted, cut = pa.schema(fields), dict.fromkeys(names, 0)
    with pq.ParquetWriter(target, wanted) as writer:
        for table in row_group_tables(source):
            for name in names:
                nanos = table.column(name).cast(pa.int64())
                whole = pc.multiply(pc.divide(nanos, NANOS_PER_MICRO), NANOS_PER_MICRO)
                cut[name] += _differing_values(nanos, whole)
            writer.write_table(table.cast(wanted, safe=False))
    return _cut_reasons(cut)


def _int96_cuts(landed: Path, paths: Sequence[str]) -> dict[str, str]:
    """Read both units and compare: they agree unless digits are cut, even if 64 bits of nanoseconds
    wrap."""
    top = list(dict.fromkeys(path.split(".")[0] for path in paths))
    cut = dict.fromkeys(top, 0)
    with (
        open_in_micros(landed) as micros,
        pq.ParquetFile(landed, coerce_int96_timestamp_unit="ns") as nanos,
    ):
        pairs = zip(
            micros.iter_batches(WINDOW_ROWS, columns=paths, use_threads=False),
            nanos.iter_batches(WINDOW_ROWS, columns=paths, use_threads=False),
            strict=True,
        )
        for coarse, fine in pairs:
            for name in top:
                if pa.types.is_timestamp(coarse.schema.field(name).type):
                    whole = pc.multiply(coarse.column(name).cast(pa.int64()), NANOS_PER_MICRO)
                    cut[name] += _differing_values(fine.column(name).cast(pa.int64()), whole)
    return _cut_reasons(cut)


def _differing_values(one: Any, other: Any) -> int:
    """The number of places at which two columns of numbers differ; NULL differs from nothing."""
    return int(pc.sum(pc.not_equal(one, other)).as_py() or 0)


def _cut_reasons(cut: dict[str, int]) -> dict[str, str]:
    """Why columns are inexact; `cut`: by column the rows whose digits would be cut off."""
    why = "of the file has digits below the microsecond, which would be cut off in {} of its rows"
    return {name: why.format(rows) for name, rows in cut.items() if rows}
