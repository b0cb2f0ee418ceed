"""Parquet copies of landed text files in the content store: each written whole or not at all.

Lives here: writing batches whose columns appear on the way, and the facts in a copy's footer. Does not live here:
parsing (`json_lines`, `csv_records`) and the descriptions beside the copies (`content_store`). Every source column is
text, behind three columns of our own. New columns open a new segment; the segments are joined at the end, so that a
file is parsed once and never held in memory.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.landing.batches import BAD_REASON, BAD_TEXT, ROW_NUMBER, Batch
from backfill_assets.landing.content_store import PARSER_VERSION
from backfill_assets.landing.parquet_files import GROUP_BYTES, GROUP_ROWS

FACTS_KEY = b"backfill_assets.intake"
OWN_FIELDS = (pa.field(ROW_NUMBER, pa.int64()), pa.field(BAD_TEXT, pa.string()), pa.field(BAD_REASON, pa.string()))
CODEC = "zstd"  # Spark brings it along; text comes out at about half of snappy's size


@dataclass(frozen=True)
class Facts:
    """The facts in the footer of a copy: see `content_store.IngestedFile` for the fields."""

    sha256: str
    rows: int
    bad_rows: int
    columns: dict[str, str]
    unreadable: str | None = None


def copy_path(store: Path, sha256: str, format: str) -> Path:
    """The path of a content's copy: the 64 digits of the content, the format and the parser version."""
    return store / f"{sha256}.{format}-{PARSER_VERSION}.parquet"


def read_facts(path: Path, sha256: str, limits: Sequence[int]) -> Facts | None:
    """Read the facts of a copy; None if it is absent, torn, or of another parser or other limits."""
    try:
        footer = pq.read_metadata(path)
        found = json.loads((footer.metadata or {})[FACTS_KEY])
        if (found["parser"], found["limits"], found["sha256"]) != (PARSER_VERSION, list(limits), sha256):
            return None
        facts = Facts(sha256, found["rows"], found["bad_rows"], dict(found["columns"]), found["unreadable"])
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError):
        return None
    return facts if footer.num_rows == facts.rows else None


def whole_file_batch(reason: str) -> Batch:
    """The one unusable row, numbered 0, of a file that cannot be read."""
    return Batch(0, 1, {}, {0: ("", reason)})


class CopyWriter:
    """Writes one copy in a folder of its own; see `writing`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: list[Path] = []
        self._writer: pq.ParquetWriter | None = None
        self._names: tuple[str, ...] = ()
        self._group: list[pa.RecordBatch] = []
        self._group_rows = self._group_bytes = 0
        self.rows = self.bad_rows = 0
        self.first_reason = ""

    def write(self, batch: Batch) -> None:
        """Append a batch; its columns begin with those of the batch before."""
        names = tuple(batch.columns)
        if self._writer is None or names != self._names:
            self.close()
            self._names = names
            self._segments.append(self._folder / f"{len(self._segments)}.parquet")
            self._writer = _writer(self._segments[-1], names)
        bad = [batch.bad.get(i) for i in range(batch.size)] if batch.bad else [None] * batch.size
        arrays = [
            pa.array(range(batch.first, batch.first + batch.size), pa.int64()),
            pa.array([b[0] if b else None for b in bad], pa.string()),
            pa.array([b[1] if b else None for b in bad], pa.string()),
            *(v if isinstance(v, pa.Array) else pa.array(v, pa.string()) for v in batch.columns.values()),
        ]
        records = pa.RecordBatch.from_arrays(arrays, schema=_schema(names))
        self._group.append(records)
        self._group_rows += batch.size
        self._group_bytes += records.nbytes
        if self._group_rows >= GROUP_ROWS or self._group_bytes >= GROUP_BYTES:
            self._flush()
        self.rows += batch.size
        self.bad_rows += len(batch.bad)
        self.first_reason = self.first_reason or next((why for _, why in batch.bad.values()), "")

    def close(self) -> None:
        """Close the open segment."""
        if self._writer is not None:
            self._flush()
            self._writer.close()
            self._writer = None

    def _flush(self) -> None:
        if self._writer is not None and self._group:
            self._writer.write_table(pa.Table.from_batches(self._group))
        self._group, self._group_rows, self._group_bytes = [], 0, 0

    def publish(self, target: Path, facts: Facts, limits: Sequence[int]) -> None:
        """Move the copy to `target`, atomically, with the facts in its footer.

        Nothing is synced: a copy that a power cut tears fails its proof and is written again. `load.scan` syncs all
        copies at once before it records them.
        """
        footer = {"parser": PARSER_VERSION, "limits": list(limits), **vars(facts)}
        whole = self._writer if len(self._segments) == 1 else None
        whole = whole or self._joined()
        whole.add_key_value_metadata({FACTS_KEY: json.dumps(footer).encode()})
        self.close()
        self._segments[-1].replace(target)

    def _joined(self) -> pq.ParquetWriter:
        """Write all segments into one with the columns of the last; it is still open."""
        self.close()
        parts = list(self._segments)
        self._segments.append(self._folder / "joined.parquet")
        self._writer = whole = _writer(self._segments[-1], self._names)
        schema = _schema(self._names)
        for part in parts:
            with pq.ParquetFile(part) as source:
                for group in range(source.num_row_groups):
                    whole.write_table(_widened(source.read_row_group(group), schema))
            part.unlink()
        return whole


@contextmanager
def writing(store: Path) -> Iterator[CopyWriter]:
    """Yield a writer; its unfinished files are removed on exit."""
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=store) as folder:
        writer = CopyWriter(Path(folder))
        try:
            yield writer
        finally:
            writer.close()


def _writer(path: Path, names: Sequence[str]) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, _schema(names), compression=CODEC, store_schema=False)


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([*OWN_FIELDS, *(pa.field(n, pa.string()) for n in names)])


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    have: Mapping[str, Any] = dict(zip(table.column_names, table.columns, strict=True))
    return pa.table([have.get(f.name, pa.nulls(table.num_rows, f.type)) for f in schema], schema=schema)
