"""Features in both truths (as known now, and at the cut of each day), labels and training rows, for
any entity.

Not here: the aggregates per day (`intervals`), and reading declarations (`pipeline.declared`).
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.kernel.core.days import DayRange, newest_mature_day
from backfill_assets.pipeline.transforms.aggregation import Aggregation, Outcome
from backfill_assets.pipeline.transforms.intervals import on_each_day
from backfill_assets.pipeline.transforms.measures import (
    Measure,
    Part,
    aggregation_result,
    every_event,
    exact_result,
    measures_of,
)
from backfill_assets.pipeline.transforms.staging import day_less_hours

FIRST_DAY, LAST_DAY, DAY = "__first_day", "__last_day", "__day"


def features_now(
    staging: DataFrame,
    days: DayRange,
    entity: Sequence[str],
    columns: Sequence[Aggregation],
    *,
    by_day_first: bool = False,
) -> DataFrame:
    """One row per entity and day of `days` (half-open) with an event in the longest window, as
    known now.

    `staging` must hold the event days from `days.start - (longest - 1)` on. An entity with a NULL
    part leaves here.
    """
    always = {FIRST_DAY: F.lit(None).cast("date"), LAST_DAY: F.lit(None).cast("date")}
    current = whole_entities(staging, entity).where("known_until IS NULL").withColumns(always)
    return _feature_rows(current, days, entity, columns, by_day_first)


def features_at_cut(
    staging: DataFrame,
    days: DayRange,
    entity: Sequence[str],
    columns: Sequence[Aggregation],
    grace_hours: int,
    *,
    by_day_first: bool = False,
) -> DataFrame:
    """One row per entity and day of `days` (half-open) with an event in the longest window, as
    known at the cut of that day: midnight after it plus `grace_hours`.

    `staging` and NULL parts are as in `features_now`. A version counts for day d iff
    known_from < cut(d) <= known_until, where a NULL `known_until` has no end.
    """
    # cut(d) > t from the day of t (less the grace) on; cut(d) <= t until the day before that day.
    first, last = (day_less_hours(moment, grace_hours) for moment in ("known_from", "known_until"))
    known = whole_entities(staging, entity).withColumns(
        {FIRST_DAY: first, LAST_DAY: F.date_sub(last, 1)}
    )
    return _feature_rows(known, days, entity, columns, by_day_first)


def whole_entities(staging: DataFrame, entity: Sequence[str]) -> DataFrame:
    """The rows whose entity has no NULL part."""
    for column in entity:
        staging = staging.where(F.col(column).isNotNull())
    return staging


def measured_aggregates(
    rows: DataFrame,
    days: DayRange,
    entity: Sequence[str],
    columns: Sequence[Aggregation],
    by_day_first: bool = False,
) -> tuple[DataFrame, list[Column], list[Column]]:
    """Measures per entity and day, and for each column its expression: for the table, and in exact
    decimals for the label's condition."""
    wanted = list[Measure]()
    for column in columns:
        wanted += measures_of(column)
    wanted += every_event(column.reach for column in columns)
    names = {m: f"__measure_{i}" for i, m in enumerate(dict.fromkeys(wanted))}

    def _parts(column: Aggregation) -> Callable[[Part], Column]:
        """What gives the measures of a column by their parts."""
        return lambda part: F.col(names[Measure(part, column.value, column.reach)])

    measures = {name: measure for measure, name in names.items()}
    found = on_each_day(rows, entity, days, measures, by_day_first=by_day_first)
    shown = [aggregation_result(c, _parts(c), F.col(DAY)).alias(c.name) for c in columns]
    exact = [exact_result(c, _parts(c), F.col(DAY)).alias(c.name) for c in columns]
    return found, shown, exact


def _feature_rows(
    rows: DataFrame,
    days: DayRange,
    entity: Sequence[str],
    columns: Sequence[Aggregation],
    by_day_first: bool,
) -> DataFrame:
    """One row per entity and day with an event in the longest window; `rows` with the days on which
    each counts."""
    found, shown, _ = measured_aggregates(rows, days, entity, columns, by_day_first)
    return found.select(
        *entity, *shown, F.date_add(F.lit(days.start), F.col(DAY)).alias("feature_date")
    )


def label_rows(
    frames: tuple[DataFrame, DataFrame],
    days: DayRange,
    entity: Sequence[str],
    outcome: Outcome,
    frontier: datetime | None,
    *,
    by_day_first: bool = False,
) -> DataFrame:
    """One row per entity of features_as_known and day of `days` (half-open), from staging as known
    now.

    `frames` are staging and features_as_known. `label` is 1 iff the condition is true: where it is
    NULL, it is 0. `mature` iff d + 1 + matures_after_days days <= `frontier` (aware; None: nothing
    is mature).
    """
    staging, features_as_known = frames
    always = {FIRST_DAY: F.lit(None).cast("date"), LAST_DAY: F.lit(None).cast("date")}
    current = whole_entities(staging, entity).where("known_until IS NULL").withColumns(always)
    found, results, exact = measured_aggregates(current, days, entity, outcome.terms, by_day_first)
    asked = features_as_known.where(
        F.col("feature_date").between(F.lit(days.start), F.lit(days.last))
    ).select(*entity, F.datediff("feature_date", F.lit(days.start)).cast("int").alias(DAY))
    answered = asked.join(found, [*entity, DAY], "left")
    # The condition sees the terms in exact decimals; the table gets them as results, which have
    # the same names and are packed meanwhile.
    decided = answered.select(*entity, DAY, F.struct(*results).alias("__told"), *exact)
    ripe = (
        F.lit(None)
        if frontier is None
        else F.lit(newest_mature_day(frontier, outcome.matures_after_days))
    )
    date = F.date_add(F.lit(days.start), F.col(DAY))
    return decided.select(
        *entity,
        "__told.*",
        F.coalesce(F.expr(outcome.condition).cast("int"), F.lit(0)).alias("label"),
        F.when(date <= ripe.cast("date"), "mature").otherwise("provisional").alias("label_state"),
        date.alias("label_date"),
    )


def training_rows(
    features_as_known: DataFrame, labelled: DataFrame, days: DayRange, entity: Sequence[str]
) -> DataFrame:
    """The feature columns and `label` for entities and days of `days` (half-open) whose label is
    mature."""
    inside = F.col("feature_date").between(F.lit(days.start), F.lit(days.last))
    chosen = labelled.where("label_state = 'mature'").select(
        *entity, F.col("label_date").alias("feature_date"), "label"
    )
    joined = features_as_known.where(inside).join(chosen, [*entity, "feature_date"])
    return joined.select(*features_as_known.columns, "label")
