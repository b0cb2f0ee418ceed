"""Columns of a mirror: their types, and what they are called in its files. Not here: rows
(`test_mirror`)."""

import json

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from backfill_assets.iceberg.mirrored_columns import MirroredColumns, mirrored_columns


def columns(
    before: MirroredColumns | None, *given: tuple[int, str, IcebergType]
) -> MirroredColumns:
    schema = Schema(*(NestedField(number, name, kind) for number, name, kind in given))
    return mirrored_columns(schema, before.properties if before else {})


@pytest.mark.parametrize("kind", [UUIDType(), TimeType(), TimestampNanoType()])
def test_a_type_that_delta_lacks_is_left_out_also_within_another(kind: IcebergType) -> None:
    within = ListType(7, StructType(NestedField(8, "x", kind)))
    found = columns(None, (1, "id", LongType()), (2, "a", kind), (3, "b", within))
    assert ([f["name"] for f in found.fields], found.left_out) == (["id"], ("a", "b"))


def test_types_have_the_names_of_delta() -> None:
    found = columns(
        None, (1, "day", DateType()), (2, "at", TimestamptzType()), (3, "plain", TimestampType())
    )
    kinds = [field["type"] for field in json.loads(found.schema)["fields"]]
    assert kinds == ["date", "timestamp", "timestamp_ntz"]
    assert found.protocol["readerFeatures"] == ["timestampNtz"]


def test_a_table_is_mapped_from_the_first_name_on_that_files_do_not_have() -> None:
    first = columns(None, (1, "id", LongType()), (2, "v", StringType()))
    wider = columns(first, (1, "id", LongType()), (2, "v", StringType()), (3, "n", IntegerType()))
    assert [first.is_mapped, wider.is_mapped] == [False, False]
    renamed = columns(wider, (1, "id", LongType()), (2, "w", StringType()))
    assert (renamed.is_mapped, renamed.stored) == (True, {"id": "id", "w": "v"})
    again = columns(renamed, (1, "id", LongType()), (4, "V", StringType()))
    assert again.stored["V"] not in first.stored.values()
    back = columns(again, (1, "id", LongType()))
    assert back.is_mapped, "files of before still have other names"


def test_a_column_with_other_parts_is_another_one_in_files() -> None:
    def of(name: str) -> IcebergType:
        return StructType(NestedField(5, name, LongType()))

    first = columns(None, (1, "s", of("a")))
    assert columns(first, (1, "s", of("b"))).stored != first.stored
