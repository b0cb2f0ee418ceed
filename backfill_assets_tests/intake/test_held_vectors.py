"""The vectors of all files of a version are known by a checkpoint of any form and the commits after it.
Not here: the rows that a vector takes away (`intake.test_deleted_rows`), and checkpoints as Spark
writes them (`end_to_end.test_delta_features`)."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from backfill_assets.intake.deleted_rows import deleted_by_file, held_vectors
from backfill_assets.kernel.log.log import LOG
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets_tests.delta_features import delete_by_vector, inline_vector
from backfill_assets_tests.tables import added_files, append

NOON = 1_709_400_000_000
ROW = ("2024-03-01 10:00", "A", 1)
VERSION = f"{3:020}"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two files; rows of the first one went by two vectors, one after the other."""
    table = tmp_path / "orders"
    for keys in ("abc", "de"):
        append(table, "2024-03-01 20:00", *[(key, *ROW) for key in keys])
    (first,) = added_files(table)
    again = delete_by_vector(table, first, inline_vector({1}), 2, NOON)
    delete_by_vector(table, again, inline_vector({1, 2}), 3, NOON)
    return table


def vectors(table: Path, version: int) -> dict[str, list[int]]:
    place, opened = place_of_others(str(table)), DeltaTable(str(table), version=version)
    return {name: rows.to_pylist() for name, rows in deleted_by_file(place, opened).items()}


def test_a_version_has_the_vectors_of_the_commits_before_it(table: Path) -> None:
    name = added_files(table)[0]["path"]
    found = [vectors(table, version) for version in (1, 2, 3)]
    assert found == [{}, {name: [1]}, {name: [1, 2]}]


def test_a_file_that_went_has_no_vector_any_more(table: Path) -> None:
    gone = {"path": added_files(table)[0]["path"], "dataChange": True}
    (table / LOG / f"{4:020}.json").write_text(json.dumps({"remove": gone}) + "\n")
    assert held_vectors(place_of_others(str(table)), 4) == {}
    assert len(held_vectors(place_of_others(str(table)), 3)) == 1


def _in_parts(log: Path, rows: list[dict[str, Any]]) -> None:
    for number, row in enumerate(rows, 1):
        part = f"{VERSION}.checkpoint.{number:010}.{len(rows):010}.parquet"
        pq.write_table(pa.Table.from_pylist([row]), log / part)
    pq.write_table(  # one that its writer did not finish
        pa.Table.from_pylist(rows), log / f"{4:020}.checkpoint.{1:010}.{2:010}.parquet"
    )


def _with_sidecar(log: Path, rows: list[dict[str, Any]]) -> None:
    (log / "_sidecars").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), log / "_sidecars" / "s.parquet")
    name = f"{VERSION}.checkpoint.{'0' * 36}.json"
    (log / name).write_text(json.dumps({"sidecar": {"path": "s.parquet"}}) + "\n")


@pytest.mark.parametrize("write", [_in_parts, _with_sidecar])
def test_vectors_are_known_by_a_checkpoint_where_the_log_was_cleaned(
    table: Path, write: Any
) -> None:
    log, ((first,), (second,)) = table / LOG, (added_files(table), added_files(table, 1))
    vector = {**inline_vector({1, 2}), "offset": None}
    held = [
        {"add": {"path": first["path"], "deletionVector": vector}},
        {"add": {"path": second["path"]}},
    ]
    write(log, held)
    for version in range(4):
        (log / f"{version:020}.json").unlink()
    delete_by_vector(table, second, inline_vector({0}), 4, NOON)
    found = held_vectors(place_of_others(str(table)), 4)
    assert {name: vector.rows for name, vector in found.items()} == {
        first["path"]: 2,
        second["path"]: 1,
    }
