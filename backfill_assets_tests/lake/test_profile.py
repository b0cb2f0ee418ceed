"""The profile of a frame: any cell that changes changes the fingerprint, no order does, and counts are exact.

Lives here: conforming, counting, samples. Does not live here: the fingerprint recomputed apart from Spark
(`end_to_end.test_independent_reader`).
"""

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.profiles import DayProfile
from backfill_assets.lake.profile import conform, profile, sample_keys
from backfill_assets_tests.builders import STAGING, day

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    Column("day", "DATE", "d"), Column("key", "STRING", "k"), Column("text", "STRING", "t", nullable=True),
    Column("more", "STRING", "m", nullable=True), Column("n", "BIGINT", "n", nullable=True),
)  # fmt: skip
TABLE = Contract("t", "t", COLUMNS, "day", ("key",), ())
SCHEMA = "day date, key string, text string, more string, n bigint"
Cells = tuple[date | None, str | None, str | None, str | None, int | None]
ROWS: list[Cells] = [
    (day(0), "a", "x", None, 1), (day(0), "b", None, "x", None), (day(0), "a", "", "", (1 << 62)),
    (day(0), "c", "x", None, 1 << 62), (day(1), "a", "x", "y", -5),
]  # fmt: skip


def profiled(spark: "SparkSession", rows: list[Cells]) -> dict[date | None, DayProfile]:
    return dict(profile(spark.createDataFrame(rows, SCHEMA), TABLE))


def test_counts_sums_nulls_and_repeated_keys_are_exact_per_day(spark: "SparkSession") -> None:
    found = profiled(spark, [*ROWS, (None, "z", None, None, 0)])
    first = found[day(0)]
    assert (first.rows, first.duplicates) == (4, 1)
    assert first.nulls == {"text": 1, "more": 2, "n": 1}
    assert first.sums == {"n": (1 << 63) + 1}, "a sum may leave 64 bits"
    assert (found[day(1)].rows, found[day(1)].sums) == (1, {"n": -5})
    assert found[None].rows == 1


def test_any_changed_cell_changes_the_fingerprint_and_no_order_does(spark: "SparkSession") -> None:
    rows = ROWS[:2]
    changed: list[list[Cells]] = [
        [(day(0), "a", None, "x", 1), rows[1]],  # a value moved to its neighbour
        [(day(0), "a", "x", "", 1), rows[1]],  # NULL became empty
        [(day(0), "a", "x", None, 0), rows[1]],
        [(day(0), "b", "x", None, 1), (day(0), "a", None, "x", None)],  # keys swapped
        [rows[0], rows[0]],
        [rows[0]],
        [*rows, rows[0], rows[0]],
    ]
    same = [rows, rows[::-1]]
    prints = [profiled(spark, r)[day(0)].fingerprint for r in (*same, *changed)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == len(prints) - 1


def test_the_fingerprint_does_not_depend_on_partitions_or_column_order(spark: "SparkSession") -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    turned = frame.select("n", "more", "text", "key", "day").repartition(7)
    assert profile(turned, TABLE) == profile(frame.coalesce(1), TABLE)


def frame_of(spark: "SparkSession", **columns: str) -> "DataFrame":
    return spark.createDataFrame([], ", ".join(f"{n} {t}" for n, t in columns.items()))


def test_every_difference_from_the_contract_is_named_at_once(spark: "SparkSession") -> None:
    with pytest.raises(ContractBroken) as told:
        conform(frame_of(spark, entity="int", extra="string", event_date="date"), STAGING)
    for difference in ("column value is missing", "column extra is not in the contract", "entity is int, not string"):
        assert difference in str(told.value)


@pytest.mark.parametrize(("given", "fits"), [("int", True), ("smallint", True), ("double", False), ("string", False)])
def test_whole_numbers_may_widen_and_nothing_else_is_cast(spark: "SparkSession", given: str, fits: bool) -> None:
    frame = frame_of(spark, event_date="date", value=given, entity="string")
    if fits:
        assert dict(conform(frame, STAGING).dtypes) == {"entity": "string", "value": "bigint", "event_date": "date"}
    else:
        with pytest.raises(ContractBroken, match="column value"):
            conform(frame, STAGING)


def test_samples_name_the_keys_that_break_a_rule(spark: "SparkSession") -> None:
    broken: list[Any] = [*ROWS, (day(0), None, "x", None, 1), (None, "lost", None, None, 1)]
    frame = spark.createDataFrame(broken, SCHEMA)
    assert sample_keys(frame, TABLE, day(0), "unique_key") == ['{"key":"a"}']
    assert sample_keys(frame, TABLE, day(0), "not_null") == ["{}"]
    assert sample_keys(frame, TABLE, None, "stray") == ['{"key":"lost"}']
    (cut,) = sample_keys(frame.selectExpr("repeat(key, 1000) AS key", "day"), TABLE, None, "stray")
    assert (len(cut), cut[-1]) == (200, "…"), "a key of a megabyte would go into every event and alert"
