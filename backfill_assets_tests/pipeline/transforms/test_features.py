"""Features as known now, against an oracle that joins every day with every current event of its window.

Tested here: `pipeline.transforms.declared.now` with the built-in columns. Not tested here: the window arithmetic by
itself (`test_intervals.py`).
"""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from backfill_assets_tests.pipeline import built_in
from backfill_assets_tests.pipeline.built_in import contract, features
from backfill_assets_tests.pipeline.frames import assert_same, handed, in_parts, to_spark
from backfill_assets_tests.pipeline.oracle import answers, fetch
from backfill_assets_tests.pipeline.worlds import TRIED_IN_SPARK, World, worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

STAGING = contract("staging").column_names


@settings(TRIED_IN_SPARK, max_examples=4)
@given(worlds())
def test_rows_are_those_of_the_oracle_given_the_days_that_the_contract_asks_for(
    spark: "SparkSession", world: World
) -> None:
    windows = world.rules.windows_days
    contract = built_in.contracts(windows)["features"]
    answered = answers(world.raw, world.rules)
    rows = to_spark(spark, fetch(answered, "staging", STAGING), world.partitions)
    made = in_parts(world, lambda part: features(handed(rows, contract, part, world), part, windows))
    assert_same(made, fetch(answered, "features", contract.column_names), contract, world)
