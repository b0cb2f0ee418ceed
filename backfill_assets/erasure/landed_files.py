"""Taking the rows of forgotten entities out of the landed files and of the ledger `files`.

The other records of a file keep their bytes (text) or their values (Parquet). Not here: reading
landed files (`intake.ingest`), and the tables, which follow by an ordinary load.
"""

import gzip
import hashlib
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.erasure.traces import Trace
from backfill_assets.intake.batches import BAD_TEXT, ROW_NUMBER
from backfill_assets.intake.content_store import StoredFile, discard_content, find_content
from backfill_assets.intake.content_store import copy_sizes as copies_of
from backfill_assets.intake.counting import stored_contents
from backfill_assets.intake.deliveries import read_deliveries
from backfill_assets.intake.files import (
    LandedFile,
    LandingError,
    StillChanging,
    file_sha256,
    landed_object,
    local_file,
)
from backfill_assets.intake.forgotten import FORGOTTEN_REASON, Erasure, forgotten_condition
from backfill_assets.intake.heirs import BYTES_AFTER, BYTES_BEFORE
from backfill_assets.intake.ingest import DEFAULT_LIMITS, PARSERS
from backfill_assets.intake.landed_changes import listing_and_ledger, look_at_landing
from backfill_assets.intake.scan import follow_rewritten_files
from backfill_assets.intake.select import columns_by_name
from backfill_assets.intake.settings import LandedSource, landed_source
from backfill_assets.intake.text_lines import GZIP_MAGIC
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.port import Changed, load_lock
from backfill_assets.kernel.tables.embedded import duckdb_cursor, sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def erase_landed_rows(lake_session: Session, trace: Trace, erasure: Erasure) -> None:
    """Rewrite every landed file with rows of a forgotten entity, or with unreadable lines that hold
    the trace, and note it in the erasure, with the spellings that these rows landed with. Copies of
    contents that no landed file has any more are discarded. Safe to repeat after an interruption.

    Raises LandingError where files are altered or missing, declared by a manifest, or not this
    user's to write.
    """
    for lake in lake_session.lake.by_source():
        session_of_source = lake_session.of_source(lake.source)
        with load_lock(lake.place, lake.source):
            _follow_rewritten_files(session_of_source, erasure)
            _rewrite_files(session_of_source, trace, erasure)
            _discard_copies(session_of_source)


def _follow_rewritten_files(lake_session: Session, erasure: Erasure) -> None:
    """Let the ledger follow the files that an interrupted erasure rewrote, and raise LandingError
    where somebody else altered a file."""
    comparison = look_at_landing(lake_session).comparison
    rewritten = {(f["path"], f["before"]) for f in erasure.done["landed"]}
    if others := [r.path for r in comparison.disputed if (r.path, r.sha256) not in rewritten]:
        raise LandingError(
            f"the landed file {printable_text(others[0])}",
            "it is altered, missing or not as declared",
            "Nothing was erased",
            'Put it back, or say `backfill-assets landing accept --note "why"`, then run the same '
            "command again",
        )
    if comparison.disputed:
        follow_rewritten_files(lake_session, comparison.disputed, str(erasure.done["note"]))


def _rewrite_files(lake_session: Session, trace: Trace, erasure: Erasure) -> None:
    """Rewrite the landed files of the session's source that hold the entity, and let the ledger
    follow. Raises LandingError, before any is rewritten, for a file with declared totals."""
    listing, records = listing_and_ledger(lake_session)
    read = [r for r in records if r.refused is None]
    live = [r for r in read if not r.withdrawn]
    files, stock = stored_contents(lake_session, live), lake_session.lake.stock
    withdrawn = [r for r in read if r.withdrawn]
    found = [find_content(stock, r.sha256, r.first_scan, r.home_day) for r in withdrawn]
    copies = [copy for copy in found if copy is not None]
    rows = _rows_to_erase(lake_session, files, copies, trace, erasure)
    chosen = [r for r in live if rows[r.sha256]]
    _refuse_declared([r.path for r in chosen if r.has_declared_totals])
    listed = {f.name: f for f in listing.files}
    for record in chosen:
        gone = sorted(rows[record.sha256])
        _amend_file(lake_session, listed[record.path], record.sha256, gone, erasure)
    if chosen:
        follow_rewritten_files(lake_session, chosen, str(erasure.done["note"]))


