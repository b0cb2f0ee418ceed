"""Trailing windows over days, by differences at interval ends instead of one row per event and day of the window; of a
single day, by the rows that count on it.

Lives here: sums over two windows and the last active event day, for rows that count on an interval of days. Does not
live here: which interval a row counts on (`features`, `features_as_known`). The same five columns
are declared in `pipeline.declared.built_in`, beside which others stand: who changes one changes both.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.core.days import DayRange
from backfill_assets.pipeline.transforms.sums import as_bigint, halves, total

SHORT_MEASURES = ("events", "high", "low")  # the halves of `value`
LONG_MEASURES = (*SHORT_MEASURES, "flagged")


def trailing(rows: DataFrame, days: DayRange, windows_days: tuple[int, int], *, replaced: bool) -> DataFrame:
    """Feature rows (entity, feature_date) of `days` (half-open), only where the long window holds an event.

    `rows` have `entity`, `event_date`, `value`, `flag`, and the days they may count on: `first_day` and `last_day`
    (both included, `last_day` NULL: without end). A row counts for window w on day d iff d lies in both
    [first_day, last_day] and [event_date, event_date + w - 1]. A sum of `value` that does not fit 64 bits is NULL.
    `replaced`: whether any row may have a `last_day`; without, a window function and a join less.
    """
    sums = _sums_on(rows, days, windows_days) if len(days) == 1 else _sums_per_day(rows, days, windows_days, replaced)
    return sums.select(
        "entity",
        "events_short",
        "events_long",
        as_bigint(total(F.col("high_short"), F.col("low_short"))).alias("value_short"),
        as_bigint(total(F.col("high_long"), F.col("low_long"))).alias("value_long"),
        "flagged_long",
        F.datediff("feature_date", "newest").cast("int").alias("days_since_last"),
        "feature_date",
    )


def _sums_on(rows: DataFrame, day: DayRange, windows_days: tuple[int, int]) -> DataFrame:
    """The sums of a single day: one grouping, where many days need three, a window function and a join. On thin days
    plans cost more than rows."""
    short, long = windows_days
    at, (high, low) = F.lit(day.start), halves(F.col("value"))
    inside = rows.where((F.greatest("first_day", "event_date") <= at) & (_end(long) >= at))
    in_short = (_end(short) >= at).cast("bigint")
    measures = {"events": F.lit(1).cast("bigint"), "high": high, "low": low, "flagged": F.col("flag").cast("bigint")}
    return inside.groupBy("entity").agg(
        *(F.sum(measures[m] * in_short).alias(f"{m}_short") for m in SHORT_MEASURES),
        *(F.sum(measures[m]).alias(f"{m}_long") for m in LONG_MEASURES),
        F.max("event_date").alias("newest"),
        at.alias("feature_date"),
    )


def _sums_per_day(rows: DataFrame, days: DayRange, windows_days: tuple[int, int], replaced: bool) -> DataFrame:
    """The sums of every day of a range."""
    short, long = windows_days
    high, low = halves(F.col("value"))
    grouped = rows.groupBy("entity", "event_date", "first_day", "last_day").agg(
        F.count(F.lit(1)).alias("events"),
        F.sum(high).alias("high"),
        F.sum(low).alias("low"),
        F.sum("flag").cast("bigint").alias("flagged"),
    )
    spans = grouped.withColumns(
        {
            "first": F.greatest("first_day", "event_date"),
            "end_short": _end(short),
            "end_long": _end(long),
            "newest": F.when(_end(long) == _window_end(long), F.col("event_date")),
        }
    )
    spans = spans.where(F.col("first") <= F.col("end_long"))
    sums = _running_sums(spans, days, long)
    if not replaced:
        return sums
    ended = _last_event_day(spans.where(F.col("newest").isNull()), days)
    return sums.join(ended, ["entity", "feature_date"], "left").withColumn("newest", F.greatest("newest", "last_event"))


def _end(window_days: int) -> Column:
    """The last day on which a row counts for a window."""
    return F.least(_window_end(window_days), F.col("last_day"))


def _window_end(window_days: int) -> Column:
    return F.date_add("event_date", window_days - 1)


def _change(day: Column, short: Column, long: Column, newest: Column) -> Column:
    """What changes on a day: the measures times `short` for the short window and `long` for the long one."""
    return F.struct(
        day.alias("day"),
        *((F.col(m) * short).alias(f"{m}_short") for m in SHORT_MEASURES),
        *((F.col(m) * long).alias(f"{m}_long") for m in LONG_MEASURES),
        newest.alias("newest"),
    )


def _running_sums(spans: DataFrame, days: DayRange, long: int) -> DataFrame:
    """Running sums of the changes, given to every day until the next change, where the long window holds an event.

    `newest` is the newest event day among the spans that count to the end of their long window: the running maximum of
    those begun, because the newest of them ends last. NULL where it has left the window.
    """
    in_short = F.col("first") <= F.col("end_short")
    gone, nothing = F.lit(-1), F.lit(0)
    changes = F.array(
        _change(F.col("first"), in_short.cast("int"), F.lit(1), F.col("newest")),
        _change(F.when(in_short, F.date_add("end_short", 1)), gone, nothing, F.lit(None).cast("date")),
        _change(F.date_add("end_long", 1), nothing, gone, F.lit(None).cast("date")),
    )
    # One pass: a union of the changes would read and group the rows once for each of its parts.
    changed = spans.select("entity", F.explode(changes).alias("change")).select("entity", "change.*")
    names = [*(f"{m}_short" for m in SHORT_MEASURES), *(f"{m}_long" for m in LONG_MEASURES)]
    per_day = (
        changed.where(F.col("day").isNotNull())
        .groupBy("entity", "day")
        .agg(*(F.sum(n).alias(n) for n in names), F.max("newest").alias("newest"))
    )
    order = Window.partitionBy("entity").orderBy("day")
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    running = per_day.select(
        "entity",
        "day",
        F.lead("day").over(order).alias("next"),
        *(F.sum(n).over(so_far).alias(n) for n in names),
        F.max("newest").over(so_far).alias("newest"),
    )
    active = running.where(F.col("events_long") > 0)
    each = _on_each_day(active, F.col("day"), F.date_sub("next", 1), days).drop("day", "next")
    inside = F.date_add("newest", long - 1) >= F.col("feature_date")
    return each.withColumn("newest", F.when(inside, F.col("newest")))


def _last_event_day(spans: DataFrame, days: DayRange) -> DataFrame:
    """The greatest event day that counts on each day of `days`, per entity.

    A span whose successor (by event day) reaches at least as far is cut where that one begins: an event day as late or
    later counts there anyway. What remains is about one row per day, not one per event and day.
    """
    order = Window.partitionBy("entity").orderBy("event_date", "first", "end_long")
    following = spans.select(
        "entity",
        "event_date",
        "first",
        "end_long",
        F.lead("first").over(order).alias("next_first"),
        F.lead("end_long").over(order).alias("next_end"),
    )
    covered = F.col("next_end") >= F.col("end_long")
    end = F.when(covered, F.least(F.col("end_long"), F.date_sub("next_first", 1))).otherwise(F.col("end_long"))
    each = _on_each_day(following.withColumn("end", end), F.col("first"), F.col("end"), days)
    return each.groupBy("entity", "feature_date").agg(F.max("event_date").alias("last_event"))


def _on_each_day(spans: DataFrame, first: Column, last: Column, days: DayRange) -> DataFrame:
    """One row per span and day of it (both ends included) within `days`."""
    low, high = F.greatest(first, F.lit(days.start)), F.least(last, F.lit(days.last))
    inside = spans.withColumns({"low": low, "high": high}).where(F.col("low") <= F.col("high"))
    return inside.withColumn("feature_date", F.explode(F.sequence("low", "high"))).drop("low", "high")
