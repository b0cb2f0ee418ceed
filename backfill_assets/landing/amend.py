"""Rewriting a landed file without some of its records; the others keep their bytes (text) or their values (Parquet).

Not here: which records go (`load.forget`), and reading landed files (`ingest`).
"""

import gzip
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.core.errors import LandingError
from backfill_assets.core.texts import plain
from backfill_assets.landing.files import LandedFile
from backfill_assets.landing.ingest import DEFAULT_LIMITS, PARSERS
from backfill_assets.landing.text_lines import GZIP_MAGIC, text_lines


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
