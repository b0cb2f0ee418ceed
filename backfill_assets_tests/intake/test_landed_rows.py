"""Rows that know their content and their number: of text and Parquet files, on an engine without
`_metadata`. Not here: Spark's own way, which every test of a load takes."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets import LakeSettings
from backfill_assets.intake import landed_rows as numbered
from backfill_assets.intake.content_store import StoredFile, find_content
from backfill_assets.intake.deliveries import read_deliveries
from backfill_assets.intake.ingest import ingest
from backfill_assets.kernel.place.folder import Folder
from backfill_assets_tests.landed import land, stock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCANNED = datetime(2024, 3, 1, tzinfo=UTC)


def stock_file(folder: Path, table: pa.Table) -> StoredFile:
    path = folder / "a.parquet"
    pq.write_table(table, path, row_group_size=2)
    return StoredFile("a" * 64, Folder(str(folder)), path.name, {}, "", SCANNED)


def test_rows_are_numbered_from_one_across_row_groups_in_the_order_of_the_file(
    tmp_path: Path,
) -> None:
    file = stock_file(tmp_path, pa.table({"x": ["a", "b", "c", "d", "e"]}))
    copy = pq.read_table(numbered._numbered_copy(tmp_path, file))
    assert copy.to_pydict() == {"x": ["a", "b", "c", "d", "e"], "__number": [1, 2, 3, 4, 5]}
    assert (
        numbered._numbered_copy(tmp_path, file).stat().st_mtime_ns
        == numbered._numbered_copy(tmp_path, file).stat().st_mtime_ns
    )


def test_types_come_as_spark_reads_them_in_lists_and_structs_too(tmp_path: Path) -> None:
    moments = pa.array([1], pa.timestamp("ms"))
    columns = {
        "u32": pa.array([1 << 31], pa.uint32()),
        "u64": pa.array([(1 << 64) - 1], pa.uint64()),
        "ms": pa.array([0], pa.timestamp("ms", "Europe/Berlin")),
        "local": pa.array([0], pa.timestamp("us")),
        "day": pa.array([date(1969, 12, 31)]),
        "word": pa.array(["ä"]).dictionary_encode(),
        "many": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), moments),
        "named": pa.StructArray.from_arrays([moments, pa.array([7], pa.uint8())], ["at", "n"]),
    }
    copy = pq.read_table(numbered._numbered_copy(tmp_path, stock_file(tmp_path, pa.table(columns))))
    assert {f.name: str(f.type) for f in copy.schema} == {
        "u32": "int64",
        "u64": "decimal128(20, 0)",
        "ms": "timestamp[us, tz=UTC]",
        "local": "timestamp[us]",
        "day": "date32[day]",
        "word": "string",
        "__number": "int64",
        "many": "list<element: timestamp[us]>",
        "named": "struct<at: timestamp[us], n: int16>",
    }
    assert copy.to_pydict()["named"] == [{"at": datetime(1970, 1, 1, 0, 0, 0, 1000), "n": 7}]  # noqa: DTZ001


ROW = {"id": "k", "at": "2024-03-01T09:00:00Z", "who": "ada", "n": 1}
AWKWARD: dict[str, dict[str, Any]] = {
    "another order": dict(reversed(ROW.items())),
    "another spelling": {**ROW, "Extra_3": 1},
    "another type": {**ROW, "extra_3": True},
    "another type of what is selected": {**ROW, "n": "x"},
    "what is selected is lacking": {"id": "k", "at": ROW["at"], "n": 2},
    "nested": {**ROW, "extra_n": {"a": [1]}},
}
SELECT = "id AS event_key, CAST(at AS timestamp) AS event_ts, who, n"


def many_kinds(folder: Path, format: str) -> list[StoredFile]:
    """Twenty files, each with a column of its own, and the awkward ones; `n` is unusable in
    some."""
    extra = {
        f"{i}": {**ROW, "id": f"k{i}", "n": i if i % 7 else "x", f"extra_{i}": "y"}
        for i in range(20)
    }
    found = []
    for name, row in (extra | AWKWARD).items():
        content = json.dumps(row).encode()
        if format == "parquet":
            pq.write_table(
                pa.Table.from_pylist([row, {**row, "who": None}]), sink := pa.BufferOutputStream()
            )
            content = sink.getvalue().to_pybytes()
        elif format == "csv":
            content = "\n".join(
                ",".join(f'"{c}"' for c in line) for line in (row, row.values())
            ).encode()
        landed = land(folder / "landing", f"dt=2024-03-02/{name}.{format}", content)
        stored = find_content(
            stock(folder), ingest(landed, format, stock(folder), by_path=True).sha256, SCANNED
        )
        assert stored is not None
        found.append(replace(stored, path=landed.name))
    return found


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_files_of_many_kinds_give_the_rows_of_each_alone(
    spark: "SparkSession", tmp_path: Path, format: str
) -> None:
    source = {
        "files": "x",
        "format": format,
        "select": SELECT,
        "payload": {"who": "STRING", "n": "BIGINT"},
    }
    settings = LakeSettings.model_validate(
        {"start_date": date(2024, 3, 1), "source": source, "features": {"entity": ["who"]}}
    )
    files = many_kinds(tmp_path, format)
    kinds = [[f] for f in sorted(files, key=lambda f: f.kind)]
    assert len(numbered.files_by_kind(spark, kinds, {"id", "at", "who", "n"})) < len(kinds) / 2
    assert len(numbered.files_by_kind(spark, kinds, None)) == len(kinds)
    together = found(spark, files, settings)
    assert together == sorted(row for file in files for row in found(spark, [file], settings))
    assert any("n is no BIGINT" in row and "extra_1" in row for row in together)


def found(spark: "SparkSession", files: list[StoredFile], settings: LakeSettings) -> list[str]:
    """The rows as texts; the names in a landed row's text in order, as files of one kind share
    it."""
    rows = [row.asDict() for row in read_deliveries(spark, files, settings).collect()]
    return sorted(
        str(row | {"text": sorted(json.loads(row["text"] or "{}").items())}) for row in rows
    )
