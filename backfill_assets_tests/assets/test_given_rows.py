"""Rows that an asset returned are the same rows in the files whichever library made them, or are
refused by name. Not here: single types and values (`test_given_columns`), Spark sessions that are
not ours (`test_session_theirs`)."""

import datetime as dt
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.assets.given_rows import GivenRows
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError, ContractBroken
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.tables.columns import arrow_type
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.strategies import examples, near_days

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {
    "k": "STRING",
    "n": "BIGINT",
    "i": "INT",
    "f": "DOUBLE",
    "b": "BOOLEAN",
    "d": "DECIMAL(10,2)",
    "at": "TIMESTAMP",
    "on": "DATE",
    "raw": "BINARY",
    "texts": "ARRAY<STRING>",
    "day": "DATE",
}
CONTRACT = Contract(
    "t", "", tuple(Column(n, t, "", nullable=True) for n, t in TYPES.items()), "day", ("k",), ()
)
SCHEMA = pa.schema([(c.name, arrow_type(c.kind)) for c in CONTRACT.columns])
SMALL = Contract(
    "t",
    "",
    (Column("k", "STRING", ""), Column("n", "BIGINT", ""), Column("day", "DATE", "")),
    "day",
    ("k",),
    (),
)
SCHEMA_OF_SMALL = pa.schema([SCHEMA.field(name) for name in SMALL.column_names])
DAY = dt.date(2024, 3, 1)
FIRST = dt.datetime(1, 1, 2)  # noqa: DTZ001  # hypothesis adds the zone


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return bare_lake(tmp_path_factory.mktemp("given"))


def staged(
    lake: Lake, rows: Any, contract: Contract = SMALL
) -> Mapping[dt.date | None, DayProfile]:
    """The figures of the rows as they were staged, which leaves nothing behind."""
    found = GivenRows.of(rows).stage(lake, contract)
    try:
        for file in found.files:
            types = {f.name: f.type for f in pq.read_schema(Path(file.path))}
            assert types == {
                c.name: arrow_type(c.kind) for c in contract.columns if c.name != "day"
            }
        return audit_files(lake, found.paths, contract)
    finally:
        found.drop()


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
INSTANTS = st.datetimes(FIRST, FIRST.replace(year=9999), timezones=st.just(dt.UTC))
LINE = st.fixed_dictionaries(
    {
        "k": TEXT,
        "n": nullable(st.integers(-(2**63), 2**63 - 1)),
        "i": nullable(st.integers(-(2**31), 2**31 - 1)),
        "f": nullable(st.floats(allow_nan=False)),
        "b": nullable(st.booleans()),
        "d": nullable(st.decimals(-(10**7), 10**7, places=2)),
        "on": nullable(st.dates(dt.date(1, 1, 1))),
        "at": nullable(INSTANTS),
        "raw": nullable(st.binary(max_size=5)),
        "texts": nullable(st.lists(nullable(TEXT), max_size=3)),
        "day": nullable(near_days),
    }
)


VIEWS = {
    pa.string(): pa.string_view(),
    pa.binary(): pa.binary_view(),
    pa.list_(pa.string()): pa.large_list(pa.string_view()),
}


class PolarsLike:
    """Rows as polars gives them to others: views of texts, one stream after the other."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.cast(
            pa.schema([(f.name, VIEWS.get(f.type, f.type)) for f in table.schema])
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class LazyLike:
    """A plan of rows as polars has them."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def collect_schema(self) -> pa.Schema:
        return self.table.schema

    def head(self, count: int) -> "LazyLike":
        return LazyLike(self.table.slice(0, count))

    def collect(self) -> PolarsLike:
        return PolarsLike(self.table)


def as_pandas(table: pa.Table) -> pd.DataFrame:
    """Whole numbers with missing ones in pandas' own types, as numpy has none; instants that it
    has."""
    return table.to_pandas(
        types_mapper={pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}.get,
        timestamp_as_object=True,
    )


DOORS: dict[str, Callable[[pa.Table], Any]] = {
    "reader": lambda table: table.to_reader(max_chunksize=2),
    "pandas": as_pandas,
    "like polars": PolarsLike,
    "like a lazy frame": LazyLike,
    "shuffled columns": lambda table: table.select([*reversed(table.schema.names)]),
}


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(st.lists(LINE, max_size=8))
def test_equal_rows_are_equal_by_every_door_that_needs_no_engine(
    lake: Lake, lines: list[dict[str, Any]]
) -> None:
    table = pa.Table.from_pylist(lines, SCHEMA)
    wanted = staged(lake, table, CONTRACT)
    days = [line["day"] for line in lines]
    assert {d: p.rows for d, p in wanted.items()} == {d: days.count(d) for d in days}
    assert {
        name: staged(lake, door(table), CONTRACT) for name, door in DOORS.items()
    } == dict.fromkeys(DOORS, wanted)


@pytest.fixture(scope="module")
def lines() -> pa.Table:
    """Rows at the edges of what types hold."""
    old = dt.datetime(1800, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)
    full = {
        "k": "é",
        "n": -(2**63),
        "i": 2**31 - 1,
        "f": -0.0,
        "b": True,
        "d": Decimal("-99999999.99"),
        "at": old,
        "on": dt.date(1, 1, 1),
        "raw": b"\0",
        "texts": ["a", None, ""],
        "day": DAY,
    }
    return pa.Table.from_pylist(
        [full, {"k": "none", "day": DAY}, {**full, "f": float("inf"), "day": None}], SCHEMA
    )


