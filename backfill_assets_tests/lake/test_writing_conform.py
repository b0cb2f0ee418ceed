"""Conforming a frame to a contract, and the audit of awkward values that Spark wrote.

Tested here: `lake.writing.conform`, and `lake.audit` on files of Spark. Not tested here: the other figures
(`test_audit`).
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.core.contracts import Column, Contract, Rule
from backfill_assets.core.errors import ContractBroken
from backfill_assets.lake.audit import audit
from backfill_assets.lake.home import Lake
from backfill_assets.lake.writing import conform, stage
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.on_spark("its files are audited")

COLUMNS = (
    Column("day", "DATE", "d"), Column("key", "STRING", "k"), Column("text", "STRING", "t", nullable=True),
    Column("at", "TIMESTAMP", "a", nullable=True), Column("n", "BIGINT", "n", nullable=True),
    Column("i", "INT", "i", nullable=True), Column("on", "DATE", "o", nullable=True),
)  # fmt: skip
RULES = (Rule("i_is_whole", "i >= 0", "r"), Rule("once", "count(*) = 1 AND max(length(text)) < 9", "r", per=("key",)))
TABLE = Contract("t", "t", COLUMNS, "day", ("key",), (), rules=RULES)
SCHEMA = "day date, key string, text string, at timestamp, n bigint, i int, on date"
OLD, FAR = datetime(1583, 1, 1, 0, 0, 0, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
AWKWARD: list[tuple[Any, ...]] = [
    (day(0), "a", "é|2:x\n\x00", OLD, 2**63 - 1, -(2**31), date(1, 1, 1)),
    (day(0), "a", "", FAR, -(2**63), 2**31 - 1, date(9999, 12, 31)),
    (day(0), "b", None, None, None, None, None),
    (day(1), "ключ", "😀" * 3, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), 0, 0, date(1969, 12, 31)),
    (day(1), "-", "1:-", datetime(2024, 3, 31, 2, 30, tzinfo=UTC), -1, 1, date(1970, 1, 1)),
    (None, None, "x" * 5000, None, 5, None, None),
]  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return bare_lake(tmp_path)


def test_awkward_rows_that_spark_wrote_are_audited_as_they_are(spark: "SparkSession", lake: Lake) -> None:
    frame = conform(spark.createDataFrame(AWKWARD, SCHEMA), TABLE)
    by_audit = audit(lake, stage(lake, TABLE, frame).paths, TABLE)
    assert by_audit[day(0)].duplicates == 1
    assert by_audit[day(0)].broken == {"i_is_whole": 1, "once": 1}
    assert by_audit[None].rows == 1


def test_values_of_every_type_that_spark_wrote_are_audited_as_they_are(spark: "SparkSession", lake: Lake) -> None:
    """-0.0 is 0.0 and NaN is NaN; NULL within an array is no NULL; a value is not its text."""
    nan, far = float("nan"), float("inf")
    values: list[tuple[Any, ...]] = [
        (True, -0.0, Decimal("-0.50"), b"\x00\xff", ["a", None, "1:a"], [nan, None, -0.0], [Decimal("1.10")], [OLD]),
        (False, 0.0, Decimal("100.00"), b"", [], [0.0], [None], [None, FAR]),
        (None, nan, Decimal("9" * 16 + ".99"), None, None, None, None, None),
        (True, far, Decimal("-3.99"), b"-", ["-"], [far, 5e-324], [], []),
        (False, -1.7976931348623157e308, Decimal("0.01"), b"|", ["", "é|"], [], [Decimal("-9.99")], [OLD]),
        (False, 3.9999999999999996, None, b"a", [None], [0.1], [Decimal("0.00")], [FAR]),
    ]
    kinds = ("BOOLEAN", "DOUBLE", "DECIMAL(18,2)", "BINARY", "ARRAY<STRING>", "ARRAY<DOUBLE>", "ARRAY<DECIMAL(3,2)>",
             "ARRAY<TIMESTAMP>")  # fmt: skip
    columns = [Column(f"c{i}", kind, "c", nullable=True) for i, kind in enumerate(kinds)]
    made = Contract("t", "t", (Column("day", "DATE", "d"), *columns), "day", (), ())
    rows = [(day(i // 2), *row) for i, row in enumerate(values)]
    frame = conform(spark.createDataFrame(rows, ", ".join(f"{c.name} {c.type}" for c in made.columns)), made)
    staged = stage(lake, made, frame)
    by_audit = audit(lake, staged.paths, made)
    assert {d: p.sums["c2"] for d, p in by_audit.items() if d} == {
        day(0): Decimal("99.50"), day(1): Decimal("9" * 16 + ".99") - Decimal("3.99"), day(2): Decimal("0.01"),
    }  # fmt: skip
    assert by_audit[day(1)].histograms["c1"] == {63: 1}, "NaN has no bucket"


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
