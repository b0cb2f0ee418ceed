"""Inputs in the form of their annotation.

Tested here: `assets.inputs` over the days of a small lake. Not tested here: which sessions of
Spark there are (`engines/test_session_theirs.py`).
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from backfill_assets_tests.assets.projects import (
    DAYS,
    Deliveries,
    cause,
    materialize,
    orders_asset,
    rows,
)
from backfill_assets_tests.engine_choice import SparkSession

FIRST = "2024-01-01"


def read_as(
    lake: Path,
    annotated: Any,
    instance: dg.DagsterInstance,
    default: str = "arrow",
    **metadata: Any,
) -> tuple[list[Any], str]:
    seen: list[Any] = []

    def taken(orders: Any) -> pa.Table:
        seen.append(orders.read_all() if isinstance(orders, pa.RecordBatchReader) else orders)
        return pa.table({"day": pa.array([], pa.date32()), "n": pa.array([], pa.int64())})

    taken.__annotations__["orders"] = annotated
    asset = dg.asset(
        name="taken",
        ins={"orders": dg.AssetIn(key=["shop", "orders"], metadata=metadata)},
        partitions_def=DAYS,
        metadata={"partition_expr": "day"},
        backfill_policy=dg.BackfillPolicy.single_run(),
    )(taken)
    orders = orders_asset(Deliveries())
    result = materialize(
        lake, [asset, orders], FIRST, "2024-01-02", instance=instance, default_form=default
    )
    return seen, cause(result)


@pytest.mark.parametrize(
    ("annotated", "kind"),
    [
        (pd.DataFrame, pd.DataFrame),
        (pa.Table, pa.Table),
        (pa.RecordBatchReader, pa.Table),
        (duckdb.DuckDBPyRelation, duckdb.DuckDBPyRelation),
        (Any, pa.Table),
    ],
)
def test_an_input_has_its_annotations_type(
    lake: Path, instance: dg.DagsterInstance, annotated: Any, kind: Any
) -> None:
    (found,), _ = read_as(lake, annotated, instance)
    assert isinstance(found, kind)
    assert len(found) == 6


@pytest.mark.parametrize(
    "annotated", [pd.DataFrame, pa.Table, pa.RecordBatchReader, duckdb.DuckDBPyRelation]
)
@pytest.mark.parametrize("columns", [["amount", "day"], ["id"], []])
def test_an_input_has_the_columns_that_its_metadata_asks_for_in_their_order(
    lake: Path, instance: dg.DagsterInstance, annotated: Any, columns: Any
) -> None:
    (found,), words = read_as(lake, annotated, instance, columns=columns)
    named = found.column_names if isinstance(found, pa.Table) else found.columns
    assert not words
    assert list(named) == (list(columns) or ["day", "id", "amount"])
    assert len(found) == 6


@pytest.mark.parametrize(
    ("columns", "culprit"),
    [
        (["amount", "cents"], "asks for the column cents, which the table has not"),
        ("amount", "metadata={\"columns\": 'amount'} is no list of columns"),
        ([1], "is no list of columns"),
    ],
)
def test_columns_that_a_table_has_not_are_refused_by_name(
    lake: Path, instance: dg.DagsterInstance, columns: Any, culprit: str
) -> None:
    seen, words = read_as(lake, pa.Table, instance, columns=columns)
    assert not seen
    assert culprit in words
    assert "Name columns of day, id, amount" in words


def test_a_type_that_no_input_has_is_named(lake: Path, instance: dg.DagsterInstance) -> None:
    seen, words = read_as(lake, dict, instance)
    assert not seen
    assert "the type dict: no input of a lake has it" in words


@pytest.mark.parametrize("given", ["a session", "a function", "a resource"])
def test_frames_are_of_the_projects_own_session(
    spark: "SparkSession", lake: Path, instance: dg.DagsterInstance, given: str
) -> None:
    """Made, read and written by it; no engine of the lake's own starts."""
    import pyspark.sql

    forms: dict[str, Any] = {"a session": spark, "a function": lambda: spark}
    theirs = forms.get(given, SimpleNamespace(spark_session=spark))
    seen = []

    @dg.asset(
        ins={"orders": dg.AssetIn(key=["shop", "orders"])},
        partitions_def=DAYS,
        metadata={"partition_expr": "day"},
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def doubled(orders: pyspark.sql.DataFrame) -> pyspark.sql.DataFrame:
        seen.append(orders.sparkSession)
        return orders.selectExpr("day", "id", "amount * 2 AS amount")

    orders = orders_asset(Deliveries(), spark.createDataFrame)
    result = materialize(lake, [orders, doubled], FIRST, instance=instance, spark=theirs)
    assert result.success, cause(result)
    assert [row[2] for row in rows(lake, "doubled")] == [2, 4, 6]
    assert seen == [spark]
    assert not (lake / ".server").exists()