def test_a_frame_of_spark_gives_equal_rows(
    spark: "SparkSession", lake: Lake, lines: pa.Table
) -> None:
    frame = spark.createDataFrame(lines)
    assert GivenRows.of(frame).columns == GivenRows.of(lines).columns == CONTRACT.columns
    assert staged(lake, frame, CONTRACT) == staged(lake, lines, CONTRACT)
    narrow = (
        frame.selectExpr("*", "CAST(n AS SMALLINT) AS more")
        .drop("n")
        .where("k = 'none'")
        .withColumnRenamed("more", "n")
    )
    assert staged(lake, narrow, CONTRACT) == staged(lake, lines.slice(1, 1), CONTRACT)


def test_an_error_in_the_midst_of_a_reader_is_raised_as_it_is_and_leaves_nothing(
    lake: Lake,
) -> None:
    def torn() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"k": "a", "n": 1, "day": DAY}])
        raise OSError("the source went away")

    schema = pa.RecordBatch.from_pylist([{"k": "a", "n": 1, "day": DAY}]).schema
    with pytest.raises(OSError, match="the source went away"):
        GivenRows.of(pa.RecordBatchReader.from_batches(schema, torn())).stage(lake, SMALL)
    assert not list(lake.root.rglob("*.parquet"))


def test_misfits_are_counted_per_column_and_nothing_is_written(lake: Lake) -> None:
    at = pa.array([0, 1, 2], pa.timestamp("us"))
    table = pa.table(
        {"k": ["a", "b", "c"], "n": pa.array([2**63, 1, 2**64 - 1], pa.uint64()), "day": at}
    )
    with pytest.raises(
        ContractBroken, match=r"of 3 rows 2 values of the column n .*; 2 values of the column day"
    ):
        GivenRows.of(table).stage(lake, SMALL)
    assert not list(lake.root.rglob("*.parquet"))
    assert not list(lake.root.glob(".staging/t/*"))


def test_text_that_is_no_utf8_is_refused_at_the_latest_by_the_audit(lake: Lake) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    with pytest.raises(ContractBroken, match=r"(?i)cannot be read back|utf"):
        staged(lake, pa.table({"k": bad, "n": [1], "day": [DAY]}))


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame(columns=[*SMALL.column_names]),
        pd.DataFrame({"k": [], "n": [], "day": []}),
        pa.table(dict.fromkeys(SMALL.column_names, pa.nulls(0))),
        SCHEMA_OF_SMALL.empty_table().to_reader(),
    ],
    ids=["pandas without types", "pandas with wrong types", "arrow without types", "a reader"],
)
def test_no_rows_are_no_files_whatever_types_their_columns_have(lake: Lake, rows: Any) -> None:
    found = GivenRows.of(rows).stage(lake, SMALL)
    assert found.files == ()
    found.drop()


@pytest.mark.parametrize("value", [None, 3, [{"k": 1}], {"k": [1]}], ids=repr)
def test_what_is_no_table_of_rows_is_refused_with_what_is_one(value: object) -> None:
    with pytest.raises(
        BackfillError, match=r"it is no table of rows.*Return a Spark DataFrame, an Arrow Table"
    ):
        GivenRows.of(value)


def test_rows_of_pandas_and_arrow_import_no_spark(processes: None, tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
import pandas as pd
from backfill_assets.assets.given_rows import GivenRows
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.assets.test_given_rows import DAY, SMALL
GivenRows.of(pd.DataFrame({"k": ["a"], "n": [1], "day": [DAY]})).stage(bare_lake(Path(sys.argv[1])), SMALL).drop()
print([name for name in sys.modules if name.partition(".")[0] in ("pyspark", "pysail", "py4j", "grpc")])
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
    assert not (tmp_path / ".server").exists()


# What pandas makes of rows, and what it is.
PANDAS: dict[str, tuple[dict[str, Any], list[tuple[Any, Any]]]] = {
    "whole numbers with a missing one": (
        {"k": ["a", "b"], "n": [1, None]},
        [("a", 1), ("b", None)],
    ),
    "NaN among texts": ({"k": ["a", float("nan")], "n": [1, 2]}, [("a", 1), (None, 2)]),
    "a category": ({"k": pd.Categorical(["a", None]), "n": [1, 2]}, [("a", 1), (None, 2)]),
    "numbers of its own": (
        {"k": ["a", "b"], "n": pd.array([1, None], "Int64")},
        [("a", 1), ("b", None)],
    ),
    "nothing but NaN": ({"k": ["a"], "n": [float("nan")]}, [("a", None)]),
    "nothing but None": ({"k": ["a"], "n": [None]}, [("a", None)]),
}


@pytest.mark.parametrize("made", PANDAS)
def test_pandas_rows_are_what_pandas_means_by_them(lake: Lake, made: str) -> None:
    cells, wanted = PANDAS[made]
    frame = pd.DataFrame({**cells, "day": pd.Timestamp(DAY)}, index=[7] * len(wanted))
    table = pa.Table.from_pylist([{"k": k, "n": n, "day": DAY} for k, n in wanted], SCHEMA_OF_SMALL)
    assert staged(lake, frame) == staged(lake, table)
