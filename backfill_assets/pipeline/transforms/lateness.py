"""How late the rows of a day were: numbers for plots, per arrival day (raw) and per event day (staging).

Lives here: two functions over whole frames. Does not live here: the lake-wide report (`operations.lateness`), and any
decision: these numbers are shown, nothing depends on them.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SECONDS_A_DAY = 86_400.0


def of_deliveries(raw: DataFrame) -> DataFrame:
    """Per arrival day: late_share, and quantiles and the maximum of lateness in days, over the upserts."""
    return _per_day(raw.where("op = 'upsert'"), "arrival_date", "arrival_ts", "arrival_date")


def of_versions(staging: DataFrame) -> DataFrame:
    """The same per event day, over every version that was ever current (its arrival is `known_from`)."""
    return _per_day(staging, "event_date", "known_from", F.to_date("known_from"))


def _per_day(rows: DataFrame, day: str, arrival: str, arrived_on: Column | str) -> DataFrame:
    """Late is what arrived on a day after its event day; lateness is arrival minus event time."""
    on = F.col(arrived_on) if isinstance(arrived_on, str) else arrived_on
    days = (F.unix_micros(arrival) - F.unix_micros("event_ts")) / F.lit(1_000_000 * SECONDS_A_DAY)
    measured = rows.select(day, (on > F.to_date("event_ts")).cast("int").alias("late"), days.alias("days"))
    return measured.groupBy(day).agg(
        F.avg("late").alias("late_share"),
        F.percentile("days", 0.5).alias("lateness_p50_days"),
        F.percentile("days", 0.9).alias("lateness_p90_days"),
        F.max("days").alias("lateness_max_days"),
    )
