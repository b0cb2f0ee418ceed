"""Declared features beside a hand-written Spark query of the same columns, over the same versions, in turns.

Lives here: made-up versions of events, a query as an engineer writes it who knows what a window function costs, and the
CPU seconds of both truths, which a loaded machine moves less than those of a clock. Does not live here: any assertion,
but that both ways give the same rows.

By hand, now: partial aggregates per entity and day, a grid of the days that a window reaches, and window functions over
RANGE BETWEEN. By hand, at the cut: an event is written once for each day that it counts for, and then grouped.

usage: python -m backfill_assets_tests.benchmarks.declared [EVENTS [DAYS [TURNS]]]
"""

import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.engine.confs import EngineSettings
from backfill_assets.engine.server import stop_server
from backfill_assets.engine.session import drop_session, open_session
from backfill_assets.lake.session import CpuMeter
from backfill_assets.pipeline.transforms.aggregation import Aggregation, Value, trailing
from backfill_assets.pipeline.transforms.declared import at_cut, now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST, ENTITY, LONG, SHORT = date(2024, 1, 1), ["customer_id"], 28, 7
SPENT = Value("total", "DECIMAL(18,2)", "NOT is_return")
COLUMNS = [
    Aggregation("orders_7d", "count", Value(), trailing(SHORT)),
    Aggregation("orders_28d", "count", Value(), trailing(LONG)),
    Aggregation("spent_7d", "sum", SPENT, trailing(SHORT)),
    Aggregation("spent_28d", "sum", SPENT, trailing(LONG)),
    Aggregation("largest_28d", "max", Value("total", "DECIMAL(18,2)"), trailing(LONG)),
    Aggregation("days_since_last", "days_since_last", Value(), trailing(LONG)),
]
PARTS = """count(*) AS n, sum(CASE WHEN NOT is_return THEN total END) AS spent, max(total) AS most,
           max(event_date) AS newest"""
BY_HAND_NOW = f"""
WITH daily AS (SELECT customer_id, event_date AS day, {PARTS} FROM versions WHERE known_until IS NULL
               AND event_date BETWEEN DATE '{{first}}' - {LONG - 1} AND DATE '{{last}}' GROUP BY 1, 2),
grid AS (SELECT DISTINCT customer_id, explode(sequence(day, date_add(day, {LONG - 1}))) AS day FROM daily),
points AS (SELECT g.*, n, spent, most, newest FROM grid g LEFT JOIN daily d USING (customer_id, day))
SELECT * FROM (
  SELECT customer_id, coalesce(sum(n) OVER short, 0) AS orders_7d, sum(n) OVER long AS orders_28d,
    coalesce(sum(spent) OVER short, 0) AS spent_7d, coalesce(sum(spent) OVER long, 0) AS spent_28d,
    max(most) OVER long AS largest_28d, datediff(day, max(newest) OVER long) AS days_since_last, day AS feature_date
  FROM points WINDOW
    short AS (PARTITION BY customer_id ORDER BY unix_date(day) RANGE BETWEEN {SHORT - 1} PRECEDING AND CURRENT ROW),
    long AS (PARTITION BY customer_id ORDER BY unix_date(day) RANGE BETWEEN {LONG - 1} PRECEDING AND CURRENT ROW)
) WHERE feature_date BETWEEN DATE '{{first}}' AND DATE '{{last}}'"""
BY_HAND_AT_CUT = f"""
WITH known AS (SELECT *, greatest(event_date, to_date(known_from), DATE '{{first}}') AS since,
    least(date_add(event_date, {LONG - 1}), date_sub(to_date(known_until), 1), DATE '{{last}}') AS until FROM versions),
each AS (SELECT *, explode(sequence(since, until)) AS day FROM known WHERE since <= until)
SELECT customer_id, count_if(datediff(day, event_date) < {SHORT}) AS orders_7d, count(*) AS orders_28d,
  coalesce(sum(CASE WHEN NOT is_return AND datediff(day, event_date) < {SHORT} THEN total END), 0) AS spent_7d,
  coalesce(sum(CASE WHEN NOT is_return THEN total END), 0) AS spent_28d, max(total) AS largest_28d,
  min(datediff(day, event_date)) AS days_since_last, day AS feature_date
FROM each GROUP BY customer_id, day"""


