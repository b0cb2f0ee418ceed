"""The landed rows of files that are read together, each with its file's content and its number in
it, and as text.

Files of one kind are; of many kinds, too, as far as their columns agree, since an engine has a
bound of frames in one query. Not here: deliveries (`deliveries`) and ingest (`intake.ingest`). An
engine without `_metadata` gets links that name the content and copies with numbered rows, in the
folder for temporary files of its server.
"""

import atexit
import os
import shutil
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.engines.engine_paths import engine_path, linked_folder, refuse_lost_files
from backfill_assets.engines.lake_session import small_frame
from backfill_assets.engines.session import own_server, session_engine, written_rows
from backfill_assets.intake.batches import (
    BAD_REASON,
    BAD_TEXT,
    FRACTIONAL,
    ROW_NUMBER,
    folded_name,
    quoted_text,
)
from backfill_assets.intake.content_store import StoredFile, refuse_replaced
from backfill_assets.intake.parquet_files import open_in_micros, row_group_tables
from backfill_assets.intake.select import CHANGE, COMMIT, COMMITTED, LOG_PLACE, OF_COMMITS
from backfill_assets.intake.text_lines import Limits, Unreadable
from backfill_assets.kernel.core.column_types import quoted_column
from backfill_assets.kernel.place.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField

INTAKE_COLUMNS = (ROW_NUMBER, BAD_TEXT, BAD_REASON)
CONTENT, NUMBER = "__sha256", "__number"  # names that no landed column may have
SIGN = "c"  # before a content's name in a folder's: digits alone would be taken for a number
DIGITS = 64
# Of pages that have one; copies were decoded when they were made.
CHECKSUMS = "parquet.page.verify-checksum.enabled"
MANY_KINDS = 8  # more sets of columns than that in one query are joined
MOST_FRAMES = 64  # of one query: a server may end at some 250, and Spark takes two seconds for each
MOST_COLUMNS = 1_000  # of a frame of files that were joined
# As Spark reads them; pyarrow's names.
MICROSECONDS_A_DAY = 86_400_000_000
EPOCH, FIRST_GREGORIAN = date(1970, 1, 1), date(1582, 10, 15)
LEGACY_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
WIDENED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.large_string(): pa.string(),
}


@dataclass(frozen=True)
class FileGroup:
    """Files that one frame reads."""

    files: Sequence[StoredFile]
    # The columns of all, in an order that is each file's; none: files of one kind.
    fields: "Sequence[StructField]" = ()


def files_by_kind(
    session: "SparkSession", kinds: Sequence[Sequence[StoredFile]], selected: Collection[str] | None
) -> list[FileGroup]:
    """Files of each kind. Beyond MANY_KINDS kinds, files are joined that have the same `selected`
    columns (None: never) and agree in the order, types and spelling of all others: the text of a
    row depends on its file.

    Raises what the engine raises over a file.
    """
    if len(kinds) <= MANY_KINDS or selected is None:
        return [FileGroup(files) for files in kinds]
    done, names = list[FileGroup](), {*map(folded_name, selected)}
    open_ones = dict[object, FileGroup]()  # groups that more files may join, by what these share
    for files in kinds:
        first, fields = files[0], _file_fields(session, files[0])
        names |= {*map(folded_name, first.renamed)}
        types = {f.name: (f.dataType.simpleString(), first.types.get(f.name)) for f in fields}
        wanted = sorted((folded_name(n), n, t) for n, t in types.items() if folded_name(n) in names)
        # Not by schema and types (the first two of `kind`): only selected columns have to agree.
        key = (*first.kind[2:], ROW_NUMBER in types, str(wanted))
        before = open_ones.get(key)
        merged = None if before is None else _merged_fields(before.fields, fields)
        if before is not None and merged:
            open_ones[key] = FileGroup([*before.files, *files], merged)
            continue
        if before is not None:
            done.append(before)
        open_ones[key] = FileGroup(files, fields)
    return [*done, *open_ones.values()]


def _file_fields(session: "SparkSession", file: StoredFile) -> "list[StructField]":
    """The columns of a file, as the engine reads them."""
    from pyspark.sql import types as T

    server, engine = own_server(session), session_engine(session)
    if file.types:
        with file.store.open(file.name, at_end=True, at_hand=True) as opened:
            names = pq.read_schema(opened).names
        types = {ROW_NUMBER: T.LongType()}
        return [T.StructField(name, types.get(name, T.StringType())) for name in names]
    if server is not None and not engine.has_row_metadata:
        path = str(_numbered_copy(server.scratch, file))
    else:
        path = engine_path(session, file.store, file.name)
    return [T.StructField(f.name, f.dataType) for f in session.read.parquet(path).schema.fields]