def _rows_to_erase(
    lake_session: Session,
    files: Sequence[StoredFile],
    copies: Sequence[StoredFile],
    trace: Trace,
    erasure: Erasure,
) -> dict[str, set[int]]:
    """The numbers of the rows to erase per content: rows of the entity, and of live `files` also
    unreadable lines that hold its trace. Notes in the erasure how the rows spell the entity.

    Rows are looked for in the `copies` of withdrawn contents, too: they may spell it in another
    way, by which unreadable lines are found then.
    """
    contents = [*{f.sha256: f for f in (*copies, *files)}.values()]
    rows = _forgotten_rows(lake_session, contents)
    spelled = replace(trace, spellings=_landed_spellings(lake_session, contents, rows, trace))
    erasure.add_spellings(spelled.spellings)
    for file in files:
        if file.types:  # of a text file, which may have unreadable lines
            rows[file.sha256].update(_unreadable_rows(lake_session, file, spelled))
    return rows


def _refuse_declared(paths: Sequence[str]) -> None:
    """Raise LandingError naming the first of these landed files, whose totals a manifest
    declares."""
    if paths:
        raise LandingError(
            f"the landed file {printable_text(paths[0])}",
            "a manifest declares its totals",
            "Nothing of it was erased",
            "Take it out of the manifest, then run the same command again",
        )


def _amend_file(
    lake_session: Session, file: LandedFile, digest: str, gone: Sequence[int], erasure: Erasure
) -> None:
    """Rewrite one landed file, of this digest, without the rows of these numbers, and note it in
    the erasure."""
    source = landed_source(lake_session.lake.settings.source)
    entry = {
        "path": file.name,
        "source": lake_session.lake.source,
        "before": digest,
        "rows": len(gone),
        "gone": gone,
    }
    with rewritten_file(file, source, gone) as (before, after):
        entry |= {BYTES_BEFORE: before, BYTES_AFTER: after}
        erasure.done["landed"] = [*erasure.done["landed"], entry]
        # First: a file that was rewritten and not noted would be one that somebody altered.
        erasure.keep()


def _discard_copies(lake_session: Session) -> None:
    """Discard the copies of contents that no live record names, which nothing can need."""
    _, records = listing_and_ledger(lake_session)
    live = {r.sha256 for r in records if not r.withdrawn}
    for content in copies_of(lake_session.lake.stock).keys() - live:
        discard_content(lake_session.lake.stock, content)


def _forgotten_rows(lake_session: Session, files: Sequence[StoredFile]) -> dict[str, set[int]]:
    """Numbers of the rows to erase, per content. The engine returns numbers only, no values."""
    found = defaultdict[str, set[int]](set)
    if not files:
        return found
    lake = lake_session.lake
    judged = read_deliveries(lake_session.spark(), files, lake.settings, forgotten_condition(lake))
    gone = judged.where(judged.reason == FORGOTTEN_REASON).select("sha256", "row_number").collect()
    for row in gone:
        found[row["sha256"]].add(row["row_number"])
    return found


