"""Conforming a frame to a contract, and the audit of awkward values that Spark wrote.
Not here: the other figures (`test_audit`)."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from backfill_assets.engines.auditor import audit_by_engine, take_digests
from backfill_assets.engines.frame_files import conformed_frame, stage_frame
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.contracts import Column, Contract, Rule
from backfill_assets.kernel.core.errors import ContractBroken
from backfill_assets.kernel.log.log import FILE_DIGEST_CHARS
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets_tests.builders import STAGING, day

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.on_spark("its files are audited")

COLUMNS = (
    Column("day", "DATE", "d"),
    Column("key", "STRING", "k"),
    Column("text", "STRING", "t", nullable=True),
    Column("at", "TIMESTAMP", "a", nullable=True),
    Column("n", "BIGINT", "n", nullable=True),
    Column("i", "INT", "i", nullable=True),
    Column("on", "DATE", "o", nullable=True),
)
RULES = (
    Rule("i_is_whole", "i >= 0", "r"),
    Rule("once", "count(*) = 1 AND max(length(text)) < 9", "r", per=("key",)),
)
TABLE = Contract("t", "t", COLUMNS, "day", ("key",), (), rules=RULES)
SCHEMA = "day date, key string, text string, at timestamp, n bigint, i int, on date"
OLD, FAR = (
    datetime(1583, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
)
AWKWARD: list[tuple[Any, ...]] = [
    (day(0), "a", "é|2:x\n\x00", OLD, 2**63 - 1, -(2**31), date(1, 1, 1)),
    (day(0), "a", "", FAR, -(2**63), 2**31 - 1, date(9999, 12, 31)),
    (day(0), "b", None, None, None, None, None),
    (
        day(1),
        "ключ",
        "😀" * 3,
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        0,
        0,
        date(1969, 12, 31),
    ),
    (day(1), "-", "1:-", datetime(2024, 3, 31, 2, 30, tzinfo=UTC), -1, 1, date(1970, 1, 1)),
    (None, None, "x" * 5000, None, 5, None, None),
]


def frame_of(spark: "SparkSession", **columns: str) -> "DataFrame":
    return spark.createDataFrame([], ", ".join(f"{n} {t}" for n, t in columns.items()))


def test_every_difference_from_the_contract_is_named_at_once(spark: "SparkSession") -> None:
    with pytest.raises(ContractBroken) as told:
        conformed_frame(frame_of(spark, entity="int", extra="string", event_date="date"), STAGING)
    for difference in (
        "column value is missing",
        "column extra is not in the contract",
        "entity is int, not string",
    ):
        assert difference in str(told.value)


@pytest.mark.parametrize(
    ("given", "fits"), [("int", True), ("smallint", True), ("double", False), ("string", False)]
)
def test_whole_numbers_may_widen_and_nothing_else_is_cast(
    spark: "SparkSession", given: str, fits: bool
) -> None:
    frame = frame_of(spark, event_date="date", value=given, entity="string")
    if fits:
        assert dict(conformed_frame(frame, STAGING).dtypes) == {
            "entity": "string",
            "value": "bigint",
            "event_date": "date",
        }
    else:
        with pytest.raises(ContractBroken, match="column value"):
            conformed_frame(frame, STAGING)


def test_spark_counts_what_duckdb_counts_and_both_refuse_bytes_that_are_no_text(
    spark: "SparkSession", lake: Lake
) -> None:
    made = replace(TABLE, rules=(RULES[0], Rule("once", "count(*) = 1", "r", per=("key",))))
    frame = spark.createDataFrame(AWKWARD, SCHEMA)
    staged = stage_frame(lake, made, conformed_frame(frame, made), 1)
    by_spark = audit_by_engine(LakeSession(lake), staged, made, {"some": ("day", "at")})
    assert by_spark == audit_files(lake, staged.paths, made, {"some": ("day", "at")})
    assert {p.broken["i_is_whole"] for p in by_spark.values() if p.broken} == {1}
    read = {f.name: staged.table.sha256(f.name)[:FILE_DIGEST_CHARS] for f in staged.files}
    assert {f.engine_digest for f in staged.files} == {""}, (
        "where the engine computes here, the commit reads the files"
    )
    take_digests(spark, staged)
    assert {f.name: f.engine_digest for f in staged.files} == read
    assert len(read) > 1
    torn = conformed_frame(frame.withColumn("text", F.expr("CAST(X'C328' AS STRING)")), made)
    staged = stage_frame(lake, made, torn, 1)
    refusal = r"the table t: what was computed cannot be read back: .*Nothing was written"
    with pytest.raises(ContractBroken, match=refusal):
        audit_files(lake, staged.paths, made)
    with pytest.raises(ContractBroken, match=refusal):
        audit_by_engine(LakeSession(lake), staged, made, {})
