"""The stock of landed contents: copied or converted, named and proven by content, made again when
it is gone.

Lives here: describing and finding, without a JVM. Does not live here: copies of text
(`test_ingest`).
"""

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.buckets.bucket import Bucket
from backfill_assets.intake.content_store import (
    StoredFile,
    copy_sizes,
    discard_described,
    find_content,
    note_mark,
)
from backfill_assets.intake.files import StillChanging
from backfill_assets.intake.ingest import ingest, ingest_in_place
from backfill_assets_tests.landed import land, stock, take_in

SEEN = datetime(2024, 3, 1, tzinfo=UTC)


def taken(folder: Path, table: pa.Table) -> StoredFile:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, version="2.6")
    return ingest(land(folder, "a.parquet", sink.getvalue().to_pybytes()), "parquet", stock(folder))


@pytest.mark.slow
def test_a_parquet_file_is_found_by_its_content_with_its_rows_counted(tmp_path: Path) -> None:
    intake = taken(tmp_path, pa.table({"a": [1, 2]}))
    found = find_content(stock(tmp_path), intake.sha256, SEEN, date(2024, 3, 2))
    assert found is not None
    assert found.parquet == tmp_path / "stock" / f"{intake.sha256}.parquet"
    assert (found.types, found.home_day, found.first_scan, found.rows) == (
        {},
        date(2024, 3, 2),
        SEEN,
        2,
    )
    assert not found.absent_is_null


@pytest.mark.parametrize("name", ["a.parquet", "nanos.parquet", "a.jsonl", "a.csv"])
def test_an_entry_whose_bytes_changed_is_not_found_and_is_taken_again(
    tmp_path: Path, name: str
) -> None:
    sink = pa.BufferOutputStream()
    kind = pa.timestamp("ns") if name.startswith("nanos") else pa.int64()
    pq.write_table(pa.table({"a": pa.array([1_000, 2_000], kind)}), sink)
    content = sink.getvalue().to_pybytes() if name.endswith("parquet") else b'{"a": 1}\n{"a": 2}\n'
    intake = take_in(tmp_path, name, content)
    found = find_content(stock(tmp_path), intake.sha256, SEEN)
    assert found is not None
    right = found.parquet.read_bytes()
    found.parquet.write_bytes(right[:100] + bytes([right[100] ^ 1]) + right[101:])
    assert find_content(stock(tmp_path), intake.sha256, SEEN) is None
    assert take_in(tmp_path, name, content) == intake
    again = find_content(stock(tmp_path), intake.sha256, SEEN)
    assert again is not None
    assert again.parquet.read_bytes() == right


def test_a_description_that_names_another_files_content_proves_nothing(tmp_path: Path) -> None:
    one, two = (
        taken(tmp_path / "1", pa.table({"a": [1]})),
        taken(tmp_path / "2", pa.table({"a": [2]})),
    )
    described = tmp_path / "1/stock"
    for old, text in ((f"{two.sha256}.json", two.sha256), (f"{two.sha256}.parquet", "")):
        content = (
            (tmp_path / "2/stock" / old)
            .read_bytes()
            .replace(text.encode() or b"\0no", one.sha256.encode())
        )
        if text:
            content = content.replace(
                f'"sha256": "{one.sha256}"'.encode(), f'"sha256": "{two.sha256}"'.encode()
            )
        (described / old.replace(two.sha256, one.sha256)).write_bytes(content)
    assert find_content(stock(tmp_path / "1"), one.sha256, SEEN) is None


@pytest.mark.parametrize("lost", ["json", "parquet", "broken", "older"])
def test_what_is_not_whole_is_not_found(tmp_path: Path, lost: str) -> None:
    intake = taken(tmp_path, pa.table({"a": [1]}))
    said = tmp_path / "stock" / f"{intake.sha256}.json"
    if lost == "broken":
        said.write_text("{", encoding="utf-8")
    elif lost == "older":
        said.write_text(
            said.read_text(encoding="utf-8").replace('"version": 2', '"version": 1'),
            encoding="utf-8",
        )
    else:
        (tmp_path / "stock" / f"{intake.sha256}.{lost}").unlink()
    assert find_content(stock(tmp_path), intake.sha256, SEEN) is None
    assert taken(tmp_path, pa.table({"a": [1]})) == intake
    assert find_content(stock(tmp_path), intake.sha256, SEEN) is not None


def test_only_json_objects_may_leave_out_a_column(tmp_path: Path) -> None:
    intake = ingest(land(tmp_path, "a.jsonl", b'{"a": 1}\n'), "jsonl", stock(tmp_path))
    found = find_content(stock(tmp_path), intake.sha256, SEEN)
    assert found is not None
    assert found.absent_is_null
    assert found.types == {"a": "BIGINT"}


def test_the_bytes_of_each_content_are_counted_and_all_of_them_go(tmp_path: Path) -> None:
    intake = taken(tmp_path, pa.table({"a": [1]}))
    store = stock(tmp_path)
    (store.local() / "kinds.json").write_text("{}")
    assert copy_sizes(store) == {
        intake.sha256: sum(p.stat().st_size for p in store.local().glob(f"{intake.sha256}*"))
    }
    discard_described(store, "0" * 64)
    assert len(store.names()) == 3
    discard_described(store, intake.sha256)
    assert (store.names(), copy_sizes(store)) == (["kinds.json"], {})


def test_a_store_in_a_bucket_is_read_everywhere_and_a_damaged_copy_remade(
    tmp_path: Path, bucket_address: str
) -> None:
    one, two, three = (
        Bucket(bucket_address, str(tmp_path / name), ".stock") for name in ("one", "two", "three")
    )
    file = land(tmp_path, "a.csv", b"a\n1\n2\n")
    intake = ingest(file, "csv", one)
    assert (found := find_content(two, intake.sha256)) is not None
    assert (found.rows, found.parquet.read_bytes()) == (2, intake.parquet.read_bytes())
    two.write(intake.name, b"torn")
    assert find_content(three, intake.sha256) is None
    assert ingest(file, "csv", three).rows == 2
    assert sorted(three.names()) == sorted([intake.name, f"{intake.sha256}.json"])


def test_a_file_that_is_read_where_it_lies_is_proven_by_its_mark_else_by_its_bytes(
    tmp_path: Path,
) -> None:
    store, sink = stock(tmp_path), pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1, 2]}), sink)
    file = land(tmp_path, "a.parquet", sink.getvalue().to_pybytes())
    taken_in = ingest_in_place(file, StoredFile("", store, ""), by_path=False)
    assert (found := find_content(store, taken_in.sha256)) is not None
    assert found.mark == taken_in.mark
    os.utime(file.path, (1, 1))
    assert (found := find_content(store, taken_in.sha256)) is not None, "its bytes are the same"
    assert found.mark != taken_in.mark
    pq.write_table(pa.table({"a": [3, 4]}), file.path)
    assert find_content(store, taken_in.sha256) is None


def test_the_mark_of_a_content_is_noted_while_it_is_there(tmp_path: Path) -> None:
    file = taken(tmp_path, pa.table({"a": [1, 2]}))
    token = file.store.token(file.name)
    assert token is not None
    assert note_mark(file)["mark"] == [*token.mark]
    file.parquet.unlink()
    with pytest.raises(StillChanging):
        note_mark(file)
