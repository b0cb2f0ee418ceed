"""Queries of the embedded engine (DuckDB, no JVM) over queries for whole days of rows; each gives
one row per day.

Not here: the rows themselves (`staging`, `declared`), and comparing these figures (`learn`,
`kernel.write.candidate`).
"""

from collections.abc import Sequence

MICROSECONDS_A_DAY = "8.64e10"  # a DOUBLE in every engine


def lateness_of_deliveries(raw: str) -> str:
    """Per arrival day: late_share, and quantiles and the maximum of lateness in days, over the
    upserts."""
    return _lateness_query(
        f"SELECT * FROM ({raw}) WHERE op = 'upsert'", "arrival_date", "arrival_ts"
    )


def lateness_of_versions(staging: str) -> str:
    """Per event day: late_share, and quantiles and the maximum of lateness in days, over every
    version that was ever current (its arrival is `known_from`)."""
    return _lateness_query(staging, "event_date", "known_from")


def _lateness_query(rows: str, day: str, arrival: str) -> str:
    """Late is what arrived on a day (UTC) after its event day; lateness is arrival minus event
    time."""
    late = f"{_day_sql(arrival)} > {_day_sql('event_ts')}"
    measured = (
        f"SELECT {day}, {late} AS late, epoch_us({arrival}) - epoch_us(event_ts) AS lateness FROM "
        f"({rows})"
    )
    return (
        f"SELECT {day}, count(*) FILTER (WHERE late) / count(*) AS late_share, "
        f"quantile_disc(lateness, 0.5) / {MICROSECONDS_A_DAY} AS lateness_p50_days, "
        f"quantile_disc(lateness, 0.9) / {MICROSECONDS_A_DAY} AS lateness_p90_days, "
        f"max(lateness) / {MICROSECONDS_A_DAY} AS lateness_max_days FROM ({measured}) GROUP BY 1"
    )


def _day_sql(moment: str) -> str:
    """The day in UTC of a moment, whatever the session's time zone."""
    return f"CAST(make_timestamp(epoch_us({moment})) AS DATE)"


def account_query(rows: str, payload: Sequence[str]) -> str:
    """A query over `rows`, all deliveries of their keys: per event day its upserts, and how many of
    these are superseded.

    Superseded is an upsert that arrived with a version which was not the greatest of its key by
    then, that was replaced or deleted in the instant in which it arrived, or that said (`event_ts`
    and `payload`) what was known already.
    """
    arrived = "PARTITION BY event_key ORDER BY arrival_ts, seq"
    # Whether a delivery beats all that came before it, and so is a version of its event.
    newest = (
        f"max((version_ts, arrival_ts, seq)) OVER ({arrived} ROWS BETWEEN UNBOUNDED PRECEDING AND "
        "1 PRECEDING)"
    )
    ranked = (
        f"SELECT *, coalesce((version_ts, arrival_ts, seq) > {newest}, true) AS wins FROM ({rows})"
    )
    # Each version, with the arrival of the one that replaced it.
    until = f"SELECT *, lead(arrival_ts) OVER ({arrived}) AS ended FROM ({ranked}) WHERE wins"
    # What a version says of the event; nothing of a delete. A version of no length is left out.
    facts = (
        "CASE WHEN op = 'upsert' THEN "
        f"row({', '.join(map(_quoted_name, ('event_ts', *payload)))}) END"
    )
    known = f"SELECT *, {facts} AS facts FROM ({until}) WHERE ended IS NULL OR ended > arrival_ts"
    # A version that says what the one before it said is none of its own.
    kept = f"SELECT *, facts IS DISTINCT FROM lag(facts) OVER ({arrived}) AS differs FROM ({known})"
    day = _day_sql("event_ts")
    return (
        f"SELECT {day} AS day, count(*) FILTER (side = 'all') AS came, "
        "count(*) FILTER (side = 'all') - count(*) FILTER (side = 'kept') AS superseded "
        f"FROM (SELECT event_ts, op, 'all' AS side FROM ({rows}) UNION ALL "
        f"SELECT event_ts, op, 'kept' FROM ({kept}) WHERE differs) WHERE op = 'upsert' GROUP BY 1"
    )


def _quoted_name(name: str) -> str:
    """A column's name in quotes, as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def label_flips_query(before: str, after: str, entity: Sequence[str]) -> str:
    """Per day how many labels that were mature have another value, or are gone: `label_date`,
    `label_flips`."""
    names = [_quoted_name(column) for column in ("label_date", *entity)]
    same = " AND ".join(f"before.{n} = after.{n}" for n in names)
    return (
        "SELECT before.label_date, count(*) FILTER (before.label IS DISTINCT FROM after.label) AS "
        "label_flips "
        f"FROM ({before}) AS before LEFT JOIN ({after}) AS after ON {same} "
        "WHERE before.label_state = 'mature' GROUP BY 1"
    )
