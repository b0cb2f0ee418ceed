"""Which names are functions of Spark that give the same for the same rows. Their use: `landing`."""

import pytest

from backfill_assets.core.functions import is_sparks


@pytest.mark.parametrize("name", ["bround", "variant_get", "st_area", "time_diff", "rank", "hll_union", "xpath_int"])
def test_a_function_of_sparks_is_known(name: str) -> None:
    assert is_sparks(name)


@pytest.mark.parametrize("name", ["my_own", "rand", "hll_sketch_agg", "read_files", "st"])
def test_any_other_may_be_somebodys_own(name: str) -> None:
    assert not is_sparks(name)