def _landed_spellings(
    lake_session: Session,
    files: Sequence[StoredFile],
    rows: Mapping[str, Collection[int]],
    trace: Trace,
) -> dict[str, set[str]]:
    """Per column of the entity the landed texts that `select` makes it of in these rows: of one
    landed column, because a part of a name is no name."""
    source = landed_source(lake_session.lake.settings.source)
    made_of, found = columns_by_name(source.select), defaultdict[str, set[str]](set)
    with duckdb_cursor(lake_session.lake) as engine:
        for file in files:
            numbers = [*rows.get(file.sha256, ())]
            if not numbers:
                continue
            known = _landed_columns(engine, file)
            for column, value in trace.values.items():
                read = [*dict.fromkeys(made_of.get(column.lower(), (column,)))]
                if len(read) == 1 and read[0] in known:
                    texts = _landed_texts(engine, file, read[0], numbers)
                    grouped = map(source.dialect.grouped, texts)
                    found[column] |= {*texts, *grouped} - {value}
    return dict(found)


def _landed_rows(file: StoredFile) -> str:
    """The rows of a stored content in DuckDB, with their places as `file_row_number`."""
    path = sql_literal(str(file.parquet))
    return f"read_parquet({path}, hive_partitioning = false, file_row_number = true)"


def _landed_columns(engine: "DuckDBPyConnection", file: StoredFile) -> set[str]:
    """The names of a stored content's columns."""
    described = engine.execute(f"DESCRIBE SELECT * FROM {_landed_rows(file)}").fetchall()
    return {name for name, *_ in described}


def _landed_texts(
    engine: "DuckDBPyConnection", file: StoredFile, column: str, numbers: Sequence[int]
) -> set[str]:
    """The texts, not blank, of a column in the rows of these numbers (from 1)."""
    number = ROW_NUMBER if file.types else "file_row_number + 1"
    chosen = f"SELECT DISTINCT CAST({quoted_name(column)} AS VARCHAR) FROM {_landed_rows(file)}"
    found = engine.execute(f"{chosen} WHERE {number} IN (SELECT unnest(?))", [[*numbers]])
    return {text for (text,) in found.fetchall() if text and text.strip()}


def _unreadable_rows(lake_session: Session, file: StoredFile, trace: Trace) -> list[int]:
    """Numbers of the unreadable records that hold the entity, also as a short cell."""
    near = " AND ".join(f"regexp_matches({BAD_TEXT}, ?)" for _ in trace.patterns)
    rows = f"read_parquet({sql_literal(str(file.parquet))})"
    query = f"SELECT {ROW_NUMBER}, {BAD_TEXT} FROM {rows} WHERE {near}"
    with duckdb_cursor(lake_session.lake) as engine:
        found = engine.execute(query, list(trace.patterns)).fetchall()
    in_cells = replace(trace, in_cells=True)
    return [number for number, text in found if in_cells.is_in(text.encode())]


@contextmanager
def rewritten_file(
    file: LandedFile, source: LandedSource, gone: Collection[int]
) -> Iterator[tuple[str, str]]:
    """Write the file without the records of these numbers (from 1) and yield the SHA-256 of its
    bytes before and after. At the end of the block it takes the file's place, atomically; its time
    moves on by a microsecond. The lines around the records of its dialect stay.

    Raises LandingError if this user may not write there, and for a Parquet file with INT96, which
    only Spark can write; StillChanging if the file is not as it was listed.
    """
    with local_file(file) as here:
        part = here.path.with_name(f".{here.path.name}.forget.tmp")
        try:
            if source.format == "parquet":
                _write_without_rows(here, part, gone)
            else:
                _write_without_lines(here, source, part, gone)
            part.chmod(here.path.stat().st_mode & 0o777)
            # Another time than before: whoever compares size and time sees that it changed.
            os.utime(part, ns=(file.mtime_ns, file.mtime_ns + 1000))
            with part.open("rb") as written:
                after = hashlib.file_digest(written, "sha256").hexdigest()
            yield file_sha256(here), after
            _replace_landed_file(file, part)
        except PermissionError as error:
            raise _unwritable_file_error(
                file, f"this user may not write there ({error.strerror})"
            ) from None
        finally:
            part.unlink(missing_ok=True)