def _merged_fields(
    fields: "Sequence[StructField]", more: "Sequence[StructField]"
) -> "list[StructField] | None":
    """The columns of both, each side in its order; None where that cannot be, where a name has two
    types or spellings, or where they are too many."""
    merged, names, place = [*fields], [f.name for f in fields], 0
    known = {folded_name(f.name): (f.name, f.dataType) for f in fields}
    for field in more:
        same = known.get(folded_name(field.name))
        if same is None:
            merged.insert(place, field)
            names.insert(place, field.name)
        elif same != (field.name, field.dataType):
            return None
        found = names.index(field.name)
        if found < place:
            return None
        place = found + 1
    return merged if len(merged) <= MOST_COLUMNS else None


def union_of_frames(
    session: "SparkSession", frames: "Sequence[DataFrame]", most: int = MOST_FRAMES
) -> "DataFrame":
    """The rows of all frames. More than `most` are first written to the folder for temporary files
    of the lake's server, so many at once."""
    server = own_server(session)
    while server is not None and len(frames) > most:
        groups = (frames[i : i + most] for i in range(0, len(frames), most))
        frames = [
            _spilled_frame(session, server.scratch, union_of_frames(session, group))
            for group in groups
        ]
    return reduce(lambda one, other: one.unionByName(other), frames)


def _spilled_frame(session: "SparkSession", scratch: Path, frame: "DataFrame") -> "DataFrame":
    """The rows of a frame, written below `scratch` and read from there; the files go when this
    process ends."""
    place, name = Folder(str(scratch)), f"rows-{uuid.uuid4().hex}"
    folder = place.prepared(name)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    counted = written_rows(frame, lambda rows: rows.write.mode("append").parquet(str(folder)))
    files = [file for file in place.below(name) if file.endswith(".parquet")]
    refuse_lost_files(session, place, place, files, counted)
    return session.read.schema(frame.schema).parquet(str(folder))


def landed_rows(session: "SparkSession", alike: FileGroup) -> "DataFrame":
    """The rows of files: `__sha256`, `__number` (from 1), `__json` (the row as text), `__text` and
    `__reason` (of unusable records of text), and the files' own columns in their types, NULL where
    a file has none; those of a table under the names that it gives them now.

    Raises what the engine raises over them.
    """
    from pyspark.sql import functions as F

    files, (frame, content, number) = alike.files, _frame_of_files(session, alike)
    if files[0].commit:
        named = frame.withColumns({CONTENT: content, NUMBER: number})
        frame, content, number = _with_commits(session, named, files), F.col(CONTENT), F.col(NUMBER)
    ours = (*INTAKE_COLUMNS, CONTENT, NUMBER, *OF_COMMITS, LOG_PLACE)
    own = frame.select(*(quoted_column(c) for c in frame.columns if c not in ours)).schema.fields
    columns = [(f.name, F.col(quoted_column(f.name)), f) for f in own]
    now = _names_of_today(files[0], [name for name, _, _ in columns])
    values = [value.alias(now[name]) for name, value, _ in columns]
    bad_text = reason = F.lit(None).cast("string")
    if ROW_NUMBER in frame.columns:
        bad_text, reason, number = F.col(BAD_TEXT), F.col(BAD_REASON), F.col(ROW_NUMBER)
        values = _typed_values(alike, columns)
    elif any(f.is_undecoded for f in files):
        reason = _too_long_reason(own)
    return frame.select(
        (row_text(columns) if columns else F.lit("")).alias("__json"),
        content.alias(CONTENT),
        number.alias(NUMBER),
        bad_text.alias("__text"),
        reason.alias("__reason"),
        *values,
        *((*OF_COMMITS, LOG_PLACE) if files[0].commit else ()),
    )


def _names_of_today(file: StoredFile, columns: Sequence[str]) -> dict[str, str]:
    """What the table of a file calls its columns now."""
    known, now = {*map(folded_name, columns)}, dict[str, str]()
    for column in columns:
        later = file.renamed.get(column, column)
        now[column] = column if folded_name(later) in known else later
    return now


