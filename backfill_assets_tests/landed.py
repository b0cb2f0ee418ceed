"""Landed files for the tests of the intake: written, listed, taken in, and read back.
Here: the few verbs that those tests share. Not here: awkward data, which each test names itself.
Reading back goes through pyarrow, so that no JVM is needed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.intake.batches import Batch, TextParser
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.dialect import PLAIN_TEXT, Dialect
from backfill_assets.intake.files import LandedFile
from backfill_assets.intake.ingest import ingest
from backfill_assets.intake.listing import list_landing
from backfill_assets.intake.text_lines import Limits
from backfill_assets.kernel.place.folder import Folder


def land(folder: Path, name: str, content: bytes) -> LandedFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    stat = path.stat()
    return LandedFile(name, path, stat.st_size, stat.st_mtime_ns)


def stock(folder: Path) -> Folder:
    """The content store of these tests."""
    return Folder(str(folder / "stock"))


def names(pattern: str, base: Path, format: str = "csv") -> list[str]:
    return [f.name for f in list_landing(pattern, base, format).files]


def refusals(pattern: str, base: Path, format: str = "csv") -> dict[str, str]:
    return {r.name: r.reason for r in list_landing(pattern, base, format).refused}


def take_in(
    folder: Path,
    name: str,
    content: bytes,
    limits: Limits | None = None,
    dialect: Dialect = PLAIN_TEXT,
) -> StoredFile:
    format = "csv" if ".csv" in name else "parquet" if name.endswith(".parquet") else "jsonl"
    file = land(folder / "landing", name, content)
    return ingest(file, format, stock(folder), limits or Limits(), dialect=dialect)


def stock_rows(intake: StoredFile) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(intake.parquet).to_pylist()
    assert len(rows) == intake.rows
    assert sum(r["__bad_reason"] is not None for r in rows) == intake.bad_rows
    return rows


def good_rows(intake: StoredFile) -> list[dict[str, Any]]:
    """The usable rows, without the intake's own columns."""
    usable = [r for r in stock_rows(intake) if r["__bad_reason"] is None]
    return [{k: v for k, v in r.items() if not k.startswith("__")} for r in usable]


def bad_rows(intake: StoredFile) -> dict[int, str]:
    """Row number -> reason."""
    return {
        r["__row_number"]: r["__bad_reason"]
        for r in stock_rows(intake)
        if r["__bad_reason"] is not None
    }


def parse(
    parser: TextParser[Any], content: bytes, limits: Limits, dialect: Dialect = PLAIN_TEXT
) -> list[Batch]:
    return list(
        parser.batches(dialect.lines(_blocks(content, limits.block_bytes), len(content), limits))
    )


def _blocks(content: bytes, size: int) -> Iterator[bytes]:
    yield from (content[i : i + size] for i in range(0, len(content), size))


def parsed_rows(batches: list[Batch]) -> list[tuple[int, dict[str, str | None] | str]]:
    """Every record of the batches in order: its number, and its values (NULLs left out) or its
    reason."""
    rows: list[tuple[int, dict[str, str | None] | str]] = []
    for batch in batches:
        columns = {
            n: v.to_pylist() if isinstance(v, pa.Array) else v for n, v in batch.columns.items()
        }
        for i in range(batch.size):
            values: dict[str, str | None] = {
                n: v[i] for n, v in columns.items() if v[i] is not None
            }
            assert i not in batch.bad or not values
            rows.append((batch.first + i, batch.bad[i][1] if i in batch.bad else values))
    return rows


def small(limits: Limits, block_bytes: int, batch_rows: int) -> Limits:
    return replace(limits, block_bytes=block_bytes, batch_rows=batch_rows)
