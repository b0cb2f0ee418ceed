"""Versions of events as known at the cuts of days: the rows that a transform of one's own may read without a leak.

Not here: the aggregates; built-in and declared features compute them without a row per event and day (`intervals`).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.core.days import DayRange

KNOWN_ON = "known_on"


def as_known(versions: DataFrame, days: DayRange, before: int, grace_hours: int = 0) -> DataFrame:
    """The versions (rows of `staging`) once for every day d of `days` (half-open) on whose cut they were current, with
    d in the added column `known_on`; only events of the days d - `before` through d.

    The cut of d is midnight after it plus `grace_hours`. A version is current at it iff known_from < cut <= known_until
    (NULL: without end). An event appears once per day of its window: sum over it per `known_on`, never over all rows.
    """
    grace = F.expr(f"INTERVAL '{grace_hours}' HOUR")
    known_from, known_until = (F.to_date(F.col(c) - grace) for c in ("known_from", "known_until"))
    first = F.greatest(F.col("event_date"), known_from, F.lit(days.start))
    last = F.least(F.date_add("event_date", before), F.date_sub(known_until, 1), F.lit(days.last))
    inside = versions.withColumns({"_first": first, "_last": last}).where("_first <= _last")
    return inside.withColumn(KNOWN_ON, F.explode(F.sequence("_first", "_last"))).drop("_first", "_last")
