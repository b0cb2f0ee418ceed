"""Taking the rows of forgotten entities out of the landed files and of the ledger `files`.

The other records of a file keep their bytes (text) or their values (Parquet). Not here: reading landed files
(`landing.ingest`), and the tables, which follow by an ordinary load.
"""

import gzip
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.core.errors import LandingError
from backfill_assets.core.texts import plain
from backfill_assets.lake.embedded import connection, literal
from backfill_assets.lake.files import load_lock
from backfill_assets.lake.forgotten import REASON, Erasure, is_forgotten
from backfill_assets.lake.ledger import FileRecord
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.traces import Trace
from backfill_assets.landing.batches import BAD_TEXT, ROW_NUMBER
from backfill_assets.landing.content_store import StoredFile, discard
from backfill_assets.landing.files import LandedFile
from backfill_assets.landing.ingest import DEFAULT_LIMITS, PARSERS
from backfill_assets.landing.text_lines import GZIP_MAGIC, text_lines
from backfill_assets.load.counting import stocked
from backfill_assets.load.deliveries import read_deliveries
from backfill_assets.load.landed_changes import compared
from backfill_assets.load.scan import follow


def forget_landed(lake_session: LakeSession, trace: Trace, erasure: Erasure) -> None:
    """Rewrite every landed file with rows of a forgotten entity, or with unreadable lines that hold the trace, and note
    it in the erasure. Safe to repeat after an interruption.

    Raises LandingError where files are altered or missing, declared by a manifest, or not this user's to write.
    """
    for lake in lake_session.lake.by_source():
        on = lake_session.of_source(lake.source)
        with load_lock(lake.locks, lake.source):
            _finish(on, erasure)
            _amend(on, trace, erasure)
            _note_heirs(on, erasure)


def _finish(lake_session: LakeSession, erasure: Erasure) -> None:
    """Follow the files that were rewritten before the ledger knew of it; refuse those that others altered."""
    comparison, _, _ = compared(lake_session)
    rewritten = {(f["path"], f["before"]) for f in erasure.done["landed"]}
    if others := [r.path for r in comparison.disputed if (r.path, r.sha256) not in rewritten]:
        raise LandingError(
            f"the landed file {plain(others[0])}", "it is altered, missing or not as declared", "Nothing was erased",
            'Put it back, or say `backfill-assets landing accept --note "why"`, then run the same command again',
        )  # fmt: skip
    if comparison.disputed:
        follow(lake_session, comparison.disputed, str(erasure.done["note"]))


def _amend(lake_session: LakeSession, trace: Trace, erasure: Erasure) -> None:
    _, listing, records = compared(lake_session)
    listed, live = {f.name: f for f in listing.files}, [r for r in records if not r.withdrawn and r.refused is None]
    forgotten_rows = _rows(lake_session, live, trace)
    chosen = [r for r in live if r.sha256 in forgotten_rows]
    if declared := [r.path for r in chosen if " " in r.counted_by]:
        raise LandingError(
            f"the landed file {plain(declared[0])}", "a manifest declares its totals", "Nothing of it was erased",
            "Take it out of the manifest, then run the same command again",
        )  # fmt: skip
    for record in chosen:
        rows, source = len(forgotten_rows[record.sha256]), lake_session.lake.source
        entry = {"path": record.path, "source": source, "before": record.sha256, "rows": rows}
        erasure.done["landed"] = [*erasure.done["landed"], entry]
        erasure.keep()  # first: a file that was rewritten and not noted would be one that somebody altered
        amend(listed[record.path], lake_session.lake.settings.source.format, forgotten_rows[record.sha256])
    if chosen:
        follow(lake_session, chosen, str(erasure.done["note"]))


def _note_heirs(lake_session: LakeSession, erasure: Erasure) -> None:
    """Note the content that each rewritten file holds now, for releases of its late rows; discard its old copy."""
    live = {r.path: r.sha256 for r in compared(lake_session)[2] if not r.withdrawn}
    for entry in erasure.done["landed"]:
        if entry.get("source") == lake_session.lake.source and "after" not in entry and entry["path"] in live:
            entry["after"] = live[entry["path"]]
            discard(lake_session.lake.stock, entry["before"])
    erasure.keep()


