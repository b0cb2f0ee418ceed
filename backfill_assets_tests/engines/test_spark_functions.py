"""Which functions are known as Spark's own, and which of them raise for no row.

Not tested here: the searches for these names (`intake.test_select`, `pipeline.test_expressions`).
"""

import pytest

from backfill_assets.engines.spark_functions import is_spark_function
from backfill_assets.kernel.core.unsteady import UNDECIDED


@pytest.mark.parametrize(
    "name", ["bround", "variant_get", "st_area", "time_diff", "rank", "hll_union", "xpath_int"]
)
def test_a_function_of_sparks_is_known(name: str) -> None:
    assert is_spark_function(name)


@pytest.mark.parametrize("name", ["my_own", "rand", "hll_sketch_agg", "read_files", "st"])
def test_any_other_may_be_somebodys_own(name: str) -> None:
    assert not is_spark_function(name)


def test_some_of_sparks_functions_may_raise_for_a_row() -> None:
    names = ("bround", "variant_get", "make_date", "my_own")
    assert [n for n in names if is_spark_function(n, may_raise=False)] == ["bround"]


def test_what_the_row_does_not_decide_is_no_function_that_gives_the_same() -> None:
    assert [n for n in sorted(UNDECIDED) if is_spark_function(n)] == []
