"""Declared features in both truths: random declarations come to what a look at every row on every day comes to.

Tested here: `pipeline.transforms.declared`, and through it the arithmetic of intervals, from declarations as they stand
in `lake.toml`. Not tested here: which of those are refused (`test_declared.py` of the pipeline), and single measures
(`test_measures.py`).
"""

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline.declared import declared_features
from backfill_assets.pipeline.transforms.aggregation import Aggregation
from backfill_assets_tests.pipeline.frames import rows_of
from backfill_assets_tests.pipeline.naive import (
    ENTITY,
    EVENT_DAYS,
    FIRST,
    Asked,
    answers,
    declarations,
    settings,
    versions,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.on_spark("random declarations name what Sail refuses (load.test_sail_settings)")

COLUMNS, ENTITIES = 14, 120


def aggregations(asked: list[Asked]) -> list[Aggregation]:
    """The columns as `lake.toml` declares them and the product compiles them."""
    written = settings(features={"entity": ENTITY, "columns": [a.written() for a in asked]})
    return [d.aggregation for d in declared_features(LakeSettings.model_validate(written))]


def assert_same_rows(found: "DataFrame", wanted: Any) -> None:
    """Both hold the same rows, however the engines write a decimal of the same number."""
    there, here = rows_of(wanted), rows_of(found.toArrow())
    different = [(a, b) for a, b in zip(there, here, strict=False) if a != b]
    assert (len(here), different[:3]) == (len(there), []), f"{wanted.column_names}: DuckDB's row, then Spark's"


@pytest.mark.parametrize(("seed", "length"), [(1, None), (2, None), (3, 1)], ids=["days", "other days", "a single day"])
@pytest.mark.parametrize("known", [False, True], ids=["now", "at the cut"])
def test_random_declarations_come_to_what_a_look_at_every_row_on_every_day_comes_to(
    spark: "SparkSession", known: bool, seed: int, length: int | None
) -> None:
    from backfill_assets.pipeline.transforms.declared import at_cut, now

    random = Random(seed)
    asked, rows, grace = declarations(random, COLUMNS), versions(random, ENTITIES), random.choice((0, 6))
    days = DayRange(FIRST + ONE_DAY * random.randint(0, 4), FIRST + ONE_DAY * (EVENT_DAYS + random.randint(-3, 9)))
    days = DayRange(days.start + 5 * ONE_DAY, days.start + 6 * ONE_DAY) if length == 1 else days
    columns, frame = aggregations(asked), spark.createDataFrame(rows).repartition(random.randint(1, 3))
    finer = seed == 2  # days are grouped first: the same rows
    make = partial(at_cut, grace_hours=grace) if known else now
    made = make(frame, days, ENTITY, columns, by_day_first=finer)
    assert_same_rows(made, answers(rows, asked, days, known=known, grace_hours=grace))


def test_a_single_day_is_one_grouping(spark: "SparkSession") -> None:
    from backfill_assets.load.steadiness import explained_plan
    from backfill_assets.pipeline.transforms.declared import now

    random = Random(3)
    columns, frame = aggregations(declarations(random, 4)), spark.createDataFrame(versions(random, 5))
    plan = explained_plan(spark, now(frame, DayRange(FIRST, FIRST + ONE_DAY), ENTITY, columns)).lower()
    assert not [word for word in ("windowexec", "window [", "generate explode", "join") if word in plan]
