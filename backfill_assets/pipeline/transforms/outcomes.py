"""Declared labels: a condition over aggregates ahead of a day and behind it, for the entities known at that day's cut.

Lives here: joining the aggregates to who is asked for, the condition, maturity, and training rows for entities of
several columns. Does not live here: the aggregates (`intervals`), and labels by measure and rule (`labels`).
"""

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.core.cuts import newest_mature
from backfill_assets.core.days import DayRange
from backfill_assets.pipeline.transforms.aggregation import Outcome
from backfill_assets.pipeline.transforms.declared import DAY, FIRST_DAY, LAST_DAY, aggregates, whole


def labels(
    frames: tuple[DataFrame, DataFrame],
    days: DayRange,
    entity: Sequence[str],
    outcome: Outcome,
    frontier: datetime | None,
) -> DataFrame:
    """One row per entity of features_as_known and day of `days` (half-open), from staging as known now.

    `frames` are staging and features_as_known. `label` is 1 iff the condition is true: where it is NULL, it is 0.
    `mature` iff d + 1 + matures_after_days days <= `frontier` (aware; None: nothing is mature).
    """
    staging, features_as_known = frames
    always = {FIRST_DAY: F.lit(None).cast("date"), LAST_DAY: F.lit(None).cast("date")}
    current = whole(staging, entity).where("known_until IS NULL").withColumns(always)
    found, results, exact = aggregates(current, days, entity, outcome.terms)
    asked = features_as_known.where(F.col("feature_date").between(F.lit(days.start), F.lit(days.last))).select(
        *entity, F.datediff("feature_date", F.lit(days.start)).cast("int").alias(DAY)
    )
    answered = asked.join(found, [*entity, DAY], "left")
    decided = answered.select(*entity, DAY, F.struct(*results).alias("__told"), *exact)
    ripe = F.lit(None) if frontier is None else F.lit(newest_mature(frontier, outcome.matures_after_days))
    date = F.date_add(F.lit(days.start), F.col(DAY))
    return decided.select(
        *entity, "__told.*", F.coalesce(F.expr(outcome.condition).cast("int"), F.lit(0)).alias("label"),
        F.when(date <= ripe.cast("date"), "mature").otherwise("provisional").alias("label_state"),
        date.alias("label_date"),
    )  # fmt: skip


def training(features_as_known: DataFrame, labelled: DataFrame, days: DayRange, entity: Sequence[str]) -> DataFrame:
    """The feature columns and `label` for entities and days of `days` (half-open) whose label is mature."""
    inside = F.col("feature_date").between(F.lit(days.start), F.lit(days.last))
    chosen = labelled.where("label_state = 'mature'").select(
        *entity, F.col("label_date").alias("feature_date"), "label"
    )
    joined = features_as_known.where(inside).join(chosen, [*entity, "feature_date"])
    return joined.select(*features_as_known.columns, "label")
