"""The rows that a commit changed: those that a deletion vector took away or gave back, whatever the
columns are called in files. Not here: rewritten files and change feeds
(`intake.test_table_changes`), and tables of Spark (`end_to_end.test_delta_features`)."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.source_log import TableFile
from backfill_assets.intake.table_changes import take_in_content
from backfill_assets.intake.table_rows import copy_changed_rows
from backfill_assets.kernel.core.addresses import STATE_VARIABLE
from backfill_assets.kernel.tables.embedded import duckdb_cursor
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.delta_features import (
    delete_by_vector,
    inline_vector,
    rename_columns,
    vector_in_file,
)
from backfill_assets_tests.tables import added_files, append, brought

NOON = 1_709_400_000_000
REST = ("2024-03-01 10:00", "A", 1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of one file with the rows a to e."""
    append(tmp_path / "orders", "2024-03-01 20:00", *[(key, *REST) for key in "abcde"])
    return tmp_path / "orders"


def changed(lake: Lake, content: TableFile, folder: Path) -> list[tuple[str, str]]:
    """What a commit did with which rows, by their ids."""
    copy = folder / "changed.parquet"
    with duckdb_cursor(lake) as engine:
        count = copy_changed_rows(engine, content, copy)
    rows = [(r["_change_type"], r["id"]) for r in pq.read_table(copy).to_pylist()]
    assert len(rows) == count
    return rows


def test_rows_that_a_vector_takes_away_are_gone_and_come_back_with_an_earlier_one(
    lake: Lake, table: Path, tmp_path: Path
) -> None:
    (plain,) = added_files(table)
    first = delete_by_vector(table, plain, vector_in_file(table, {1}), 1, NOON)
    second = delete_by_vector(table, first, inline_vector({1, 3, 4}), 2, NOON + 1000)
    delete_by_vector(table, second, first["deletionVector"], 3, NOON + 2000)
    _, *commits = brought(table)
    assert [content.name for content in commits] == ["1/changes", "2/changes", "3/changes"]
    found = [changed(lake, content, tmp_path) for content in commits]
    assert found == [
        [("delete", "b")],
        [("delete", "d"), ("delete", "e")],
        [("insert", "d"), ("insert", "e")],
    ]


def test_a_table_that_begins_with_a_vector_brings_the_rows_that_are_left(
    lake: Lake, table: Path, tmp_path: Path
) -> None:
    (plain,) = added_files(table)
    delete_by_vector(table, plain, vector_in_file(table, {0, 4}), 1, NOON)
    (content,) = brought(table, 1)
    assert changed(lake, content, tmp_path) == [("insert", key) for key in "bcd"]


def test_a_vector_that_vacuum_took_makes_its_commit_unreadable(table: Path) -> None:
    (plain,) = added_files(table)
    delete_by_vector(table, plain, vector_in_file(table, {0}), 1, NOON)
    assert brought(table)[-1].is_readable
    (vector,) = table.glob("*.bin")
    vector.unlink()
    assert [content.is_readable for content in brought(table)] == [True, False]