def _frame_of_files(
    session: "SparkSession", alike: FileGroup
) -> "tuple[DataFrame, Column, Column]":
    """The rows of files as the engine reads them, and two columns over them: the name of a row's
    content, and the row's number in it."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    server, files, read = own_server(session), alike.files, session.read
    if server is None or session_engine(session).has_row_metadata:
        if alike.fields:
            read = read.schema(T.StructType([*alike.fields]))
        if any(f.is_undecoded for f in files):
            read = read.option(CHECKSUMS, "true")
        frame = read.parquet(*(engine_path(session, f.store, f.name) for f in files))
        name = F.col("_metadata.file_name")
        content = F.lit(files[0].sha256) if len(files) == 1 else F.substring(name, 1, DIGITS)
        return frame, content, F.col("_metadata.row_index") + 1
    if alike.fields:
        of_folder = T.StructField(CONTENT, T.StringType())
        read = read.schema(T.StructType([*alike.fields, of_folder]))
    copies = [
        (SIGN + f.sha256, f.parquet if f.types else _numbered_copy(server.scratch, f))
        for f in files
    ]
    frame = read.parquet(str(linked_folder(server.scratch, CONTENT, copies)))
    return frame, F.substring(F.col(CONTENT), len(SIGN) + 1, DIGITS), F.col(NUMBER)


def _typed_values(
    alike: FileGroup, columns: "Sequence[tuple[str, Column, StructField]]"
) -> "list[Column]":
    """The columns of text files in the types that their values have; numbers with a fraction stay
    texts."""
    types = dict[str, str]()
    for file in alike.files if alike.fields else alike.files[:1]:
        types |= {name: t.lower() for name, t in file.types.items() if t != FRACTIONAL}
    return [value.try_cast(types.get(name, "string")).alias(name) for name, value, _ in columns]


def _too_long_reason(fields: "Sequence[StructField]") -> "Column":
    """Why a row of files that nobody decoded before is unusable: a value longer than one may be;
    else NULL."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    texts = [f.name for f in fields if isinstance(f.dataType, T.StringType | T.BinaryType)]
    most, reasons = Limits.max_row_bytes, list["Column"]()
    for name in texts:
        named, size = quoted_text(name).replace("%", "%%"), F.octet_length(quoted_column(name))
        why = f"{named} has a value of %d bytes, more than the limit of {most}"
        reasons.append(F.when(size > most, F.format_string(why, size)))
    return F.coalesce(F.lit(None).cast("string"), *reasons)


def _with_commits(
    session: "SparkSession", frame: "DataFrame", files: Sequence[StoredFile]
) -> "DataFrame":
    """Add what the log of a table says of each file: its values of partition columns, its commit,
    its place in it."""
    from pyspark.sql import functions as F

    types = {name: kind for name, (kind, _) in files[0].partition.items()}
    text_columns = {name: f"__p{number}" for number, name in enumerate(types)}
    rows = list[tuple[object, ...]]()
    for file in files:
        texts = dict[str, str | None]()
        for name, (_, text) in file.partition.items():
            texts[name] = text or None  # to a log an empty text is NULL
        values = [texts[name] for name in types]
        rows.append((file.sha256, *(file.commit or ()), file.rows_before, *values))
    schema = f"{CONTENT} string, {COMMIT} bigint, {COMMITTED} timestamp, {LOG_PLACE} bigint"
    schema += "".join(f", {column} string" for column in text_columns.values())
    joined = frame.join(F.broadcast(small_frame(session, rows, schema)), CONTENT)
    typed = {name: F.col(column).cast(types[name]) for name, column in text_columns.items()}
    # A file without a change feed was added by its commit.
    change = F.col(CHANGE) if CHANGE in frame.columns else F.lit("insert")
    return joined.withColumns({**typed, CHANGE: change}).drop(*text_columns.values())


def _numbered_copy(scratch: Path, file: StoredFile) -> Path:
    """Number the file's rows in a copy, written once per life of the engine's server. Raises
    StillChanging."""
    numbered, name = Folder(str(scratch / "numbered")), f"{file.sha256}.parquet"
    partial = f"{name}.{os.getpid()}"
    if numbered.exists(name):
        return numbered.local(name)
    if ROW_NUMBER in pq.read_schema(file.parquet).names:
        return file.parquet
    try:
        _write_numbered(file, numbered.prepared("") / partial)
        refuse_replaced([file])  # the copy outlives this load
        # Of 150,000 rows 56 MiB, kept for as long as we live otherwise.
        pa.default_memory_pool().release_unused()
        numbered.put(name, numbered.local(partial), is_synced=False)
    finally:
        numbered.delete(partial)
    return numbered.local(name)


