"""The stock: parquet copies of landed text files, named by content, each written once and whole or not at all.

Lives here: writing batches whose columns appear on the way, the facts kept in the copy's footer, and finding a copy
again. Does not live here: parsing (`intake_json`, `intake_csv`) and reading the rows (Spark, `load.deliveries`). Every
source column is text; three own columns come first. A batch with new columns opens a new segment, and the segments are
joined at the end, so that a file is parsed once and never held in memory.
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

from backfill_assets.landing.intake_rows import BAD_REASON, BAD_TEXT, ROW_NUMBER, Batch
from backfill_assets.landing.intake_sizes import GROUP_BYTES, GROUP_ROWS
from backfill_assets.landing.stock import PARSER_VERSION

FACTS_KEY = b"backfill_assets.intake"
OWN_FIELDS = (pa.field(ROW_NUMBER, pa.int64()), pa.field(BAD_TEXT, pa.string()), pa.field(BAD_REASON, pa.string()))
CODEC = "zstd"  # Spark brings it along; text comes out at about half of snappy's size


@dataclass(frozen=True)
class Facts:
    """What the footer of a copy says about the landed file: see `intake.Intake` for the fields."""

    sha256: str
    rows: int
    bad_rows: int
    columns: dict[str, str]
    unreadable: str | None = None


def stock_path(stock_dir: Path, sha256: str, format: str) -> Path:
    """Where the copy of a content lies. Starts with the 64 digits of the content, names format and parser version."""
    return stock_dir / f"{sha256}.{format}-{PARSER_VERSION}.parquet"


def read_facts(path: Path, sha256: str, limits: Sequence[int]) -> Facts | None:
    """What an existing copy says; None where there is none, or it is torn, of another parser or of other limits."""
    try:
        footer = pq.read_metadata(path)
        said = json.loads((footer.metadata or {})[FACTS_KEY])
        if (said["parser"], said["limits"], said["sha256"]) != (PARSER_VERSION, list(limits), sha256):
            return None
        facts = Facts(sha256, said["rows"], said["bad_rows"], dict(said["columns"]), said["unreadable"])
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError):
        return None
    return facts if footer.num_rows == facts.rows else None


def whole_file_batch(reason: str) -> Batch:
    """The one unusable row, numbered 0, that stands for a file which cannot be read."""
    return Batch(0, 1, {}, {0: ("", reason)})


class StockWriter:
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
        """Append the records of a batch, whose columns are those of the batch before and perhaps more."""
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
        """Let go of the segment that is being written."""
        if self._writer is not None:
            self._flush()
            self._writer.close()
            self._writer = None

    def _flush(self) -> None:
        if self._writer is not None and self._group:
            self._writer.write_table(pa.Table.from_batches(self._group))
        self._group, self._group_rows, self._group_bytes = [], 0, 0

    def publish(self, target: Path, facts: Facts, limits: Sequence[int]) -> None:
        """Put the copy in its place, atomically, with the facts in its footer.

        Nothing is synced: of what a power cut tears no bytes are proven, and it is made again from the landing. Whoever
        records a content has it brought to the disk, of all files at once (`load.scan`).
        """
        said = {"parser": PARSER_VERSION, "limits": list(limits), **vars(facts)}
        whole = self._writer if len(self._segments) == 1 else None
        whole = whole or self._joined()
        whole.add_key_value_metadata({FACTS_KEY: json.dumps(said).encode()})
        self.close()
        self._segments[-1].replace(target)

    def _joined(self) -> pq.ParquetWriter:
        """All segments written into one that has the columns of the last, and is still open."""
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
def writing(stock_dir: Path) -> Iterator[StockWriter]:
    """A writer whose unfinished files vanish, whatever happens."""
    stock_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=stock_dir) as folder:
        writer = StockWriter(Path(folder))
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
