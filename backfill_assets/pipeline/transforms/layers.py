"""Staging against raw, counted by an engine that did not make it: every upsert of a day is in staging or superseded.

Lives here: the query (of the embedded engine, no JVM). Does not live here: comparing its figures with receipts
(`operations.plan_gate`) and making staging (`staging`), whose rule it says once more in its own words.
"""


def of_deliveries(rows: str) -> str:
    """A query for deliveries of whole keys: per event day its upserts, and how many of these are superseded.

    Superseded is an upsert that arrived with a version which was not the greatest of its key by then, or that was
    replaced or deleted in the instant in which it arrived.
    """
    arrived = "PARTITION BY event_key ORDER BY arrival_ts, seq"
    newest = f"max((version_ts, arrival_ts, seq)) OVER ({arrived} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    ranked = f"SELECT *, coalesce((version_ts, arrival_ts, seq) > {newest}, true) AS wins FROM ({rows})"
    until = f"SELECT *, lead(arrival_ts) OVER ({arrived}) AS ended FROM ({ranked}) WHERE wins"
    lost = f"SELECT event_ts, op FROM ({ranked}) WHERE NOT wins"
    brief = f"SELECT event_ts, op FROM ({until}) WHERE ended <= arrival_ts"
    day = "CAST(make_timestamp(epoch_us(event_ts)) AS DATE)"
    return (
        f"SELECT {day} AS day, count(*) FILTER (side = 'all') AS came, count(*) FILTER (side = 'gone') AS superseded "
        f"FROM (SELECT event_ts, op, 'all' AS side FROM ({rows}) UNION ALL SELECT *, 'gone' FROM ({lost}) UNION ALL "
        f"SELECT *, 'gone' FROM ({brief})) WHERE op = 'upsert' GROUP BY 1"
    )
