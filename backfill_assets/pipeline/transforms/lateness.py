"""How late the rows of a day were: numbers for plots, per arrival day (raw) and per event day (staging).

Lives here: two queries of the embedded engine over queries for whole days' rows. Does not live here: the lake-wide
report (`operations.lateness`), and any decision: these numbers are shown, nothing depends on them.
"""

MICROSECONDS_A_DAY = 86_400_000_000.0


def of_deliveries(raw: str) -> str:
    """Per arrival day: late_share, and quantiles and the maximum of lateness in days, over the upserts."""
    return _per_day(f"SELECT * FROM ({raw}) WHERE op = 'upsert'", "arrival_date", "arrival_ts")


def of_versions(staging: str) -> str:
    """The same per event day, over every version that was ever current (its arrival is `known_from`)."""
    return _per_day(staging, "event_date", "known_from")


def _per_day(rows: str, day: str, arrival: str) -> str:
    """Late is what arrived on a day (UTC) after its event day; lateness is arrival minus event time."""
    late = f"{_days(arrival)} > {_days('event_ts')}"
    measured = f"SELECT {day}, {late} AS late, epoch_us({arrival}) - epoch_us(event_ts) AS lateness FROM ({rows})"
    return (
        f"SELECT {day}, count(*) FILTER (late) / count(*) AS late_share, "
        f"quantile_cont(lateness, 0.5) / {MICROSECONDS_A_DAY} AS lateness_p50_days, "
        f"quantile_cont(lateness, 0.9) / {MICROSECONDS_A_DAY} AS lateness_p90_days, "
        f"max(lateness) / {MICROSECONDS_A_DAY} AS lateness_max_days FROM ({measured}) GROUP BY 1"
    )


def _days(moment: str) -> str:
    return f"CAST(make_timestamp(epoch_us({moment})) AS DATE)"
