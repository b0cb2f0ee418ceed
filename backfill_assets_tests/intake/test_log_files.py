"""Data files come with their partitions, by the names that files have, and with the rows that are
deleted in them. Not here: which a commit changed (`intake.test_source_log`)."""

import json
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.log_files import data_files, held_files
from backfill_assets.intake.source_position import TableState
from backfill_assets.kernel.place.folder import Folder
from backfill_assets_tests.delta_features import delete_by_vector, inline_vector, vector_in_file
from backfill_assets_tests.tables import added_files, append

ROW = ("2024-03-01 10:00", "A", 1)
MAPPED = {
    "name": "who",
    "type": "string",
    "nullable": True,
    "metadata": {"delta.columnMapping.physicalName": "col-1"},
}
STATE = TableState(
    "t", json.dumps({"type": "struct", "fields": [MAPPED]}), ("who",), mapping="name"
)


def named(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "size": 9, "partitionValues": {}, **more}


def test_a_mapped_partition_column_has_its_value_under_the_name_that_files_have(
    tmp_path: Path,
) -> None:
    (found,) = data_files(
        Folder(str(tmp_path)), 3, [named("aB/part", partitionValues={"col-1": "A"})], STATE
    )
    assert found.partition == {"who": "A"}
    assert found.path == tmp_path / "aB" / "part"


def test_a_file_comes_with_the_vector_that_its_commit_names(tmp_path: Path) -> None:
    vectors = [inline_vector({1}), vector_in_file(tmp_path, {1, 2}, "ab")]
    actions = [named(f"part-{n}", deletionVector=v) for n, v in enumerate(vectors)]
    first, second = data_files(Folder(str(tmp_path)), 3, actions, TableState())
    assert first.vector is not None
    assert second.vector is not None
    assert [first.vector.rows, second.vector.rows] == [1, 2]
    assert first.vector_name == ""
    assert (tmp_path / second.vector_name).is_file()
    assert first.vector.id != second.vector.id
    far = named("p", deletionVector={**vectors[0], "storageType": "p", "pathOrInlineDv": "/x"})
    with pytest.raises(LandingError, match="version 3 has the deletion vector /x, which lies else"):
        data_files(Folder(str(tmp_path)), 3, [far], TableState())


def test_files_that_a_table_held_come_with_the_rows_that_were_deleted_in_them(
    tmp_path: Path,
) -> None:
    table = tmp_path / "orders"
    append(table, "2024-03-01 20:00", *[(key, *ROW) for key in "abc"])
    (added,) = added_files(table)
    delete_by_vector(table, added, inline_vector({0, 2}), 1, 1_709_400_000_000)
    (held,) = held_files(Folder(str(table)), 1, ())
    (file,) = data_files(Folder(str(table)), 1, [held["add"]], TableState())
    assert file.deleted == (0, 2)
    assert file.has_deleted_rows