def test_a_vector_in_a_bucket_is_read_where_it_lies(
    lake: Lake, bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    table = f"{bucket_address}/orders"
    append(table, "2024-03-01 20:00", *[(key, *REST) for key in "abc"])
    (plain,) = added_files(table)
    delete_by_vector(table, plain, vector_in_file(table, {1}, "ab"), 1, NOON)
    _, content = brought(table)
    stored = take_in_content(lake, content)
    rows = pq.read_table(stored.parquet).to_pylist()
    assert [(row["_change_type"], row["id"]) for row in rows] == [("delete", "b")]


def test_a_mapped_table_brings_its_rows_under_its_own_names(
    lake: Lake, table: Path, tmp_path: Path
) -> None:
    rename_columns(table, {"id": "id_now", "n": "n_now"})
    (content,) = brought(table)
    assert content.name == "0/changes"
    copy = tmp_path / "changed.parquet"
    with duckdb_cursor(lake) as engine:
        assert copy_changed_rows(engine, content, copy) == 5
    found = pq.read_table(copy).to_pylist()
    assert [row["id_now"] for row in found] == [*"abcde"]
    assert [*found[0]] == ["_change_type", "id_now", "at", "who", "n_now"]


def test_a_table_made_anew_with_mapped_columns_of_the_same_names_lost_what_it_no_longer_has(
    lake: Lake, tmp_path: Path
) -> None:
    for rows in ({"id": ["a", "b"], "n": [1, 2]}, {"p1": ["b", "c"], "p2": [2, 3]}):
        write_deltalake(
            tmp_path / "named", pa.table(rows), mode="overwrite", schema_mode="overwrite"
        )
    rename_columns(tmp_path / "named", {"p1": "id", "p2": "n"}, 1, of=1)
    *_, content = brought(tmp_path / "named")
    assert changed(lake, content, tmp_path) == [("delete", "a"), ("insert", "c")]


@pytest.mark.parametrize("name", ["filename", "path", "number", "FileName", "__row"])
def test_a_column_may_have_any_name_that_queries_here_do_not_give(
    lake: Lake, tmp_path: Path, name: str
) -> None:
    written = pa.table({"id": ["a", "b", "c"], name: ["9", "8", "7"]})
    write_deltalake(tmp_path / "named", written)
    DeltaTable(tmp_path / "named").delete("id <> 'b'")
    *_, content = brought(tmp_path / "named")
    assert changed(lake, content, tmp_path) == [("delete", "a"), ("delete", "c")]


def test_a_field_may_be_called_as_the_type_that_is_not_read(lake: Lake, tmp_path: Path) -> None:
    write_deltalake(
        tmp_path / "named", pa.table({"id": ["a", "b"], "s": [{"variant": 1}, {"variant": 2}]})
    )
    DeltaTable(tmp_path / "named").delete("id = 'b'")
    *_, content = brought(tmp_path / "named")
    stored = take_in_content(lake, content)
    assert pq.read_table(stored.parquet)["s"].to_pylist() == [{"variant": 2}]


@pytest.mark.parametrize("name", ["file_row_number", "__own_row", "_CHANGE_TYPE"])
def test_a_column_that_is_called_as_one_of_the_queries_is_refused_by_its_name(
    lake: Lake, tmp_path: Path, name: str
) -> None:
    write_deltalake(tmp_path / "named", pa.table({"id": ["a", "b"], name: ["9", "8"]}))
    DeltaTable(tmp_path / "named").delete("id = 'b'")
    *_, content = brought(tmp_path / "named")
    with pytest.raises(LandingError, match=f"version 1 has the column {name}, a name that reading"):
        changed(lake, content, tmp_path)


OTHERS = {
    "a struct": pa.array([{"a": 1}]),
    "a list": pa.array([[1]]),
    "a day": pa.array([1], pa.date32()),
    "bytes": pa.array([b"1"]),
    "true": pa.array([True]),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_column_made_anew_with_a_type_that_holds_no_earlier_value_is_refused_with_the_way_out(
    lake: Lake, tmp_path: Path, other: str, is_first: bool
) -> None:
    written = [pa.table({"id": ["a"], "v": [1]}), pa.table({"id": ["b"], "v": OTHERS[other]})]
    if is_first:
        written.reverse()
    for rows in written:
        write_deltalake(tmp_path / "anew", rows, mode="overwrite", schema_mode="overwrite")
    *_, content = brought(tmp_path / "anew")
    with pytest.raises(
        LandingError, match=r"version 1 gives another type to v, .*first_version = 1"
    ):
        changed(lake, content, tmp_path)
    (content,) = brought(tmp_path / "anew", 1)
    stored = take_in_content(lake, content)
    assert pq.read_table(stored.parquet)["id"].to_pylist() == [rows["id"][0].as_py()]
