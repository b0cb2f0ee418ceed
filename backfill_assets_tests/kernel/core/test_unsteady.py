"""Which functions are known as Spark's own.

Not tested here: the searches for these names (`engines.test_frames`, `intake.test_select`).
"""

import pytest

from backfill_assets.kernel.core.unsteady import is_spark_function


@pytest.mark.parametrize(
    "name", ["bround", "variant_get", "st_area", "time_diff", "rank", "hll_union", "xpath_int"]
)
def test_a_function_of_sparks_is_known(name: str) -> None:
    assert is_spark_function(name)


@pytest.mark.parametrize("name", ["my_own", "rand", "hll_sketch_agg", "read_files", "st"])
def test_any_other_may_be_somebodys_own(name: str) -> None:
    assert not is_spark_function(name)
