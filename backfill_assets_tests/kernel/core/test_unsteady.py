"""Which functions are known as Spark's own, and which columns name a row.

Not tested here: the searches for these names (`engines.test_frames`, `intake.test_select`).
"""

import pytest

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.unsteady import identifying_columns, is_spark_function


def test_a_key_holds_the_day_or_the_time_that_decides_it() -> None:
    columns = (
        Column("seq", "BIGINT", "n"),
        Column("arrival_ts", "TIMESTAMP", "t"),
        Column("arrival_date", "DATE", "d"),
    )
    raw = Contract("raw", "r", columns, "arrival_date", ("seq",), ())
    assert identifying_columns([raw]) == [
        frozenset({"seq", "arrival_date"}),
        frozenset({"seq", "arrival_ts"}),
    ]


@pytest.mark.parametrize(
    "name", ["bround", "variant_get", "st_area", "time_diff", "rank", "hll_union", "xpath_int"]
)
def test_a_function_of_sparks_is_known(name: str) -> None:
    assert is_spark_function(name)


@pytest.mark.parametrize("name", ["my_own", "rand", "hll_sketch_agg", "read_files", "st"])
def test_any_other_may_be_somebodys_own(name: str) -> None:
    assert not is_spark_function(name)