def _rows(lake_session: LakeSession, records: Sequence[FileRecord], trace: Trace) -> dict[str, set[int]]:
    """Numbers of the rows to erase, per content. The engine returns numbers only, no values."""
    files, found = stocked(lake_session, records), defaultdict[str, set[int]](set)
    if not files:
        return {}
    is_gone = is_forgotten(lake_session.lake)
    judged = read_deliveries(lake_session.spark(), files, lake_session.lake.settings, is_gone)
    for row in judged.where(judged.reason == REASON).select("sha256", "row_number").collect():
        found[row["sha256"]].add(row["row_number"])
    for file in (f for f in files if f.types):
        found[file.sha256].update(_unreadable(lake_session, file, trace))
    return {sha256: numbers for sha256, numbers in found.items() if numbers}


def _unreadable(lake_session: LakeSession, file: StoredFile, trace: Trace) -> list[int]:
    held = " AND ".join(f"regexp_matches({BAD_TEXT}, ?)" for _ in trace.patterns)
    query = f"SELECT {ROW_NUMBER} FROM read_parquet({literal(str(file.parquet))}) WHERE {held}"
    with connection(lake_session.lake) as engine:
        return [number for (number,) in engine.execute(query, list(trace.patterns)).fetchall()]


def amend(file: LandedFile, format: str, gone: Collection[int]) -> None:
    """Rewrite the file without the records of these numbers (from 1), atomically. Its time moves on by a microsecond.

    Raises LandingError if this user may not write there, and for a Parquet file with INT96, which only Spark can write.
    """
    part = file.path.with_name(f".{file.path.name}.forget.tmp")
    try:
        if format == "parquet":
            _without_rows(file, part, gone)
        else:
            _without_lines(file, format, part, gone)
        part.chmod(file.path.stat().st_mode & 0o777)
        os.utime(part, ns=(file.mtime_ns, file.mtime_ns + 1000))
        part.replace(file.path)
    except PermissionError as error:
        raise _refused(file, f"this user may not write there ({error.strerror})") from None
    finally:
        part.unlink(missing_ok=True)


def _without_lines(file: LandedFile, format: str, part: Path, gone: Collection[int]) -> None:
    with file.path.open("rb") as raw:
        spans = PARSERS[format](DEFAULT_LIMITS).spans(text_lines(_blocks(raw), file.size, DEFAULT_LIMITS))
        dropped = {line for number, span in enumerate(spans, 1) if number in gone for line in span}
        raw.seek(0)
        is_packed = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    with (gzip.open if is_packed else open)(file.path, "rb") as lines, part.open("wb") as kept:
        packed = gzip.GzipFile("", "wb", fileobj=kept, mtime=0) if is_packed else kept
        packed.writelines(line for number, line in enumerate(lines) if number not in dropped)
        packed.flush() if packed is kept else packed.close()


def _blocks(raw: BinaryIO) -> Iterator[bytes]:
    while block := raw.read(DEFAULT_LIMITS.block_bytes):
        yield block


def _without_rows(file: LandedFile, part: Path, gone: Collection[int]) -> None:
    with pq.ParquetFile(file.path) as source:
        columns = [source.schema.column(i) for i in range(len(source.schema))]
        if old := [c.path for c in columns if c.physical_type == "INT96"]:
            raise _refused(file, f"its column {old[0]} is INT96, which nothing here writes without loss")
        codec = source.metadata.row_group(0).column(0).compression if source.metadata.num_row_groups else "ZSTD"
        number = 1
        with pq.ParquetWriter(part, source.schema_arrow, compression=codec) as writer:
            for batch in source.iter_batches():
                kept = [number + i not in gone for i in range(batch.num_rows)]
                writer.write_batch(batch.filter(pa.array(kept, pa.bool_())))
                number += batch.num_rows


def _refused(file: LandedFile, culprit: str) -> LandingError:
    return LandingError(
        f"the landed file {plain(file.name)}", culprit, "Nothing of it was erased",
        "Take the entity's rows out of it yourself, `backfill-assets landing accept`, then run the same command again",
    )  # fmt: skip
