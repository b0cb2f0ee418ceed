"""The stock: one parquet per landed content, named by its sha256, which is all that Spark ever reads of the landing.

Lives here: putting a content into the stock (a hard link for parquet, the strictly parsed copy for text) and finding it
again. Does not live here: parsing (`intake`) and what has landed (`ledger`). The stock can be deleted at any time; it
is made again from the landing. Reading by sha256 makes content independent of paths and their spelling.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any

from backfill_assets.core.digests import digest_of
from backfill_assets.lake.deliveries import StockFile
from backfill_assets.lake.intake import Intake

ABSENT_IS_NULL = {"jsonl"}  # a JSON object may leave out what it does not know


def put(stock: Path, intake: Intake, format: str) -> None:
    """Put a taken content into the stock: its parquet, and beside it what Spark must know to read it."""
    stock.mkdir(parents=True, exist_ok=True)
    parquet = intake.parquet
    if parquet.parent != stock:
        parquet = stock / f"{intake.sha256}.parquet"
        _link_or_convert(intake.parquet, parquet)
    body = {
        "parquet": parquet.name,
        "types": dict(intake.columns),
        "schema": _schema_digest(parquet),
        "absent_is_null": format in ABSENT_IS_NULL,
    }
    _write(stock / f"{intake.sha256}.json", json.dumps(body, sort_keys=True))


def find(stock: Path, sha256: str, first_scan: datetime, home_day: date | None = None) -> StockFile | None:
    """The content in the stock, or None where the stock was deleted."""
    try:
        body: dict[str, Any] = json.loads((stock / f"{sha256}.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    parquet = stock / body["parquet"]
    if not parquet.exists():
        return None
    return StockFile(sha256, parquet, body["types"], body["schema"], first_scan, home_day, body["absent_is_null"])


def _schema_digest(parquet: Path) -> str:
    import pyarrow.parquet as pq

    schema = pq.read_schema(parquet).remove_metadata()
    return digest_of(sorted([f.name, str(f.type)] for f in schema))


def _link_or_convert(landed: Path, target: Path) -> None:
    """A hard link, else (other file system) a symbolic one; a converted copy where Spark could not read the types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(landed)
    nanos = [f.name for f in schema if pa.types.is_timestamp(f.type) and f.type.unit == "ns"]
    target.unlink(missing_ok=True)
    if nanos:
        _convert(landed, target, schema)
        return
    try:
        os.link(landed, target, follow_symlinks=False)
    except OSError:
        target.symlink_to(landed)


def _convert(landed: Path, target: Path, schema: Any) -> None:
    """Rows in the same order with timestamps in microseconds: Spark has no nanoseconds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [
        pa.field(f.name, pa.timestamp("us", f.type.tz)) if pa.types.is_timestamp(f.type) and f.type.unit == "ns" else f
        for f in schema
    ]
    wanted = pa.schema(fields)

    def batches() -> Iterator[Any]:
        """The file in pieces that fit into memory, with the wanted types."""
        for batch in pq.ParquetFile(landed).iter_batches():
            yield pa.Table.from_batches([batch]).cast(wanted, safe=False)

    partial = target.with_suffix(f".{os.getpid()}.partial")
    with pq.ParquetWriter(partial, wanted) as writer:
        for table in batches():
            writer.write_table(table)
    partial.replace(target)


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