def versions(spark: "SparkSession", events: int, days: int) -> "DataFrame":
    """So many events over so many days, a tenth of them late and a tenth replaced, cached."""
    number = "abs(xxhash64(id, {0})) % {1}"
    made = spark.range(events).selectExpr(
        "CAST(id AS STRING) AS event_key", f"{number.format(1, max(events // 50, 1))} AS customer_id",
        f"date_add(DATE '{FIRST}', CAST({number.format(2, days)} AS INT)) AS event_date",
        f"CAST({number.format(3, 100000)} / 100 AS DECIMAL(18,2)) AS total", f"{number.format(4, 10)} = 0 AS is_return",
        f"IF({number.format(5, 10)} = 0, {number.format(6, 9)}, 0) AS late", f"{number.format(7, 10)} AS fate",
    )  # fmt: skip
    told = made.selectExpr(
        "event_key", "customer_id", "event_date", "total", "is_return", "CAST(event_date AS TIMESTAMP) AS event_ts",
        "timestampadd(HOUR, late * 24 + 7, CAST(event_date AS TIMESTAMP)) AS known_from",
        "IF(fate = 0, timestampadd(DAY, late + 5, CAST(event_date AS TIMESTAMP)), NULL) AS known_until",
    ).cache()  # fmt: skip
    told.count()
    return told


def seconds(make: "Callable[[], DataFrame]", lake: Path, engine: EngineSettings) -> float:
    """What computing every row of a frame takes of the processors."""
    meter = CpuMeter(lake, engine)
    make().write.format("noop").mode("overwrite").save()
    return meter.spent() or 0.0


def content(frame: "DataFrame") -> tuple[int, int]:
    """How many rows there are, and the sum of a hash of each, whatever their order."""
    cells = ", ".join(f"CAST({name} AS STRING)" for name in sorted(frame.columns))
    hashed = frame.selectExpr(f"CAST(xxhash64({cells}) AS DECIMAL(20,0)) AS hashed")
    (row,) = hashed.selectExpr("count(*) AS rows", "sum(hashed) AS hashes").collect()
    return row["rows"], int(row["hashes"] or 0)


def main(events: int, length: int, turns: int) -> None:
    """A line per truth: median CPU seconds of both ways, and how many times the declared one takes."""
    engine, lake = EngineSettings(engine="local[2]", memory="2g"), Path(tempfile.mkdtemp())
    spark = open_session(lake, engine)
    rows, days = versions(spark, events, length), DayRange(FIRST + ONE_DAY * LONG, FIRST + ONE_DAY * length)
    rows.createOrReplaceTempView("versions")
    bounds = {"first": days.start, "last": days.last}
    ways: dict[str, tuple[Callable[[], DataFrame], Callable[[], DataFrame]]] = {
        "now": (lambda: now(rows, days, ENTITY, COLUMNS), lambda: spark.sql(BY_HAND_NOW.format(**bounds))),
        "at the cut": (
            lambda: at_cut(rows, days, ENTITY, COLUMNS, 0),
            lambda: spark.sql(BY_HAND_AT_CUT.format(**bounds)),
        ),
    }
    for truth, (declared, by_hand) in ways.items():
        same = content(declared()) == content(by_hand())  # and both are warm
        taken = [(seconds(declared, lake, engine), seconds(by_hand, lake, engine)) for _ in range(turns)]
        ours, theirs = (median(column) for column in zip(*taken, strict=True))
        said = "the same rows" if same else "OTHER ROWS"
        print(f"{truth:10s} declared {ours:6.2f} s, by hand {theirs:6.2f} s, {ours / theirs:.2f} x, {said}", flush=True)
    drop_session(lake)
    stop_server(lake)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*(given + [1_000_000, 90, 3][len(given) :]))
