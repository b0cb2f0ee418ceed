"""Columns that have another type in some files are told of where a text is made of them.

Tested here: what is noted of contents, and what is told. Not tested here: the commands that print
it (`reading.test_rejected`).
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.intake.column_kinds import changed_kinds, columns_made_text, note_kinds
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.kernel.place.folder import Folder

TYPES = {
    "event_key": read_type("STRING"),
    "total": read_type("DECIMAL(18,2)"),
    "entity": read_type("STRING"),
}


def content(
    store: Path, name: str, types: dict[str, str] | None = None, **columns: pa.Array
) -> tuple[str, StoredFile]:
    path = store / f"{name}.parquet"
    pq.write_table(pa.table(columns), path)
    return f"{name}.file", StoredFile(name, Folder(str(store)), path.name, types or {})


def test_a_column_of_several_kinds_is_told_with_a_file_of_each(tmp_path: Path) -> None:
    first = content(tmp_path, "a", ID=pa.array([1]), same=pa.array([1], pa.int32()))
    note_kinds(Folder(str(tmp_path)), [first])
    note_kinds(
        Folder(str(tmp_path)),
        [
            content(tmp_path, "b", id=pa.array([1.0]), same=pa.array([1])),
            content(tmp_path, "c", x=["a"]),
        ],
    )
    every = ["a.file", "b.file", "c.file"]
    assert changed_kinds(Folder(str(tmp_path)), every) == {
        "id": {"a whole number": "a.file", "double": "b.file"}
    }
    assert changed_kinds(Folder(str(tmp_path)), ["b.file", "c.file"]) == {}


@pytest.mark.parametrize(
    "void", [pa.nulls(2), pa.array([None, None], pa.float64()), pa.array([], pa.float64())]
)
def test_a_column_without_a_value_has_no_kind(tmp_path: Path, void: pa.Array) -> None:
    note_kinds(
        Folder(str(tmp_path)),
        [content(tmp_path, "a", id=pa.array([1])), content(tmp_path, "b", id=void)],
    )
    assert changed_kinds(Folder(str(tmp_path)), ["a.file", "b.file"]) == {}


def test_json_tells_its_own_kinds_and_columns_of_ours_have_none(tmp_path: Path) -> None:
    whole = content(
        tmp_path, "a", {"id": "BIGINT"}, id=pa.array(["17"]), __row_number=pa.array([1])
    )
    note_kinds(
        Folder(str(tmp_path)),
        [whole, content(tmp_path, "b", {"id": "STRING"}, id=pa.array(["17.0"]))],
    )
    assert changed_kinds(Folder(str(tmp_path)), ["a.file", "b.file"]) == {
        "id": {"BIGINT": "a.file", "STRING": "b.file"}
    }


def test_only_what_becomes_a_text_is_told_of_and_a_cast_says_what_is_meant() -> None:
    select = (
        "concat(Id, '-', cast(n AS bigint)) AS event_key, amount AS total, cast(who AS string) AS "
        "entity"
    )
    assert columns_made_text(select, TYPES) == {"id", "who"}
    assert columns_made_text("*", TYPES) == columns_made_text("f(", TYPES) == set()


def test_a_text_is_a_text_however_long_it_may_be(tmp_path: Path) -> None:
    short, long = pa.array(["a"]), pa.array(["b"], pa.large_string())
    note_kinds(
        Folder(str(tmp_path)), [content(tmp_path, "a", id=short), content(tmp_path, "b", id=long)]
    )
    note_kinds(Folder(str(tmp_path)), [content(tmp_path, "c", id=pa.array([1.0]))])
    told = changed_kinds(Folder(str(tmp_path)), ["a.file", "b.file", "c.file"])
    assert {*told["id"]} == {"a text", "double"}
