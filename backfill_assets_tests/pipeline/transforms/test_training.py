"""Training rows: mature labels only, joined to what was known, against the oracle's join.

Tested here: `pipeline.transforms.declared.training`. Not tested here: that incomplete days stay out (`load.derived`).
"""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from backfill_assets_tests.pipeline.built_in import contracts, training
from backfill_assets_tests.pipeline.frames import assert_same, in_parts, to_spark
from backfill_assets_tests.pipeline.oracle import answers, fetch
from backfill_assets_tests.pipeline.worlds import TRIED_IN_SPARK, World, worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do


@settings(TRIED_IN_SPARK, max_examples=3)
@given(worlds())
def test_rows_are_those_of_the_oracle_whatever_the_ranges(spark: "SparkSession", world: World) -> None:
    rules = world.rules
    answered = answers(world.raw, rules)
    by_name = contracts(rules.windows_days, rules.horizon_days, rules.maturity_days)
    inputs = [by_name["features_as_known"], by_name["labels"]]
    known, labels = (to_spark(spark, fetch(answered, c.name, c.column_names), world.partitions) for c in inputs)
    contract = by_name["training"]
    made = in_parts(world, lambda part: training(known, labels, part))
    assert_same(made, fetch(answered, "training", contract.column_names), contract, world)
