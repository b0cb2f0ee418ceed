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
    doubted_columns,
    earlier_names,
    mapping_mode,
    named_paths,
    returned_paths,
    stored_columns,
    with_later_names,
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


def plain(*columns: tuple[str, int]) -> str:
    return json.dumps(struct(*(field(name, "string", number) for name, number in columns)))


def paths_of(*schemas: str) -> frozenset[str]:
    return frozenset[str]().union(*map(named_paths, schemas))


def test_a_renamed_column_is_known_by_each_name_that_it_had() -> None:
    first, second, last = plain(("v", 2)), plain(("w", 2)), plain(("Id", 1), ("amount/net", 2))
    paths = paths_of(plain(("id", 1), ("v", 2)), first, second, last)
    assert earlier_names(paths, last) == {"v": "amount/net", "w": "amount/net"}
    assert doubted_columns(paths, last) == frozenset()
    assert earlier_names(paths_of(first), first) == {}


def test_a_name_that_two_columns_had_tells_nothing_of_either() -> None:
    first, last = plain(("v", 2), ("id", 1)), plain(("amount", 2), ("v", 5), ("id", 1))
    assert doubted_columns(paths_of(first, last), last) == {"v", "amount"}
    again = plain(("V", 5), ("id", 1))
    assert doubted_columns(paths_of(first, again), again) == {"v"}, "dropped, and made anew"


def test_a_column_in_which_a_field_was_renamed_or_made_anew_is_doubted() -> None:
    def nested(name: str, inner: str, number: int) -> str:
        return json.dumps(struct(field(name, struct(field(inner, "long", number)), 3)))

    first = nested("s", "a", 4)
    for other in (nested("s", "b", 4), nested("s", "a", 5)):
        assert doubted_columns(paths_of(first, other), other) == {"s"}
    moved = nested("t", "a", 4)
    assert doubted_columns(paths_of(first, moved), moved) == frozenset()


def test_a_column_or_a_field_that_comes_back_was_gone_while_rows_were_read() -> None:
    inner = [field("a", "long", 3), field("b", "long", 4)]
    gone = json.dumps(struct(field("id", "long", 1), field("s", struct(inner[0]), 2)))
    back = json.dumps(struct(field("id", "long", 1), field("s", struct(*inner), 2)))
    for newest, doubted in ((4, {"s"}), (3, set[str]())):
        paths = paths_of(gone, back) | returned_paths(back, newest, named_paths(gone))
        assert doubted_columns(paths, back) == doubted, "its number says whether it is new"
    known = paths_of(back, gone)
    assert returned_paths(back, 4, known) == frozenset(), "its rows came while it was there"


def test_an_earlier_schema_gets_the_later_names_of_its_columns() -> None:
    earlier, later = plain(("v", 2), ("id", 1), ("w", 3)), plain(("w", 2), ("n", 1))
    assert stored_columns(with_later_names(earlier, later)) == {"c2": "w", "c1": "n"}, (
        "the column that was called w is gone, and another one has its name"
    )


def test_columns_of_a_table_that_was_made_anew_keep_their_names_and_have_no_numbers() -> None:
    unmapped = struct(*({"name": n, "type": "long", "nullable": True} for n in ("id", "n")))
    earlier, later = json.dumps(unmapped), plain(("id", 1), ("n", 2))
    assert stored_columns(with_later_names(earlier, later)) == {"id": "id", "n": "n"}
    file = pa.schema([("id", pa.int64())])
    assert column_expressions(earlier, "id", file) == {"id": '"id"'}


def test_a_table_without_mapping_has_its_own_names_in_files() -> None:
    plain = json.dumps(struct({"name": "id", "type": "long", "nullable": True, "metadata": {}}))
    assert stored_columns(plain) == {"id": "id"}
    assert stored_columns(SCHEMA)["c10"] == "new"
    assert [mapping_mode({}), mapping_mode({"delta.columnMapping.mode": "none"})] == ["", ""]
    assert mapping_mode({"delta.columnMapping.mode": "id"}) == "id"
