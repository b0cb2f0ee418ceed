"""Declared features in both truths, and labels: random ones come to what a look at every row on
every day comes to.

Tested here: `pipeline.transforms.declared`, and through it the arithmetic of intervals, from
declarations as they stand in `lake.toml`. Not tested here: which of those are refused
(`test_declared.py` of the pipeline), and single measures (`test_measures.py`).
"""

from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any

import pytest

from backfill_assets import LakeSettings
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.pipeline.declared import declared_features
from backfill_assets.pipeline.transforms.aggregation import Aggregation, Outcome, Reach, Value
from backfill_assets_tests.engine_choice import DataFrame, SparkSession
from backfill_assets_tests.pipeline.frames import rows_of
from backfill_assets_tests.pipeline.naive import (
    ENTITY,
    EVENT_DAYS,
    FIRST,
    TYPES,
    Asked,
    answers,
    declarations,
    settings,
    versions,
)

pytestmark = pytest.mark.on_spark("random declarations name what Sail refuses")
COLUMNS, ENTITIES = 14, 120


def aggregations(asked: list[Asked]) -> list[Aggregation]:
    """The columns as `lake.toml` declares them and the product compiles them."""
    written = settings(features={"entity": ENTITY, "columns": [a.written() for a in asked]})
    return [d.aggregation for d in declared_features(LakeSettings.model_validate(written))]


def assert_same_rows(found: "DataFrame", wanted: Any) -> None:
    """Both hold the same rows, however the engines write a decimal of the same number."""
    there, here = rows_of(wanted), rows_of(found.toArrow())
    different = [(a, b) for a, b in zip(there, here, strict=False) if a != b]
    assert (len(here), different[:3]) == (len(there), []), (
        f"{wanted.column_names}: DuckDB's row, then Spark's"
    )


@pytest.mark.parametrize(
    ("seed", "length"), [(1, None), (2, None), (3, 1)], ids=["days", "other days", "a single day"]
)
@pytest.mark.parametrize("known", [False, True], ids=["now", "at the cut"])
def test_random_declarations_come_to_what_a_look_at_every_row_on_every_day_comes_to(
    spark: "SparkSession", known: bool, seed: int, length: int | None
) -> None:
    from backfill_assets.pipeline.transforms.declared import features_at_cut, features_now

    random = Random(seed)
    asked, rows, grace = (
        declarations(random, COLUMNS),
        versions(random, ENTITIES),
        random.choice((0, 6)),
    )
    days = DayRange(
        FIRST + ONE_DAY * random.randint(0, 4),
        FIRST + ONE_DAY * (EVENT_DAYS + random.randint(-3, 9)),
    )
    days = DayRange(days.start + 5 * ONE_DAY, days.start + 6 * ONE_DAY) if length == 1 else days
    columns, frame = (
        aggregations(asked),
        spark.createDataFrame(rows).repartition(random.randint(1, 3)),
    )
    finer = seed == 2  # days are grouped first: the same rows
    make = partial(features_at_cut, grace_hours=grace) if known else features_now
    made = make(frame, days, ENTITY, columns, by_day_first=finer)
    assert_same_rows(made, answers(rows, asked, days, known=known, grace_hours=grace))


HORIZON = 4
TERMS = [
    Asked("ahead", "sum", "wide", "", -HORIZON, -1),
    Asked("behind", "sum", "wide", "", 0, HORIZON - 1),
    Asked("most", "max", "amount", "", -HORIZON, -1),
    Asked("seen", "count", "", "", 0, HORIZON - 1),
    Asked("kinds", "distinct", "word", "", -HORIZON, -1),
]
CONDITION = "ahead > 2 * behind OR most > seen AND kinds >= 1"
DAYS = DayRange(FIRST + ONE_DAY * 2, FIRST + ONE_DAY * 15)


def aggregation(asked: Asked) -> Aggregation:
    """The term as the product takes it."""
    value = Value(asked.of or None, TYPES[asked.of] if asked.of else "INT", asked.where or None)
    return Aggregation(asked.name, asked.agg, value, Reach(asked.first, asked.last))  # type: ignore[arg-type]


def _expected(rows: Any, asked: set[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Per row asked for its terms; a label is decided by exact sums, and by nothing that is not
    there."""
    found = {
        row[:2] + row[-1:]: row[2:-1] for row in rows_of(answers(rows, TERMS, DAYS, known=False))
    }
    exact = [
        Asked("ahead", "sum", "wide::HUGEINT", "", -HORIZON, -1),
        Asked("b", "sum", "wide::HUGEINT", "", 0, HORIZON - 1),
    ]
    sums = {
        row[:2] + row[-1:]: row[2:-1] for row in rows_of(answers(rows, exact, DAYS, known=False))
    }
    expected = []
    for who in asked:
        told = found.get(who, (0, 0, None, 0, 0))
        ahead, behind = sums.get(who, (0, 0))
        label = int(
            ahead > 2 * behind or (told[2] is not None and told[2] > told[3] and told[4] >= 1)
        )
        state = "mature" if who[-1] <= FIRST + ONE_DAY * 9 else "provisional"
        expected.append((*who[:2], *told, label, state, who[-1]))
    return sorted(expected, key=lambda row: (row[0], row[1], row[-1]))


def test_labels_are_what_a_look_at_every_event_of_the_horizon_comes_to(
    spark: "SparkSession",
) -> None:
    from backfill_assets.pipeline.transforms.declared import label_rows

    random = Random(7)
    rows = versions(random, 60)
    asked = {
        (
            random.randrange(60),
            random.choice("xyz"),
            DAYS.start + ONE_DAY * random.randrange(-1, 15),
        )
        for _ in range(300)
    }
    features = spark.createDataFrame([*asked], "first bigint, day string, feature_date date")
    outcome = Outcome(tuple(aggregation(t) for t in TERMS), CONDITION, 6)
    frontier = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC) + ONE_DAY * 16
    made = label_rows((spark.createDataFrame(rows), features), DAYS, ENTITY, outcome, frontier)
    assert made.columns == [*ENTITY, *(t.name for t in TERMS), "label", "label_state", "label_date"]
    here = sorted(rows_of(made.toArrow()), key=lambda row: (row[0], row[1], row[-1]))
    assert here == _expected(rows, {row for row in asked if DAYS.start <= row[-1] <= DAYS.last})
