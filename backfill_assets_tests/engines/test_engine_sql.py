"""Texts, bits and pieces of single values by the engine, as the words of
`kernel.tables.fingerprints` say them. Not here: whole tables against DuckDB (`test_auditor`,
`test_auditor_numbers`, `intake.test_arrival_rows`)."""

import hashlib
import math
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill_assets.engines.engine_sql import EngineRows, spark_sql
from backfill_assets.kernel.core.contracts import Column
from backfill_assets.kernel.tables.columns import arrow_type
from backfill_assets.kernel.tables.fingerprints import grouping_key, hash_pieces, row_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = 0x7FF8000000000000
POWERS = [2.0**n for n in range(-1074, 1024)]
NEAR = [x for p in POWERS for x in (math.nextafter(p, 0), math.nextafter(p, math.inf))]
DOUBLES = [*POWERS, *(-x for x in NEAR if x), 1.7976931348623157e308, math.inf, -math.inf]


def asked(
    spark: "SparkSession", column: Column, values: list[Any], *expressions: str
) -> list[tuple[Any, ...]]:
    table = pa.table(
        {"place": range(len(values)), column.name: pa.array(values, arrow_type(column.kind))}
    )
    rows = EngineRows(spark, given=spark.createDataFrame(table))
    found = rows.fetched(f"SELECT place, {', '.join(expressions)} FROM given")
    return [row[1:] for row in sorted(found, key=lambda row: row[0])]


def test_the_text_of_a_double_is_the_number_that_its_bits_are_at_every_power_of_two(
    spark: "SparkSession",
) -> None:
    column = Column("x", "DOUBLE", "x")
    found = asked(spark, column, DOUBLES, grouping_key(column))
    assert [int(text) for (text,) in found] == [
        struct.unpack("<q", struct.pack("<d", x))[0] for x in DOUBLES
    ]
    odd = asked(spark, column, [-0.0, 0.0, math.nan, None], grouping_key(column))
    assert [text for (text,) in odd] == ["0", "0", str(NAN), "-"]


def test_the_pieces_of_a_row_are_those_of_the_md5_of_its_text(spark: "SparkSession") -> None:
    column = Column("total", "DECIMAL(18,2)", "t")
    digits = hashlib.md5(b"-12.5", usedforsecurity=False).hexdigest()
    expected = (int(digits[:15], 16), int(digits[15:30], 16))
    frame = spark.createDataFrame(
        pa.table({"total": pa.array([Decimal("-12.50")], pa.decimal128(18, 2))})
    )
    hashed = f"SELECT {row_hash([column])} AS h FROM given"
    query = f"SELECT {', '.join(hash_pieces('h'))} FROM ({hashed})"
    assert EngineRows(spark, given=frame).fetched(query) == [expected]


def test_only_keys_that_engines_compare_in_several_ways_become_texts() -> None:
    assert grouping_key(Column("a b", "BIGINT", "k")) == '"a b"'
    assert grouping_key(Column("k", "ARRAY<INT>", "k")).startswith('CASE WHEN "k" IS NULL')


def test_names_of_frames_and_braces_of_texts_come_through() -> None:
    found = spark_sql("""SELECT '{x}' AS "side one" FROM side WHERE "a`b" = 1""", ["side"])
    assert found == "SELECT '{{x}}' AS `side one` FROM {side} WHERE `a``b` = 1"