def _replace_landed_file(file: LandedFile, part: Path) -> None:
    """Give a landed file the content of another one; an object only if it is still the listed
    one."""
    if file.place is None:
        part.replace(file.path)
        return
    token = file.place.token(file.name)
    if token is None or landed_object(file.place, file.name, token) != file:
        raise StillChanging(file.address)
    try:
        file.place.write(file.name, part.read_bytes(), if_unchanged=token)
    except Changed:
        raise StillChanging(file.address) from None


def _write_without_lines(
    file: LandedFile, source: LandedSource, part: Path, gone: Collection[int]
) -> None:
    """Write the lines of a text file to `part`, but those of the records of these numbers (from
    1)."""
    dialect = source.dialect
    parser = PARSERS[source.format](DEFAULT_LIMITS, dialect)
    lost, dropped = {*gone}, set[int]()
    with file.path.open("rb") as raw:
        spans = parser.spans(dialect.lines(_file_blocks(raw), file.size, DEFAULT_LIMITS))
        for number, span in enumerate(spans, 1):
            if number in lost:
                dropped.update(span)
        raw.seek(0)
        is_packed = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    with (gzip.open if is_packed else open)(file.path, "rb") as lines, part.open("wb") as kept:
        packed = gzip.GzipFile("", "wb", fileobj=kept, mtime=0) if is_packed else kept
        packed.writelines(dialect.kept_lines(cast("BinaryIO", lines), dropped))
        if packed is kept:
            packed.flush()
        else:
            packed.close()  # writes the end of the gzip stream


def _file_blocks(raw: BinaryIO) -> Iterator[bytes]:
    while block := raw.read(DEFAULT_LIMITS.block_bytes):
        yield block


def _write_without_rows(file: LandedFile, part: Path, gone: Collection[int]) -> None:
    """Write the rows of a Parquet file to `part`, but those of these numbers (from 1)."""
    lost = {*gone}
    with pq.ParquetFile(file.path) as source:
        _refuse_int96(file, source)
        # A dictionary would keep the values of the rows that go.
        fields = [f.with_type(_type_without_dictionaries(f.type)) for f in source.schema_arrow]
        plain_schema = pa.schema(fields).with_metadata(source.schema_arrow.metadata)
        first = 1  # the number of the batch's first row
        with pq.ParquetWriter(part, plain_schema, compression=_compression_codec(source)) as writer:
            for batch in source.iter_batches():
                kept = [first + i not in lost for i in range(batch.num_rows)]
                writer.write_batch(batch.filter(pa.array(kept, pa.bool_())).cast(plain_schema))
                first += batch.num_rows


def _refuse_int96(file: LandedFile, source: pq.ParquetFile) -> None:
    """Raise LandingError where a column is INT96, which only Spark can write."""
    columns = [source.schema.column(i) for i in range(len(source.schema))]
    if old := [c.path for c in columns if c.physical_type == "INT96"]:
        raise _unwritable_file_error(
            file, f"its column {old[0]} is INT96, which nothing here writes without loss"
        )


def _compression_codec(source: pq.ParquetFile) -> str:
    """How the values of a Parquet file are compressed, as a writer of one takes it."""
    if not source.metadata.num_row_groups:
        return "ZSTD"
    codec = source.metadata.row_group(0).column(0).compression
    return "NONE" if codec == "UNCOMPRESSED" else codec


def _type_without_dictionaries(kind: pa.DataType) -> pa.DataType:
    """The type of the same values without dictionaries; of structs and lists too."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_type_without_dictionaries(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_without_dictionaries(kind.value_type)))
    return kind


def _unwritable_file_error(file: LandedFile, culprit: str) -> LandingError:
    return LandingError(
        f"the landed file {printable_text(file.name)}",
        culprit,
        "Nothing of it was erased",
        "Take the entity's rows out of it yourself, `backfill-assets landing accept`, then run "
        "the same command again",
    )
