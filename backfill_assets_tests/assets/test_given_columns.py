"""A column that others made has one of our types or is refused by name; its values stay what they
are or are counted. Not here: where the rows come from and go to (`test_given_rows`)."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from backfill_assets.assets.given_columns import (
    GivenColumn,
    arrow_columns,
    column_differences,
    contract_columns,
    converted_values,
    given_type,
    spark_columns,
    stored_type,
)
from backfill_assets.kernel.core.column_types import read_type
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import ContractBroken

MICRO = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
TEXTS = [["a"], None, ["b", None]]
DAY = dt.date(2024, 3, 1)
TYPES: list[tuple[pa.DataType, str | None]] = [
    (pa.int8(), "INT"),
    (pa.uint16(), "INT"),
    (pa.uint32(), "BIGINT"),
    (pa.uint64(), "BIGINT"),
    (pa.float32(), "DOUBLE"),
    (pa.bool_(), "BOOLEAN"),
    (pa.large_string(), "STRING"),
    (pa.string_view(), "STRING"),
    (pa.binary(3), "BINARY"),
    (pa.dictionary(pa.int8(), pa.string()), "STRING"),
    (pa.decimal32(5, 2), "DECIMAL(5,2)"),
    (pa.date64(), "DATE"),
    (pa.decimal256(38, 9), "DECIMAL(38,9)"),
    (pa.decimal256(40, 0), None),
    (pa.decimal128(5, -1), None),
    (pa.timestamp("s"), "TIMESTAMP"),
    (pa.timestamp("ns", "Asia/Tokyo"), "TIMESTAMP"),
    (pa.null(), "NULL"),
    (pa.list_(pa.int8(), 2), "ARRAY<INT>"),
    (pa.large_list(pa.large_string()), "ARRAY<STRING>"),
    (pa.list_(pa.null()), "ARRAY<NULL>"),
    (pa.list_(pa.list_(pa.int32())), None),
    (pa.struct({"a": pa.int32()}), None),
    (pa.map_(pa.string(), pa.int32()), None),
    (pa.time64("us"), None),
    (pa.duration("us"), None),
    (pa.uuid(), None),
]


@pytest.mark.parametrize(("arrow", "wanted"), TYPES, ids=str)
def test_a_type_of_arrow_is_the_next_larger_one_of_ours_or_none(
    arrow: pa.DataType, wanted: str | None
) -> None:
    kind = given_type(arrow)
    assert (str(kind) if kind else None) == wanted


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("tinyint", "INT"),
        ("float", "DOUBLE"),
        ("timestamp_ntz", "TIMESTAMP"),
        ("varchar(5)", "STRING"),
        ("decimal(10,0)", "DECIMAL(10,0)"),
        ("array<smallint>", "ARRAY<INT>"),
        ("array<void>", "ARRAY<NULL>"),
        ("array<array<int>>", None),
        ("struct<a:int>", None),
        ("map<string,int>", None),
        ("void", "NULL"),
        ("interval day to second", None),
        ("variant", None),
        ("string collate UTF8_LCASE", None),
        ("time(6)", None),
    ],
)
def test_a_type_of_spark_is_the_next_larger_one_of_ours_or_none(
    word: str, wanted: str | None
) -> None:
    (column,) = spark_columns([("a", word)])
    assert (str(column.kind) if column.kind else None) == wanted


def midnight(year: int, month: int, day: int) -> dt.datetime:
    return dt.datetime(year, month, day, tzinfo=dt.UTC)


# Values, the type of the column, the values in the file.
KEPT: list[tuple[pa.Array, str, list[Any]]] = [
    (pa.array([1, None, 255], pa.uint8()), "INT", [1, None, 255]),
    (pa.array([2**63 - 1, None], pa.uint64()), "BIGINT", [2**63 - 1, None]),
    (pa.array([-(2**31), 2**31 - 1], pa.int64()), "INT", [-(2**31), 2**31 - 1]),
    (pa.array([0.1, None], pa.float32()), "DOUBLE", [0.10000000149011612, None]),
    (pa.array([2.0, None, -0.0]), "BIGINT", [2, None, 0]),
    (pa.array([2**53 - 1, None]), "DOUBLE", [2.0**53 - 1, None]),
    (pa.array(["a", None, "a"]).dictionary_encode(), "STRING", ["a", None, "a"]),
    (pa.array(["é", None], pa.string_view()), "STRING", ["é", None]),
    (pa.array([b"ab", None], pa.binary(2)), "BINARY", [b"ab", None]),
    (
        pa.array([Decimal("1.5"), None], pa.decimal32(5, 2)),
        "DECIMAL(18,3)",
        [Decimal("1.500"), None],
    ),
    (pa.array([MICRO, None], pa.timestamp("ns", "Asia/Tokyo")), "TIMESTAMP", [MICRO, None]),
    (
        pa.array([midnight(2024, 3, 1), None], pa.timestamp("s")),
        "TIMESTAMP",
        [midnight(2024, 3, 1), None],
    ),
    (pa.array([MICRO.replace(tzinfo=None)], pa.timestamp("us")), "TIMESTAMP", [MICRO]),
    (pa.array([midnight(1, 1, 1)], pa.timestamp("us")), "DATE", [dt.date(1, 1, 1)]),
    (pa.array([midnight(9999, 12, 31)], pa.timestamp("us")), "DATE", [dt.date(9999, 12, 31)]),
    (
        pa.array([midnight(1969, 12, 31), None], pa.timestamp("ns", "UTC")),
        "DATE",
        [dt.date(1969, 12, 31), None],
    ),
    (pa.array([DAY, None], pa.date64()), "DATE", [DAY, None]),
    (pa.array(["2024-03-01", None]), "DATE", [DAY, None]),
    (pa.nulls(2), "TIMESTAMP", [None, None]),
    (pa.nulls(2), "DATE", [None, None]),
    (pa.array([[1, None], None, []], pa.list_(pa.int8())).slice(1), "ARRAY<INT>", [None, []]),
    (pa.array(TEXTS, pa.large_list(pa.string_view())), "ARRAY<STRING>", TEXTS),
    (pa.array([[1, 2], None], pa.list_(pa.int16(), 2)), "ARRAY<BIGINT>", [[1, 2], None]),
    (pa.nulls(1), "ARRAY<INT>", [None]),
    (pa.array([[None], []], pa.list_(pa.null())), "ARRAY<DATE>", [[None], []]),
]


@pytest.mark.parametrize(("values", "kind", "wanted"), KEPT, ids=str)
def test_a_value_that_its_type_holds_stays_what_it_is(
    values: pa.Array, kind: str, wanted: list[Any]
) -> None:
    cells, bad, _ = converted_values(values, read_type(kind))
    assert cells.type == stored_type(read_type(kind))
    assert cells.to_pylist() == wanted
    assert bad is None or not pc.any(bad).as_py()


MISFITS: list[tuple[pa.Array, str, int, str]] = [
    (
        pa.array([1_000, 1_001, -1, None], pa.timestamp("ns")),
        "TIMESTAMP",
        2,
        "parts of a microsecond",
    ),
    (pa.array([0, 1, None], pa.timestamp("us", "UTC")), "DATE", 1, "no midnight"),
    (pa.array([0, 1, -1], pa.timestamp("ns")), "DATE", 2, "no midnight"),
    (pa.array([0, 1, None], pa.int64()).view(pa.date64()), "DATE", 1, "no midnight"),
    (
        pa.array(["2024-3-1", "2024-02-30", "", " 2024-03-01", "2024-03-01", None]),
        "DATE",
        4,
        "no day",
    ),
    (pa.array([2**63, 1, None], pa.uint64()), "BIGINT", 1, "beyond BIGINT"),
    (pa.array([2**31, -(2**31) - 1, 0, None]), "INT", 2, "beyond INT"),
    (pa.array([1.5, float("nan"), float("inf"), 2.0**53, None, 1.0]), "BIGINT", 4, "not whole"),
    (pa.array([2**53, 2**53 + 1, None]), "DOUBLE", 2, "beyond DOUBLE"),
    (
        pa.array([[1_000, 1_001], None, [7]], pa.list_(pa.timestamp("ns"))),
        "ARRAY<TIMESTAMP>",
        2,
        "parts of a micro",
    ),
]


@pytest.mark.parametrize(("values", "kind", "count", "why"), MISFITS, ids=str)
def test_a_value_that_its_type_does_not_hold_is_counted(
    values: pa.Array, kind: str, count: int, why: str
) -> None:
    _, bad, told = converted_values(values, read_type(kind))
    assert pc.sum(bad).as_py() == count
    assert why in told


TYPES_OF = {"n": "BIGINT", "f": "DOUBLE", "d": "DECIMAL(10,2)", "day": "DATE"}
CONTRACT = Contract(
    "t", "", tuple(Column(n, t, "") for n, t in TYPES_OF.items()), "day", ("n",), ()
)


def given(**types: pa.DataType) -> tuple[GivenColumn, ...]:
    fitting = {"n": pa.int64(), "f": pa.float64(), "d": pa.decimal128(10, 2), "day": pa.date32()}
    return arrow_columns(pa.schema(list((fitting | types).items())))


@pytest.mark.parametrize(
    ("types", "differences"),
    [
        (
            {
                "n": pa.uint8(),
                "f": pa.float16(),
                "d": pa.decimal128(9, 1),
                "day": pa.timestamp("ns"),
            },
            [],
        ),
        ({"n": pa.null(), "day": pa.string()}, []),
        ({"n": pa.float64()}, ["column n is double, not BIGINT"]),
        ({"f": pa.int8()}, ["column f is int8, not DOUBLE"]),
        ({"d": pa.decimal128(10, 1)}, ["column d is decimal128(10, 1), not DECIMAL(10,2)"]),
        ({"d": pa.struct({"a": pa.int8()})}, ["column d is struct<a: int8>, not DECIMAL(10,2)"]),
        (
            {"day": pa.int32(), "x": pa.int8()},
            ["column x is not in the contract", "column day is int32, not DATE"],
        ),
    ],
)
def test_columns_of_another_type_are_named(
    types: dict[str, pa.DataType], differences: list[str]
) -> None:
    assert column_differences(given(**types), CONTRACT, is_loose=False) == differences


@pytest.mark.parametrize(
    ("names", "told"),
    [(("a", "a"), "have one name"), (("Day", "day"), "Day and day differ by case")],
)
def test_names_that_are_one_column_for_sql_are_refused(names: tuple[str, str], told: str) -> None:
    with pytest.raises(ContractBroken, match=told):
        contract_columns(
            arrow_columns(pa.schema([(name, pa.int8()) for name in names])), "the table"
        )
