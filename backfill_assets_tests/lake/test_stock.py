"""The stock of landed contents: linked or converted, named by content, made again when it is gone.

Lives here: putting and finding, without a JVM. Does not live here: copies of text (`test_intake_stock`).
"""

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.lake.intake import Intake, take
from backfill_assets.lake.stock import find, put
from backfill_assets_tests.lake.landed import land

SEEN = datetime(2024, 3, 1, tzinfo=UTC)


def taken(folder: Path, table: pa.Table) -> Intake:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, version="2.6")
    return take(land(folder, "a.parquet", sink.getvalue().to_pybytes()), "parquet", folder / "stock")


def test_a_parquet_file_is_linked_and_not_copied(tmp_path: Path) -> None:
    intake = taken(tmp_path, pa.table({"a": [1, 2]}))
    put(tmp_path / "stock", intake, "parquet")
    found = find(tmp_path / "stock", intake.sha256, SEEN, date(2024, 3, 2))
    assert found is not None
    assert found.parquet.name == f"{intake.sha256}.parquet"
    assert os.path.samefile(found.parquet, tmp_path / "a.parquet")  # noqa: PTH121
    assert (found.types, found.home_day, found.first_scan) == ({}, date(2024, 3, 2), SEEN)
    assert not found.absent_is_null


def test_nanoseconds_are_converted_to_microseconds_in_the_same_order(tmp_path: Path) -> None:
    nanos = pa.array([1_700_000_000_000_000_999, None, -1_001], pa.timestamp("ns", "UTC"))
    intake = taken(tmp_path, pa.table({"a": nanos, "b": pa.array([1, 2, 3], pa.timestamp("us"))}))
    put(tmp_path / "stock", intake, "parquet")
    found = find(tmp_path / "stock", intake.sha256, SEEN)
    assert found is not None
    read = pq.read_table(found.parquet)
    assert read.schema.field("a").type == pa.timestamp("us", "UTC")
    assert read["a"].cast(pa.int64()).to_pylist()[:2] == [1_700_000_000_000_000, None]
    assert pq.read_schema(tmp_path / "a.parquet").field("a").type.unit == "ns", "the landed file is as it was"


def test_files_of_one_schema_share_its_digest_and_others_do_not(tmp_path: Path) -> None:
    schemas = []
    for name, table in {"x": {"a": [1]}, "y": {"a": [2]}, "z": {"a": ["t"]}}.items():
        intake = taken(tmp_path / name, pa.table(table))
        put(tmp_path / "stock", intake, "parquet")
        found = find(tmp_path / "stock", intake.sha256, SEEN)
        schemas.append(found.schema if found else None)
    assert schemas[0] == schemas[1] != schemas[2]


@pytest.mark.parametrize("lost", ["json", "parquet", "broken"])
def test_what_is_not_whole_is_not_found(tmp_path: Path, lost: str) -> None:
    intake = taken(tmp_path, pa.table({"a": [1]}))
    put(tmp_path / "stock", intake, "parquet")
    if lost == "broken":
        (tmp_path / "stock" / f"{intake.sha256}.json").write_text("{", encoding="utf-8")
    else:
        (tmp_path / "stock" / f"{intake.sha256}.{lost}").unlink()
    assert find(tmp_path / "stock", intake.sha256, SEEN) is None
    put(tmp_path / "stock", intake, "parquet")
    assert find(tmp_path / "stock", intake.sha256, SEEN) is not None


def test_only_json_objects_may_leave_out_a_column(tmp_path: Path) -> None:
    intake = take(land(tmp_path, "a.jsonl", b'{"a": 1}\n'), "jsonl", tmp_path / "stock")
    put(tmp_path / "stock", intake, "jsonl")
    found = find(tmp_path / "stock", intake.sha256, SEEN)
    assert found is not None
    assert found.absent_is_null
    assert found.types == {"a": "BIGINT"}
