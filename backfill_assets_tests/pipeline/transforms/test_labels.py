"""Labels: outcomes over the horizon, their rules and when they are mature, against an oracle that joins every event.

Tested here: `pipeline.transforms.declared.labels` by measure and rule. Not tested here: when days are rebuilt to ripen
(`core.states`).
"""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from backfill_assets.pipeline.transforms.aggregation import Outcome
from backfill_assets_tests.pipeline import built_in
from backfill_assets_tests.pipeline.built_in import contract, labels, outcome_by_rule
from backfill_assets_tests.pipeline.frames import assert_same, handed, in_parts, to_spark
from backfill_assets_tests.pipeline.oracle import Rules, answers, fetch
from backfill_assets_tests.pipeline.worlds import TRIED_IN_SPARK, World, aware, worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

STAGING = contract("staging").column_names


def outcome_of(rules: Rules) -> Outcome:
    """What the rules say about labels, as the transform takes it."""
    return outcome_by_rule(rules.measure, rules.rule, rules.horizon_days, rules.horizon_days + rules.maturity_days)


@settings(TRIED_IN_SPARK, max_examples=5)
@given(worlds())
def test_rows_are_those_of_the_oracle_given_the_days_that_the_contract_asks_for(
    spark: "SparkSession", world: World
) -> None:
    rules = world.rules
    contract = built_in.contracts(rules.windows_days, rules.horizon_days, rules.maturity_days)["labels"]
    answered = answers(world.raw, rules)
    rows = to_spark(spark, fetch(answered, "staging", STAGING), world.partitions)
    columns = built_in.contracts(rules.windows_days)["features_as_known"].column_names
    known = to_spark(spark, fetch(answered, "features_as_known", columns), world.partitions)
    made = in_parts(
        world,
        lambda part: labels(handed(rows, contract, part, world), known, part, outcome_of(rules), aware(rules.frontier)),
    )
    assert_same(made, fetch(answered, "labels", contract.column_names), contract, world)
