"""Rows of a data file without those that a delete file takes away. Not here: snapshots
(`test_mirror`)."""

import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask, Table
from pyiceberg.typedef import Record
from pyroaring import BitMap

from backfill_assets.iceberg.mirrored_columns import mirrored_columns
from backfill_assets.iceberg.mirrored_rows import copy_name, statistics, write_rows

ROWS = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "v": ["a", "b", "c", "d"]})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog(
        "shop", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("shop")
    made = catalog.create_table("shop.orders", ROWS.schema)
    made.append(ROWS)
    return made


def deletes(folder: Path, task: FileScanTask, rows: list[int]) -> DataFile:
    """A file that deletes rows of the task's by their numbers."""
    path = folder / f"deletes-{'-'.join(map(str, rows))}.parquet"
    named = [task.file.file_path] * len(rows)
    pq.write_table(pa.table({"file_path": named, "pos": pa.array(rows, pa.int64())}), path)
    told: dict[str, Any] = {
        "content": DataFileContent.POSITION_DELETES,
        "file_path": str(path),
        "file_format": FileFormat.PARQUET,
        "partition": Record(),
        "record_count": len(rows),
        "file_size_in_bytes": path.stat().st_size,
    }
    found = DataFile.from_args(**told)
    found.spec_id = 0
    return found


def test_rows_that_a_delete_file_names_are_none_of_the_copy(table: Table, tmp_path: Path) -> None:
    columns, target = mirrored_columns(table.schema(), {}), tmp_path / "copy.parquet"
    (plain,) = table.scan().plan_files()
    some = FileScanTask(plain.file, {deletes(tmp_path, plain, [1, 2])})
    more = FileScanTask(plain.file, {deletes(tmp_path, plain, [1, 2, 3])})
    write_rows(table, some, table.schema(), columns, target)
    assert pq.read_table(target)["id"].to_pylist() == [1, 4]
    assert '"numRecords": 2' in statistics(target, columns)
    assert len({copy_name(task, table.schema(), columns) for task in (plain, some, more)}) == 3


def deletion_vector(folder: Path, task: FileScanTask, rows: list[int]) -> DataFile:
    """A file of format v3 with the vector of the deleted rows of the task's by their numbers, and
    one of another file, which has the first row deleted."""
    content, blobs = b"PFA1", []
    for path, deleted in ((task.file.file_path, rows), ("another", [0])):
        vector = b"\xd1\xd3\x39\x64" + (1).to_bytes(8, "little") + bytes(4)
        vector += BitMap(deleted).serialize()
        framed = len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [2147483645],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(framed),
                "properties": {"referenced-data-file": path, "cardinality": str(len(deleted))},
            }
        )
        content += framed
    footer = json.dumps({"blobs": blobs}).encode()
    content += b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"
    file = folder / f"vectors-{'-'.join(map(str, rows))}.puffin"
    file.write_bytes(content)
    told: dict[str, Any] = {
        "content": DataFileContent.POSITION_DELETES,
        "file_path": str(file),
        "file_format": FileFormat.PUFFIN,
        "partition": Record(),
        "record_count": len(rows),
        "file_size_in_bytes": len(content),
        "referenced_data_file": task.file.file_path,
        "content_offset": 4,
    }
    found = DataFile.from_args(**told, _table_format_version=3)
    found.spec_id = 0
    return found


def test_rows_that_a_deletion_vector_takes_away_are_none_of_the_copy(
    table: Table, tmp_path: Path
) -> None:
    columns, target = mirrored_columns(table.schema(), {}), tmp_path / "copy.parquet"
    (plain,) = table.scan().plan_files()
    task = FileScanTask(plain.file, {deletion_vector(tmp_path, plain, [1, 3])})
    write_rows(table, task, table.schema(), columns, target)
    assert pq.read_table(target)["id"].to_pylist() == [1, 3]
    names = {copy_name(t, table.schema(), columns) for t in (plain, task)}
    assert len(names) == 2
