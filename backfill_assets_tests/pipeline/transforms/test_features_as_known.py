"""Features as known at the cut, against an oracle that asks of every version and day whether it was known.

Tested here: `pipeline.transforms.declared.at_cut` with the built-in columns. Not tested here: the window arithmetic
by itself (`test_intervals.py`), and which days wait for their cut (`core.states`).
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets_tests.pipeline import built_in
from backfill_assets_tests.pipeline.built_in import contract, features_as_known
from backfill_assets_tests.pipeline.frames import assert_same, handed, in_parts, rows_of, to_spark
from backfill_assets_tests.pipeline.oracle import answers, fetch
from backfill_assets_tests.pipeline.worlds import FIRST, INSTANT, TRIED_IN_SPARK, World, worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.users_do

STAGING = contract("staging").column_names
MIDNIGHT = datetime(FIRST.year, FIRST.month, FIRST.day)  # noqa: DTZ001 - Arrow's plain times, meant as UTC
TICK = timedelta(microseconds=1)


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


@pytest.mark.parametrize("grace_hours", [0, 6, 24, 24 * 365])
@pytest.mark.parametrize(
    ("since", "until", "known"),
    [(-TICK, None, True), (timedelta(0), None, False), (-ONE_DAY, timedelta(0), True), (-ONE_DAY, -TICK, False)],
    ids=["arrived just before", "arrived at the cut", "replaced at the cut", "replaced just before"],
)
def test_the_cut_lies_between_what_came_before_and_what_came_at_it(
    spark: "SparkSession", grace_hours: int, since: timedelta, until: timedelta | None, known: bool
) -> None:
    cut = MIDNIGHT + ONE_DAY + timedelta(hours=grace_hours)
    schema = pa.schema(
        [
            ("entity", pa.string()),
            ("event_key", pa.string()),
            ("event_ts", INSTANT),
            ("event_date", pa.date32()),
            ("value", pa.int64()),
            ("flag", pa.int32()),
            ("known_from", INSTANT),
            ("known_until", INSTANT),
        ]
    )
    row = {"entity": "A", "event_key": "A1", "event_ts": MIDNIGHT, "event_date": FIRST, "value": 5, "flag": 1}
    row |= {"known_from": cut + since, "known_until": None if until is None else cut + until}
    rows = to_spark(spark, pa.Table.from_pylist([row], schema))
    made = features_as_known(rows, DayRange(FIRST, FIRST + ONE_DAY), (1, 2), grace_hours)
    assert rows_of(made.toArrow()) == ([("A", 1, 1, 5, 5, 1, 0, FIRST)] if known else [])
