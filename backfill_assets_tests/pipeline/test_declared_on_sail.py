"""Declared columns that Sail computes otherwise are refused by name, the others are not.

Tested here: which those are. Not tested here: the arithmetic, which random declarations hold on either engine
(`end_to_end.test_both_engines`).
"""

import pytest

from backfill_assets.pipeline.declared_on_sail import misfit
from backfill_assets.pipeline.transforms.aggregation import Agg, Aggregation, Value, trailing


@pytest.mark.parametrize(
    ("agg", "of", "refused"),
    [
        ("distinct", "STRING", "distinct"),
        ("max", "DOUBLE", "max of DOUBLE"),
        ("sum", "DOUBLE", "sum of DOUBLE"),
        ("avg", "DECIMAL(18,2)", "avg of DECIMAL"),
        ("sum", "DECIMAL(18,2)", ""),
        ("avg", "BIGINT", ""),
        ("last", "STRING", ""),
        ("days_since_last", "INT", ""),
    ],
)
def test_what_sail_computes_otherwise_is_named(agg: Agg, of: str, refused: str) -> None:
    told = misfit(Aggregation("column", agg, Value("x", of), trailing(7)))
    assert told.startswith(refused) if refused else not told
