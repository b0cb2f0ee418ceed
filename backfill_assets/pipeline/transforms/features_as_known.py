"""Features as known at the cut: the same windows over what had arrived by midnight after the day, plus grace.

Lives here: turning known intervals into the days on whose cut a row was current. Does not live here: the window
arithmetic (`windows`). Late data after a cut never changes a row here.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.core.days import DayRange
from backfill_assets.pipeline.transforms.windows import trailing


def features_as_known(staging: DataFrame, days: DayRange, windows_days: tuple[int, int], grace_hours: int) -> DataFrame:
    """One row per entity and day d of `days` (half-open) with an event known at cut(d) in the long trailing window.

    A version counts for d iff known_from < cut(d) <= known_until, where cut(d) is midnight after d plus `grace_hours`
    and a NULL `known_until` has no end. `staging` must hold the event days from `days.start - (long - 1)` on.
    """
    known = staging.where(F.col("entity").isNotNull())
    # cut(d) > t from the day of t (less the grace) on; cut(d) <= t until the day before that day.
    first = _day_of("known_from", grace_hours)
    last = F.date_sub(_day_of("known_until", grace_hours), 1)
    return trailing(known.withColumns({"first_day": first, "last_day": last}), days, windows_days, replaced=True)


def _day_of(column: str, grace_hours: int) -> Column:
    return F.to_date(F.col(column) - F.expr(f"INTERVAL '{grace_hours}' HOUR"))
