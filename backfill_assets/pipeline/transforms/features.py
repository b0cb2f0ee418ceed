"""Features as known now: trailing windows over the current rows of staging. Late data restates them.

Lives here: which rows of staging count, and on which days. Does not live here: the window arithmetic (`windows`).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.core.days import DayRange
from backfill_assets.pipeline.transforms.windows import trailing


def features(staging: DataFrame, days: DayRange, windows_days: tuple[int, int]) -> DataFrame:
    """One row per entity and day of `days` (half-open) with an event in the long trailing window, that day included.

    `staging` must hold the event days from `days.start - (long - 1)` on; others do no harm. NULL entities leave here.
    """
    current = staging.where(F.col("known_until").isNull() & F.col("entity").isNotNull())
    always = current.withColumns({"first_day": F.col("event_date"), "last_day": F.lit(None).cast("date")})
    return trailing(always, days, windows_days, replaced=False)
