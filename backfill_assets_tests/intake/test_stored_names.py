"""Columns of tables with column mapping are found in files by name or number, at any depth, and it is
known which of them were renamed. Not here: the rows of such a table (`intake.test_table_rows`)."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.intake.stored_names import (
    FIELD_ID,
    column_expressions,
    mapping_mode,
    named_paths,
    renamed_columns,
    stored_columns,
)


def field(name: str, kind: Any, number: int, stored: str = "") -> dict[str, Any]:
    metadata = {
        "delta.columnMapping.id": number,
        "delta.columnMapping.physicalName": stored or f"c{number}",
    }
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [*fields]}


INNER = struct(field("x", "string", 5), field("later", "integer", 9))
SCHEMA = json.dumps(
    struct(
        field("id", "long", 1),
        field(
            "s",
            struct(
                field("a", "integer", 3), field("items", {"type": "array", "elementType": INNER}, 4)
            ),
            2,
        ),
        field("m", {"type": "map", "keyType": "string", "valueType": INNER}, 6),
        field("new", "string", 10),
    )
)
ROWS = [
    {
        "id": 1,
        "s": {"a": 2, "items": [{"x": "p", "later": None}, None]},
        "m": [("k", {"x": "q", "later": None})],
    },
    {"id": 2, "s": None, "m": None},
    {"id": 3, "s": {"a": None, "items": None}, "m": []},
]


def numbered(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID: str(number).encode()})


def file_with(path: Path, mark: str) -> Path:
    """A file with the rows under the names c1, c2 … after a mark, and with the numbers of fields."""
    inner = pa.struct([numbered(f"{mark}c5", pa.string(), 5)])
    schema = pa.schema(
        [
            numbered(f"{mark}c1", pa.int64(), 1),
            numbered(
                f"{mark}c2",
                pa.struct(
                    [
                        numbered(f"{mark}c3", pa.int32(), 3),
                        numbered(f"{mark}c4", pa.list_(inner), 4),
                    ]
                ),
                2,
            ),
            numbered(f"{mark}c6", pa.map_(pa.string(), inner), 6),
        ]
    )
    item, empty = {f"{mark}c5": "p"}, None
    rows = [
        {
            f"{mark}c1": 1,
            f"{mark}c2": {f"{mark}c3": 2, f"{mark}c4": [item, empty]},
            f"{mark}c6": [("k", {f"{mark}c5": "q"})],
        },
        {f"{mark}c1": 2, f"{mark}c2": None, f"{mark}c6": None},
        {f"{mark}c1": 3, f"{mark}c2": {f"{mark}c3": None, f"{mark}c4": None}, f"{mark}c6": []},
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


@pytest.mark.parametrize(("mode", "mark"), [("name", ""), ("id", "any_")])
def test_columns_and_fields_are_found_by_name_or_by_number_at_any_depth(
    tmp_path: Path, mode: str, mark: str
) -> None:
    path = file_with(tmp_path / "part.parquet", mark)
    columns = column_expressions(SCHEMA, mode, pq.read_schema(path))
    assert [*columns] == ["id", "s", "m"], "the file was written before the column `new` came"
    named = ", ".join(f'{value} AS "{name}"' for name, value in columns.items())
    with duckdb.connect() as engine:
        found = engine.sql(f"SELECT {named} FROM read_parquet('{path}')").to_arrow_table()
    assert found.to_pylist() == ROWS


def test_names_that_another_column_had_are_renamed_ones() -> None:
    before = json.dumps(
        struct(
            field("id", "long", 1),
            field("v", "string", 2),
            field("s", struct(field("a", "long", 4)), 3),
        )
    )
    renamed = json.dumps(
        struct(
            field("id", "long", 1),
            field("w", "string", 2),
            field("s", struct(field("b", "long", 4)), 3),
        )
    )
    again = json.dumps(struct(field("id", "long", 1), field("V", "string", 5)))
    assert renamed_columns(named_paths(before)) == frozenset()
    assert renamed_columns(named_paths(before) | named_paths(renamed)) == {"v", "w", "s"}
    assert renamed_columns(named_paths(before) | named_paths(again)) == {"v", "V"}, (
        "dropped, and made anew"
    )


def test_a_table_without_mapping_has_its_own_names_in_files() -> None:
    plain = json.dumps(struct({"name": "id", "type": "long", "nullable": True, "metadata": {}}))
    assert stored_columns(plain) == {"id": "id"}
    assert stored_columns(SCHEMA)["c10"] == "new"
    assert [mapping_mode({}), mapping_mode({"delta.columnMapping.mode": "none"})] == ["", ""]
    assert mapping_mode({"delta.columnMapping.mode": "id"}) == "id"
