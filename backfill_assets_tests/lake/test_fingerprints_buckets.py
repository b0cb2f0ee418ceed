"""Buckets as DuckDB counts them: bits of the whole part, with the sign; what is no number has none.

Tested here: `lake.fingerprints`. Not tested here: drift (`core.test_drift`).
"""

import duckdb
import pytest

from backfill_assets.core.contracts import Column
from backfill_assets.lake.fingerprints import bucket


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("BIGINT", "0", 0),
        ("BIGINT", "7", 3),
        ("BIGINT", "-8", -4),
        ("BIGINT", "-9223372036854775808", -64),
        ("BIGINT", "NULL", None),
        ("BOOLEAN", "true", 1),
        ("DECIMAL(9,2)", "3.99", 2),
        ("DOUBLE", "-0.5", 0),
        ("DOUBLE", "'NaN'", None),
        ("DOUBLE", "'inf'", 63),
    ],
)
def test_the_bucket_of_a_number_is_how_many_bits_its_whole_part_has(
    kind: str, value: str, expected: int | None
) -> None:
    column = Column("n", kind, "a number", nullable=True)
    query = f"SELECT {bucket(column)} FROM (SELECT CAST({value} AS {kind}) AS n)"
    assert duckdb.execute(query).fetchall() == [(expected,)]
