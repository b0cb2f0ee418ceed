"""Random features of one source and a random label of another, through the tables of a lake that declares both.

Tested here: `pipeline.tables`, that each table takes the staging it is to be made from, from declarations down
to rows of training. Not tested here: features of one source (`transforms.test_declared`), loading (`end_to_end`).
"""

from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.pipeline.frames import Row, rows_of
from backfill_assets_tests.pipeline.naive import (
    ENTITY,
    FIRST,
    SOURCE,
    Asked,
    answers,
    declarations,
    versions,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.on_spark("random declarations name what Sail refuses")

COLUMNS, ENTITIES, HORIZON, MATURITY = 9, 60, 3, 1
DAYS = DayRange(FIRST + ONE_DAY * 2, FIRST + ONE_DAY * 14)
FRONTIER = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC) + ONE_DAY * 15
LAST_MATURE = FIRST + ONE_DAY * (15 - 1 - HORIZON - MATURITY)
# What a label may ask: an aggregation, of what, and the number that it is compared with.
TERMS = (
    ("count", "", 2), ("count", "word", 1), ("sum", "wide", 10), ("sum", "amount", Decimal("1.5")),
    ("sum", "number", 3), ("max", "amount", 0), ("min", "size", 0), ("avg", "number", 1),
    ("distinct", "word", 1), ("last", "number", 0), ("first", "size", 1),
)  # fmt: skip
SIDES = {"ahead": (-HORIZON, -1), "behind": (0, HORIZON - 1)}


def _label(random: Random) -> tuple[str, list[tuple[Asked, Any]]]:
    """A random condition, as it is written and as what it asks with the bound of each."""
    chosen = {
        (agg, side): (of, bound) for agg, of, bound in random.sample(TERMS, 5) for side in random.choices([*SIDES])
    }
    asked = [(Asked(f"{agg}_{side}", agg, of, "", *SIDES[side]), bound) for (agg, side), (of, bound) in chosen.items()]
    return " OR ".join(f"{a.name}({a.of}) > {bound}" for a, bound in asked), asked


def _made(table: Table, frames: dict[str, "DataFrame"], days: DayRange = DAYS) -> "DataFrame":
    assert table.transform is not None
    assert {i.table for i in table.contract.inputs} <= set(frames), "it may ask only for what is there"
    return table.transform({i.table: frames[i.table] for i in table.contract.inputs}, Chunk(days, FRONTIER))


def _labels(rows: Any, asked: list[tuple[Asked, Any]], wanted: list[Row]) -> list[Row]:
    """Per entity and day of these features its terms and label, by a look at every event of the other source."""
    width, terms = len(ENTITY), [a for a, _ in asked]
    exact = [Asked(a.name, a.agg, "wide::HUGEINT" if a.agg == "sum" and a.of == "wide" else a.of, "", a.first, a.last)
             for a in terms]  # fmt: skip
    told, decided = (
        {(*r[:width], r[-1]): r[width:-1] for r in rows_of(answers(rows, t, DAYS, known=False))} for t in (terms, exact)
    )
    nothing = tuple(0 if a.agg in ("count", "sum", "distinct") else None for a in terms)
    found = []
    for who in ((*r[:width], r[-1]) for r in wanted):
        held = zip(decided.get(who, nothing), asked, strict=True)
        label = int(any(value is not None and value > bound for value, (_, bound) in held))
        state = "mature" if who[-1] <= LAST_MATURE else "provisional"
        found.append((*who[:width], *told.get(who, nothing), label, state, who[-1]))
    return sorted(found, key=lambda row: (*row[:width], row[-1]))


@pytest.mark.parametrize("seed", [3])
def test_random_features_of_one_source_and_a_label_of_another_come_to_what_a_look_at_every_row_comes_to(
    spark: "SparkSession", seed: int
) -> None:
    random = Random(seed)
    asked, (label, terms), grace = declarations(random, COLUMNS), _label(random), random.choice((0, 6))
    written = {
        "start_date": FIRST,
        "sources": {"events": SOURCE, "truth": SOURCE},
        "features": {
            "source": "events", "entity": ENTITY, "columns": [a.written() for a in asked], "cutoff_grace_hours": grace,
        },
        "labels": {"source": "truth", "label": label, "horizon_days": HORIZON, "maturity_days": MATURITY},
    }  # fmt: skip
    made_of = {t.name: t for t in tables(LakeSettings.model_validate(written))}
    events, truth = versions(random, ENTITIES), versions(random, ENTITIES)
    frames = {"staging_events": spark.createDataFrame(events), "staging_truth": spark.createDataFrame(truth)}
    for name in ("features", "features_as_known", "labels", "training"):
        frames[name] = _made(made_of[name], frames).cache()
    for name, known in (("features", False), ("features_as_known", True)):
        wanted = rows_of(answers(events, asked, DAYS, known=known, grace_hours=grace))
        assert rows_of(frames[name].toArrow()) == wanted, name
    features = rows_of(answers(events, asked, DAYS, known=True, grace_hours=grace))
    labels = _labels(truth, terms, features)
    assert sorted(rows_of(frames["labels"].toArrow()), key=lambda r: (*r[: len(ENTITY)], r[-1])) == labels
    mature = {(*r[: len(ENTITY)], r[-1]): r[-3] for r in labels if r[-2] == "mature"}
    joined = [(*r, mature[key]) for r in features if (key := (*r[: len(ENTITY)], r[-1])) in mature]
    assert rows_of(frames["training"].toArrow()) == rows_of_list(joined)


def rows_of_list(rows: list[Row]) -> list[Row]:
    """Rows in the order of `rows_of`."""
    return sorted(rows, key=lambda row: [(cell is not None, cell) for cell in row])