def _write_numbered(file: StoredFile, target: Path) -> None:
    """Write the file's rows to `target` with their numbers, in the types that Spark would give
    them. Raises Unreadable for a value that has no place in such a type."""
    with open_in_micros(file.parquet) as source:
        julian = _is_julian(source.metadata.metadata or {})
        schema = pa.schema(
            [pa.field(f.name, _spark_type(f.type), f.nullable) for f in source.schema_arrow]
        )
        first, number = 1, pa.field(NUMBER, pa.int64())
        with pq.ParquetWriter(
            target, schema.append(number), compression="zstd", store_schema=False
        ) as writer:
            try:
                for table in row_group_tables(source, schema):
                    if julian:
                        _refuse_julian_days(table)
                    numbers = pa.array(range(first, first + table.num_rows), pa.int64())
                    writer.write_table(table.append_column(number, numbers))
                    first += table.num_rows
            except pa.ArrowInvalid as error:
                raise Unreadable(str(error).splitlines()[0]) from None


def _refuse_julian_days(table: pa.Table) -> None:
    """Raise Unreadable for a day before 1582-10-15 in rows of a Julian file."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        why = _julian_fault(column, name)
        if why:
            raise Unreadable(why)


def _is_julian(footer: Mapping[bytes, bytes]) -> bool:
    """Whether days before 1582-10-15 are Julian in a file with this metadata: of Spark 2, and of
    its `LEGACY` mode."""
    is_of_spark_2 = footer.get(b"org.apache.spark.version", b"3") < b"3"
    return is_of_spark_2 or any(key in footer for key in LEGACY_CALENDAR)


def _julian_fault(column: pa.ChunkedArray, name: str) -> str:
    """Why a column of a Julian file cannot be read by an engine that takes its days for Gregorian;
    empty if it can."""
    if pa.types.is_timestamp(column.type):
        numbers, numbers_a_day = column.cast(pa.int64()), MICROSECONDS_A_DAY
    elif pa.types.is_date(column.type):
        numbers, numbers_a_day = column.cast(pa.int32()), 1
    else:
        return ""
    first = pc.min(numbers).as_py()
    if first is None or first // numbers_a_day >= (FIRST_GREGORIAN - EPOCH).days:
        return ""
    return (
        f'{name} has Julian days before {FIRST_GREGORIAN}, which only engine = "embedded" reads '
        "as they are meant"
    )


def _spark_type(found: Any) -> Any:
    """The type as Spark would read it."""
    if found in WIDENED:
        return WIDENED[found]
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", None if found.tz is None else "UTC")
    if pa.types.is_dictionary(found):
        return _spark_type(found.value_type)
    if pa.types.is_list(found):
        return pa.list_(found.value_field.with_type(_spark_type(found.value_type)))
    if pa.types.is_struct(found):
        return pa.struct([f.with_type(_spark_type(f.type)) for f in found.fields])
    return found


def row_text(columns: "Iterable[tuple[str, Column, StructField]]") -> "Column":
    """The values as a JSON object by these names; leaves out NULLs. Decimals, fractions and times
    are texts in it."""
    from pyspark.sql import functions as F

    values = [_json_value(column, field.dataType).alias(name) for name, column, field in columns]
    return F.to_json(F.struct(*values))


def _json_value(value: "Column", kind: "DataType") -> "Column":
    """The value in a form that `to_json` writes alike in every session: fractions and times as
    texts, also within arrays, maps and structs."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.FractionalType | T.TimestampType | T.TimestampNTZType):
        return value.cast("string")
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda one: _json_value(one, kind.elementType))
    if isinstance(kind, T.MapType) and not isinstance(kind.keyType, T.StringType):
        # Keys of bytes would show as an address.
        is_bytes = isinstance(kind.keyType, T.BinaryType)
        keys = F.transform(
            F.map_keys(value), lambda key: F.base64(key) if is_bytes else key.cast("string")
        )
        return F.map_from_arrays(keys, F.map_values(value))
    if isinstance(kind, T.StructType):
        parts = (_json_value(value.getField(f.name), f.dataType).alias(f.name) for f in kind.fields)
        return F.when(value.isNotNull(), F.struct(*parts))
    return value
