"""Labels: the outcome of an entity over the horizon after a day, for the entities known at that day's cut.

Lives here: forward and backward sums by differences, the label rules, maturity. Does not live here: which days are
rebuilt when the frontier moves (`core.states`). Declared labels follow the same rules in `outcomes`: who
changes one changes both.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.core.cuts import horizon_steps, newest_mature
from backfill_assets.core.days import DayRange
from backfill_assets.pipeline.transforms.sums import as_bigint, halves, total

Measure = Literal["events", "flag", "value"]
Rule = Literal["any", "rise"]
SUMS = ("forward_high", "forward_low", "backward_high", "backward_low")


@dataclass(frozen=True)
class LabelOutcome:
    """What a label looks at: the horizon (days), what is summed over it, the rule, and the days until it is mature."""

    horizon_days: int
    measure: Measure
    rule: Rule
    matures_after_days: int


def labels(
    staging: DataFrame,
    features_as_known: DataFrame,
    days: DayRange,
    outcome: LabelOutcome,
    frontier: datetime | None,
) -> DataFrame:
    """One row per entity of `features_as_known` and day d of `days` (half-open).

    `forward` sums the measure over event days (d, d + horizon], `backward` over (d - horizon, d], both as known now.
    `label` is 1 iff forward > 0 (`any`) or forward > backward (`rise`). `mature` iff d + 1 + matures_after_days days <=
    `frontier` (aware; None: nothing is mature). The label is decided by the exact sums; a sum that does not fit 64 bits
    is NULL in its column.
    """
    asked = features_as_known.where(F.col("feature_date").between(F.lit(days.start), F.lit(days.last)))
    queries = asked.select(
        "entity",
        F.col("feature_date").alias("day"),
        *(F.lit(0).cast("bigint").alias(name) for name in SUMS),
        F.lit(True).alias("asked"),
    )
    of_one_day = len(days) == 1
    changes = _amounts_on(staging, days, outcome) if of_one_day else _changes(staging, outcome)
    sums = (
        queries.unionByName(changes)
        .groupBy("entity", "day")
        .agg(*(F.sum(name).alias(name) for name in SUMS), F.bool_or("asked").alias("asked"))
    )
    if not of_one_day:
        so_far = Window.partitionBy("entity").orderBy("day").rowsBetween(Window.unboundedPreceding, Window.currentRow)
        sums = sums.withColumns({name: F.sum(name).over(so_far) for name in SUMS})
    forward, backward = (total(F.col(f"{side}_high"), F.col(f"{side}_low")) for side in ("forward", "backward"))
    nothing = total(F.lit(0).cast("bigint"), F.lit(0).cast("bigint"))
    positive = forward > (nothing if outcome.rule == "any" else backward)
    return sums.where("asked").select(
        "entity",
        as_bigint(forward).alias("forward"),
        as_bigint(backward).alias("backward"),
        positive.cast("int").alias("label"),
        _state(outcome.matures_after_days, frontier).alias("label_state"),
        F.col("day").alias("label_date"),
    )


def _changes(staging: DataFrame, outcome: LabelOutcome) -> DataFrame:
    """What changes on which day, by the steps of the horizon (`horizon_steps`)."""
    high, low = halves(_amount(outcome))
    daily = _current(staging).groupBy("entity", "event_date").agg(F.sum(high).alias("high"), F.sum(low).alias("low"))
    steps = [
        F.struct(
            F.date_add("event_date", shift).alias("day"),
            *((F.col(half) * F.lit(ahead)).alias(f"forward_{half}") for half in ("high", "low")),
            *((F.col(half) * F.lit(behind)).alias(f"backward_{half}") for half in ("high", "low")),
        )
        for shift, ahead, behind in horizon_steps(outcome.horizon_days)
    ]
    # One pass: a union of the steps would read and group the rows once for each of them.
    changed = daily.select("entity", F.explode(F.array(*steps)).alias("change"))
    return changed.select("entity", "change.*", F.lit(False).alias("asked"))


def _amounts_on(staging: DataFrame, day: DayRange, outcome: LabelOutcome) -> DataFrame:
    """What lies ahead of a single day and behind it: without steps there is nothing to sum up over days."""
    since = F.datediff("event_date", F.lit(day.start))
    ahead = since.between(1, outcome.horizon_days).cast("bigint")
    behind = since.between(1 - outcome.horizon_days, 0).cast("bigint")
    inside = _current(staging).where((ahead + behind) > 0)
    amounts = zip(SUMS, (n * side for side in (ahead, behind) for n in halves(_amount(outcome))), strict=True)
    return inside.select(
        "entity", F.lit(day.start).alias("day"), *(a.alias(name) for name, a in amounts), F.lit(False).alias("asked")
    )


def _amount(outcome: LabelOutcome) -> Column:
    return F.lit(1) if outcome.measure == "events" else F.col(outcome.measure)


def _current(staging: DataFrame) -> DataFrame:
    return staging.where(F.col("known_until").isNull() & F.col("entity").isNotNull())


def _state(matures_after_days: int, frontier: datetime | None) -> Column:
    if frontier is None:
        return F.lit("provisional")
    ripe = F.col("day") <= F.lit(newest_mature(frontier, matures_after_days))
    return F.when(ripe, "mature").otherwise("provisional")
