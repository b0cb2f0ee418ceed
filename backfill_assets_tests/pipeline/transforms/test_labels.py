"""Labels: outcomes over the horizon, their rules and when they are mature, against an oracle that joins every event.

Tested here: `pipeline.transforms.declared.labels` by measure and rule. Not tested here: when days are rebuilt to ripen
(`core.states`).
"""

from datetime import UTC, date, datetime, timedelta, timezone
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from pyspark.sql import DataFrame

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.pipeline.transforms.aggregation import Outcome
from backfill_assets_tests.pipeline import built_in
from backfill_assets_tests.pipeline.built_in import contract, labels, outcome_by_rule
from backfill_assets_tests.pipeline.frames import Row, assert_same, handed, in_parts, rows_of, to_spark
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


EVENT = date(2024, 3, 10)
LONG_AGO, LATER = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def labels_around(
    spark: "SparkSession", value: int, outcome: Outcome, frontier: datetime | None = LATER, apart: bool = False
) -> list[Row]:
    """(days from the event to the day, forward, backward, label, state) of the week around a single event's day, made
    at once or each day `apart`."""
    staging = spark.sql(
        f"SELECT 'A' AS entity, 'A1' AS event_key, TIMESTAMP'{EVENT}' AS event_ts, DATE'{EVENT}' AS event_date, "
        f"{value}L AS value, 1 AS flag, "
        "cast(NULL AS timestamp) AS known_until"
    )
    week = DayRange(EVENT - 3 * ONE_DAY, EVENT + 4 * ONE_DAY)
    asked = spark.sql(f"SELECT 'A' AS entity, explode(sequence(DATE'{week.start}', DATE'{week.last}')) AS feature_date")
    chunks = [DayRange(d, d + ONE_DAY) for d in week] if apart else [week]
    made = reduce(DataFrame.union, (labels(staging, asked, chunk, outcome, frontier) for chunk in chunks))
    found = rows_of(made.toArrow())
    return sorted(((row[5] - EVENT).days, *row[1:5]) for row in found)


@pytest.mark.parametrize("apart", [False, True], ids=["as a week", "day by day"])
def test_an_event_is_ahead_of_the_days_before_it_and_behind_its_own_and_those_after(
    spark: "SparkSession", apart: bool
) -> None:
    found = labels_around(spark, 7, outcome_by_rule("value", "any", 2, 2), apart=apart)
    assert [row[:4] for row in found] == [
        (-3, 0, 0, 0), (-2, 7, 0, 1), (-1, 7, 0, 1), (0, 0, 7, 0), (1, 0, 7, 0), (2, 0, 0, 0), (3, 0, 0, 0)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "rule", "positive"),
    [(7, "any", [-1]), (7, "rise", [-1]), (-7, "any", []), (-7, "rise", [0])],
    ids=["more is any", "more is a rise", "less is not any", "the end of a loss is a rise"],
)
def test_the_rules_look_at_sums_not_at_events(
    spark: "SparkSession", value: int, rule: str, positive: list[int]
) -> None:
    found = labels_around(spark, value, outcome_by_rule("value", rule, 1, 1))
    assert [row[0] for row in found if row[3] == 1] == positive


@pytest.mark.parametrize(
    ("frontier", "last_mature"),
    [
        (datetime(2024, 3, 15, tzinfo=UTC), 0),
        (datetime(2024, 3, 15, tzinfo=UTC) - timedelta(microseconds=1), -1),
        (datetime(2024, 3, 15, 1, tzinfo=timezone(timedelta(hours=2))), -1),
        (LATER, 3),
        (LONG_AGO, None),
        (None, None),
    ],
    ids=[
        "at the instant",
        "just before it",
        "whatever the zone it is told in",
        "long after",
        "long before",
        "no frontier",
    ],
)
def test_a_day_is_mature_once_the_frontier_has_reached_its_end_plus_the_days(
    spark: "SparkSession", frontier: datetime | None, last_mature: int | None
) -> None:
    found = labels_around(spark, 1, outcome_by_rule("events", "any", 1, 4), frontier)
    mature = [row[0] for row in found if row[4] == "mature"]
    assert mature == ([] if last_mature is None else list(range(-3, last_mature + 1)))
    assert {row[4] for row in found} <= {"mature", "provisional"}
