"""Parquet files staged by hand, laid out as Spark would, for tests of everything after the engine.
Here: staging plain rows without an engine, and committing them in one go. Not here: frames of
Spark."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.place.port import Swept
from backfill_assets.kernel.tables.columns import arrow_type
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import FILE_NAME, load_settings
from backfill_assets.kernel.tables.staging import NO_VALUE, Staged, begin_staging
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.replace import Write, WriteResult, replace_days

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Cells = Mapping[str, Any]
SMALLEST = (
    'start_date = 2024-02-26\n[source]\nfiles = "landing/**"\nformat = "jsonl"\nselect = "*"\n'
)


def bare_lake(root: Path) -> Lake:
    """A lake of settings only, nothing landed."""
    root.mkdir(parents=True, exist_ok=True)
    (root / FILE_NAME).write_text(SMALLEST, encoding="utf-8")
    return Lake(root, load_settings(root))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """A file as somebody left it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def arrow_schema(contract: Contract, without: str = "") -> pa.Schema:
    """The contract's columns as Arrow, all nullable as Spark writes files."""
    return pa.schema(
        [pa.field(c.name, arrow_type(c.kind)) for c in contract.columns if c.name != without]
    )


def stage_by_hand(lake: Lake, contract: Contract, rows: Sequence[Cells]) -> Staged:
    """The rows in one file per partition value; NULL has Hive's folder."""
    staged = begin_staging(lake, contract)
    column, groups = contract.partition_column, defaultdict(list)
    for row in rows:
        groups[row[column] if column else None].append(row)
    schema = arrow_schema(contract, without=column)
    files = []
    for value, mine in groups.items():
        folder = (
            staged.folder / f"{column}={NO_VALUE if value is None else value}"
            if column
            else staged.folder
        )
        folder.mkdir(exist_ok=True)
        data = pa.Table.from_pylist(
            [{k: v for k, v in r.items() if k != column} for r in mine], schema
        )
        pq.write_table(data, folder / "part-0.parquet")
        files.append(staged.file(folder / "part-0.parquet", None if value is None else str(value)))
    staged.files = tuple(files)
    return staged


def publish_by_hand(
    lake: Lake,
    contract: Contract,
    rows: Sequence[Cells],
    digest: str = "digest",
    meanwhile: Callable[[], object] = lambda: None,
    **tags: str,
) -> WriteResult:
    """The rows published for the days they name, by the product's own writer. `meanwhile`: done in
    its critical section before each try, where the days were written before. `tags`: of its
    receipt."""
    staged = stage_by_hand(lake, contract, rows)
    found = audit_files(lake, staged.paths, contract)
    entries = {
        d: DayEntry(p.rows, p.fingerprint, digest) for d, p in found.items() if d is not None
    }
    write = Write(contract, staged, entries, -1, Provenance("test", tags=tags))

    def digests_now(days: Iterable[date]) -> dict[date, str]:
        meanwhile()
        return dict.fromkeys(days, digest)

    try:
        return replace_days(lake, write, digests_now)
    except Swept:
        staged.drop()  # as all writers do
        raise


def read_staged(session: "SparkSession", contract: Contract, staged: Staged) -> "DataFrame":
    """The staged rows as a frame of the contract's columns, read by Spark."""
    types = {
        c.name: "STRING" if c.name == contract.partition_column else c.type
        for c in contract.columns
    }
    schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
    found = (
        session.read.schema(schema)
        .option("basePath", str(staged.folder))
        .parquet(str(staged.folder))
    )
    return found.selectExpr(
        *(f"CAST(`{c.name}` AS {c.type}) AS `{c.name}`" for c in contract.columns)
    )
