"""Features as known at the cut, against an oracle that asks of every version and day whether it was known.

Tested here: `pipeline.transforms.declared.at_cut` with the built-in columns. Not tested here: the window arithmetic
by itself (`test_intervals.py`), and which days wait for their cut (`core.states`).
"""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from backfill_assets_tests.pipeline import built_in
from backfill_assets_tests.pipeline.built_in import contract, features_as_known
from backfill_assets_tests.pipeline.frames import assert_same, handed, in_parts, to_spark
from backfill_assets_tests.pipeline.oracle import answers, fetch
from backfill_assets_tests.pipeline.worlds import TRIED_IN_SPARK, World, worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

STAGING = contract("staging").column_names


@settings(TRIED_IN_SPARK, max_examples=5)
@given(worlds())
def test_rows_are_those_of_the_oracle_given_the_days_that_the_contract_asks_for(
    spark: "SparkSession", world: World
) -> None:
    windows, grace = world.rules.windows_days, world.rules.grace_hours
    contract = built_in.contracts(windows)["features_as_known"]
    answered = answers(world.raw, world.rules)
    rows = to_spark(spark, fetch(answered, "staging", STAGING), world.partitions)
    made = in_parts(world, lambda part: features_as_known(handed(rows, contract, part, world), part, windows, grace))
    assert_same(made, fetch(answered, "features_as_known", contract.column_names), contract, world)
