"""A landed file read once from end to end into the content store: text parsed into a Parquet copy,
Parquet copied.

Not here: the parsers (`json_lines`, `csv_records`, `parquet_files`), listing (`listing`), the
ledger of files (`intake.scan`). Spark's text readers lose rows silently (a second object on a line,
a row cut by a stray quote). The meaning of a file depends on its content and format alone, and a
file that breaks off midway gives no rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.intake.batches import BAD_REASON, BAD_TEXT, ROW_NUMBER, Batch, TextParser
from backfill_assets.intake.content_store import (
    StoredFile,
    content_name_by_path,
    copy_name,
    discard_described,
    find_content,
    ingest_rules,
    microsecond_copy_name,
    note_decoded,
    put_content,
    scratch_folder,
)
from backfill_assets.intake.csv_records import CsvRecords
from backfill_assets.intake.dialect import PLAIN_TEXT, Dialect
from backfill_assets.intake.files import (
    LandedFile,
    StillChanging,
    copy_with_hash,
    file_sha256,
    local_file,
    opened_file,
)
from backfill_assets.intake.json_lines import JsonLines
from backfill_assets.intake.limited_decoding import examine_apart
from backfill_assets.intake.parquet_files import (
    GROUP_BYTES,
    GROUP_ROWS,
    has_finer_times,
    parquet_in_microseconds,
)
from backfill_assets.intake.text_lines import HashedReader, Limits, Unreadable
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import Place

DEFAULT_LIMITS = Limits()
PARSERS: dict[str, Callable[[Limits, Dialect], TextParser[Any]]] = {
    "csv": CsvRecords,
    "jsonl": JsonLines,
}
OWN_FIELDS = (
    pa.field(ROW_NUMBER, pa.int64()),
    pa.field(BAD_TEXT, pa.string()),
    pa.field(BAD_REASON, pa.string()),
)
CODEC = "zstd"  # Spark brings it along; text comes out at about half of snappy's size


def ingest(
    file: LandedFile,
    format: str,
    store: Place,
    limits: Limits = DEFAULT_LIMITS,
    by_path: bool = False,
    dialect: Dialect = PLAIN_TEXT,
) -> StoredFile:
    """Put the content of a landed file (`format`: parquet, csv, jsonl; text as `dialect` says) into
    `store`.

    `by_path`: name the content by its path, too, so that the same bytes elsewhere are another
    content. A text with a proven copy of this dialect in the store is hashed and not parsed again.
    Raises StillChanging if the file changes meanwhile, LandingError without the right to read it;
    never for the file's content.
    """
    rules = ingest_rules(format, limits.deciding(), dialect.declared)
    with local_file(file, store) as here:
        if format == "parquet":
            return _copied_parquet(here, StoredFile("", store, ""), limits, by_path)
        sha256 = file_sha256(here)
        name = content_name_by_path(sha256, here.name) if by_path else sha256
        new = StoredFile(name, store, copy_name(name, format))
        known = find_content(store, name, rules={**rules, "parquet": new.name})
        if known is not None:
            return known
        discard_described(store, name)
        return _parsed_content(here, sha256, new, limits, dialect, rules)


def link_data_file(data: Path, size: int, new: StoredFile, is_fetched: bool = False) -> StoredFile:
    """Put a data file of a table, once it was examined, into the store of `new`, and give the
    content that is there then.

    One that cannot be read becomes a content with one unusable row, one with finer times than
    microseconds a converted copy. Else it is the file itself where that was fetched
    (`is_fetched`), and a link to it where it was not.
    """
    rules = table_rules()
    discard_described(new.store, new.sha256)
    try:
        new = _examined_content(data, size, new, DEFAULT_LIMITS)
    except Unreadable as error:
        return _refused_content(new, str(error), rules)
    with scratch_folder(new.store) as folder:
        readable, inexact = parquet_in_microseconds(data, folder / "us.parquet")
        if readable != data:
            new = replace(new, name=microsecond_copy_name(new.sha256), inexact=inexact)
            return put_content(new, rules, readable)
    if is_fetched:
        return put_content(replace(new, inexact=inexact), rules, data)
    new.store.point(new.name, data.absolute())
    return put_content(replace(new, inexact=inexact), rules)


def ingest_in_place(file: LandedFile, like: StoredFile, by_path: bool) -> StoredFile:
    """Put the content of a landed Parquet file into the store of `like`, as `ingest` does, as a
    link to it: its bytes are read once for their SHA-256, and its footer is judged; every row as
    well unless `like` `is_undecoded`, since then the engine that reads them finds out. An object, a
    file for a lake in a store, and a file whose timestamps must be converted are copied, perhaps to
    this machine alone (`is_local`).
    """
    rules, store = _parquet_rules(DEFAULT_LIMITS), like.store
    if file.place is not None or store.is_store:
        with local_file(file, store) as here:
            return _copied_parquet(here, like, DEFAULT_LIMITS, by_path)
    token = Folder(str(file.path.parent)).token(file.path.name)  # before the bytes are read
    sha256 = file_sha256(file)
    name = content_name_by_path(sha256, file.name) if by_path else sha256
    try:
        discard_described(store, name)
        try:
            rows = examine_apart(
                file.path, file.size, DEFAULT_LIMITS, is_decoded=not like.is_undecoded
            )
        except Unreadable as error:
            return _refused_content(
                StoredFile(name, store, copy_name(name, "parquet")), str(error), rules
            )
        if token is None or has_finer_times(file.path):
            return _copied_parquet(file, StoredFile("", store, ""), DEFAULT_LIMITS, by_path)
        new = replace(
            like, sha256=name, name=f"{name}.parquet", rows=rows, content=sha256, mark=token.mark
        )
        store.delete(new.name)  # what a killed scan left may point elsewhere
        store.point(new.name, file.path.absolute())
        return put_content(new, rules)
    except FileNotFoundError:
        raise StillChanging(file.address) from None


def decoded_content(stored: StoredFile, format: str) -> StoredFile:
    """Decode the pages of a content of this format in a process of its own, which may end over
    them: the content is refused then, else noted as decoded. For a content that was taken in
    undecoded, because an engine judges pages by itself, and now meets an engine that does not."""
    token = stored.store.token(stored.name)
    if token is None:
        raise StillChanging(str(stored.parquet), frozenset([stored.sha256]))
    try:
        examine_apart(stored.parquet, token.size, DEFAULT_LIMITS)
    except Unreadable as error:
        rules = ingest_rules(format, DEFAULT_LIMITS.deciding(), {})
        new = replace(stored, name=copy_name(stored.sha256, format))
        return replace(
            _refused_content(new, str(error), rules),
            first_scan=stored.first_scan,
            home_day=stored.home_day,
        )
    return note_decoded(stored)


def table_rules() -> dict[str, Any]:
    """The rules by which contents of tables are taken in."""
    return ingest_rules("delta", DEFAULT_LIMITS.deciding(), {})


def _parsed_content(
    file: LandedFile,
    sha256: str,
    new: StoredFile,
    limits: Limits,
    dialect: Dialect,
    rules: Mapping[str, Any],
) -> StoredFile:
    """Parse a text file into the store, as `new`, with its rows and columns."""
    parser, unreadable = PARSERS[rules["format"]](limits, dialect), None
    with copy_writer(new.store) as writer:
        with opened_file(file) as descriptor:
            reader = HashedReader(descriptor, limits.block_bytes, file.size)
            try:
                for batch in parser.batches(dialect.lines(reader.blocks(), file.size, limits)):
                    writer.write(batch)
                    why = limits.flood(writer.bad_rows, file.size)
                    if why:
                        raise Unreadable(f"{why}; the first: {writer.first_reason}")
            except Unreadable as error:
                unreadable = str(error)
            if reader.sha256() != sha256:
                raise StillChanging(file.address)
        if unreadable is not None:
            return _refused_content(new, unreadable, rules)
        described = replace(new, types=parser.columns, rows=writer.rows, bad_rows=writer.bad_rows)
        return put_content(described, rules, writer.finished())


def _refused_content(new: StoredFile, reason: str, rules: Mapping[str, Any]) -> StoredFile:
    """Put the one unusable row, numbered 0, of a file that cannot be read as a whole."""
    refused = StoredFile(new.sha256, new.store, new.name, rows=1, bad_rows=1, refused=reason)
    with copy_writer(new.store) as writer:
        writer.write(Batch(first=0, size=1, columns={}, bad={0: ("", reason)}))
        return put_content(refused, rules, writer.finished())


def _parquet_rules(limits: Limits) -> dict[str, Any]:
    """The rules by which Parquet files are taken in."""
    return ingest_rules("parquet", limits.deciding(), {})


def _copied_parquet(
    file: LandedFile, like: StoredFile, limits: Limits, by_path: bool
) -> StoredFile:
    """Copy the file, unless it was fetched, then examine the copy, to which no other process
    writes: its footer alone where `like` `is_undecoded`, unless this process must convert it."""
    store, rules = like.store, _parquet_rules(limits)
    with scratch_folder(store) as folder:
        copy = folder / "copy.parquet" if file.place is None else file.path
        sha256 = copy_with_hash(file, copy) if file.place is None else file_sha256(file)
        name = content_name_by_path(sha256, file.name) if by_path else sha256
        discard_described(store, name)
        try:
            new = _examined_content(copy, file.size, like, limits)
        except Unreadable as error:
            return _refused_content(
                StoredFile(name, store, copy_name(name, "parquet")), str(error), rules
            )
        readable, inexact = parquet_in_microseconds(copy, folder / "us.parquet")
        named = f"{name}.parquet" if readable == copy else microsecond_copy_name(name)
        return put_content(
            replace(new, sha256=name, name=named, inexact=inexact, content=sha256), rules, readable
        )


def _examined_content(data: Path, size: int, like: StoredFile, limits: Limits) -> StoredFile:
    """`like` with the number of rows of a Parquet file, whose pages are decoded in advance unless
    `like` `is_undecoded` and this process will not convert them. Raises Unreadable."""
    rows = examine_apart(data, size, limits, is_decoded=not like.is_undecoded)
    if like.is_undecoded and has_finer_times(data):
        like, rows = replace(like, is_undecoded=False), examine_apart(data, size, limits)
    return replace(like, rows=rows)


class CopyWriter:
    """Writes the copy of a text file in a folder of its own, which `copy_writer` deletes.

    A file may show a further column at any row. The copy is a Parquet file, whose columns are
    fixed, so new columns open a new file, a segment; `finished` joins them. So a file is parsed
    once and never held in memory. Every source column is text, behind three columns of our own.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: exists, and has nothing in it."""
        self._folder = folder
        self._segments: list[Path] = []  # in the order of rows; the last one may be open
        self._writer: pq.ParquetWriter | None = None  # of the open segment
        self._names: tuple[str, ...] = ()  # the source columns of the newest segment, in order
        # Records of the open segment that are not written yet: one row group of Parquet.
        self._group: list[pa.RecordBatch] = []
        self._group_rows = self._group_bytes = 0
        self.rows = self.bad_rows = 0  # of the whole copy
        self.first_reason = ""  # why the first bad row is none; "" without one

    def write(self, batch: Batch) -> None:
        """Append a batch; its columns begin with those of the batch before."""
        names = tuple(batch.columns)
        if self._writer is None or names != self._names:
            self._open_segment(names)
        texts: list[str | None] = [None] * batch.size
        reasons: list[str | None] = [None] * batch.size
        for position, (text, reason) in batch.bad.items():
            texts[position], reasons[position] = text, reason
        arrays = [
            pa.array(range(batch.first, batch.first + batch.size), pa.int64()),
            pa.array(texts, pa.string()),
            pa.array(reasons, pa.string()),
        ]
        for values in batch.columns.values():
            is_array = isinstance(values, pa.Array)
            arrays.append(values if is_array else pa.array(values, pa.string()))
        records = pa.RecordBatch.from_arrays(arrays, schema=_copy_schema(names))
        self._group.append(records)
        self._group_rows += batch.size
        self._group_bytes += records.nbytes
        if self._group_rows >= GROUP_ROWS or self._group_bytes >= GROUP_BYTES:
            self._flush_group()
        self.rows += batch.size
        self.bad_rows += len(batch.bad)
        self.first_reason = self.first_reason or next((why for _, why in batch.bad.values()), "")

    def close(self) -> None:
        """Close the open segment."""
        if self._writer is not None:
            self._flush_group()
            self._writer.close()
            self._writer = None

    def finished(self) -> Path:
        """The whole copy, which is deleted with the folder unless it is moved elsewhere."""
        self.close()
        if len(self._segments) != 1:
            self._join_segments()
        return self._segments[-1]

    def _join_segments(self) -> None:
        """Write all segments into a last one that has every column; without segments an empty
        one."""
        parts = list(self._segments)
        writer, schema = self._open_segment(self._names), _copy_schema(self._names)
        for part in parts:
            with pq.ParquetFile(part) as source:
                for group in range(source.num_row_groups):
                    tables = [schema.empty_table(), source.read_row_group(group)]
                    writer.write_table(pa.concat_tables(tables, promote_options="default"))
        self.close()

    def _open_segment(self, names: Sequence[str]) -> pq.ParquetWriter:
        """Close the open segment, and begin one with these columns."""
        self.close()
        self._names = tuple(names)
        self._segments.append(self._folder / f"{len(self._segments)}.parquet")
        schema = _copy_schema(names)
        self._writer = pq.ParquetWriter(
            self._segments[-1], schema, compression=CODEC, store_schema=False
        )
        return self._writer

    def _flush_group(self) -> None:
        """Write the batches that wait as one row group."""
        if self._writer is not None and self._group:
            self._writer.write_table(pa.Table.from_batches(self._group))
        self._group, self._group_rows, self._group_bytes = [], 0, 0


@contextmanager
def copy_writer(store: Place) -> Iterator[CopyWriter]:
    """Yield a writer; its files are removed on exit."""
    with scratch_folder(store) as folder:
        writer = CopyWriter(folder)
        try:
            yield writer
        finally:
            writer.close()


def _copy_schema(names: Sequence[str]) -> pa.Schema:
    """The schema of a copy: three columns of our own, then these, as texts."""
    return pa.schema([*OWN_FIELDS, *(pa.field(n, pa.string()) for n in names)])
