"""What the tables must hold, said once more and naively: DuckDB SQL after `golden.json: sql`, a
join per day. Here: the SQL of every table, and its parameters. Not here: random deliveries
(`worlds`), which deliveries of a lake count (`backfill_assets_tests.oracle`) and the comparison
with Spark (`frames`). Nothing is shared with the transforms, so both cannot be wrong in the same
way."""

import atexit
import os
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

import duckdb

from backfill_assets.kernel.core.days import DayRange

Measure = Literal["events", "flag", "value"]
Rule = Literal["any", "rise"]


@dataclass(frozen=True)
class Rules:
    """The settings that reach the tables; `days` are the days asked for, `frontier` is naive and
    means UTC."""

    days: DayRange
    windows_days: tuple[int, int] = (2, 4)
    grace_hours: int = 0
    horizon_days: int = 3
    maturity_days: int = 1
    measure: Measure = "flag"
    rule: Rule = "any"
    frontier: datetime = datetime(2100, 1, 1)  # noqa: DTZ001 - DuckDB's TIMESTAMP has no zone


# A delivery wins if, at its arrival, it beats every delivery of its key that arrived before it. Of
# winners that say the same in turn the first stays, as long as any of them.
STAGING = """
WITH o AS (SELECT *, row_number() OVER (PARTITION BY event_key ORDER BY version_ts, arrival_ts, seq) AS vrank FROM raw),
     w AS (SELECT *, max(vrank) OVER (PARTITION BY event_key ORDER BY arrival_ts, seq
                                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS best_before FROM o),
     k AS (SELECT * FROM w WHERE best_before IS NULL OR vrank > best_before),
     v AS (SELECT *, lead(arrival_ts) OVER (PARTITION BY event_key ORDER BY arrival_ts, seq) AS ended FROM k),
     s AS (SELECT *, row(op, event_ts, entity, value, flag) AS said FROM v WHERE ended IS NULL OR ended > arrival_ts),
     n AS (SELECT *, lag(said) OVER (PARTITION BY event_key ORDER BY arrival_ts, seq) IS DISTINCT FROM said AS new
           FROM s),
     u AS (SELECT *, lead(arrival_ts) OVER (PARTITION BY event_key ORDER BY arrival_ts, seq) AS known_until
           FROM n WHERE new)
SELECT event_key, event_ts, entity, value, flag, version_ts, seq, arrival_ts AS known_from, known_until,
       cast(event_ts AS date) AS event_date
FROM u WHERE op <> 'delete'
"""

# The state as of the end of all deliveries, by another road than the intervals above.
CURRENT = """
WITH o AS (SELECT *, row_number() OVER (PARTITION BY event_key
                                        ORDER BY version_ts DESC, arrival_ts DESC, seq DESC) AS rn FROM raw)
SELECT *, cast(event_ts AS date) AS event_date FROM o
WHERE rn = 1 AND op <> 'delete'
"""
FEATURES = """
SELECT s.entity,
       count(*) FILTER (s.event_date > x.d - {short}) AS events_short,
       count(*) AS events_long,
       coalesce(sum(s.value) FILTER (s.event_date > x.d - {short}), 0)::bigint AS value_short,
       sum(s.value)::bigint AS value_long,
       sum(s.flag)::bigint AS flagged_long,
       (x.d - max(s.event_date))::int AS days_since_last,
       x.d AS feature_date
FROM (SELECT d, cast(d AS timestamp) + INTERVAL 1 DAY + INTERVAL {grace} HOUR AS cut FROM days) x
JOIN {rows} s ON s.event_date BETWEEN x.d - {long} + 1 AND x.d AND {known}
WHERE s.entity IS NOT NULL GROUP BY s.entity, x.d
"""
LABELS = """
SELECT *, cast(forward > {bar} AS int) AS label,
       CASE WHEN cast(label_date AS timestamp) + INTERVAL 1 DAY + INTERVAL {ripening} DAY <= TIMESTAMP '{frontier}'
            THEN 'mature' ELSE 'provisional' END AS label_state
FROM (SELECT f.entity,
             coalesce(sum({amount}) FILTER (s.event_date > f.feature_date), 0)::bigint AS forward,
             coalesce(sum({amount}) FILTER (s.event_date <= f.feature_date), 0)::bigint AS backward,
             f.feature_date AS label_date
      FROM features_as_known f
      LEFT JOIN current s ON s.entity = f.entity AND s.event_date > f.feature_date - {horizon}
                         AND s.event_date <= f.feature_date + {horizon}
      GROUP BY f.entity, f.feature_date)
"""
TRAINING = """
SELECT f.*, l.label FROM features_as_known f JOIN labels l
    ON l.entity = f.entity AND l.label_date = f.feature_date WHERE l.label_state = 'mature'
"""


def engine() -> duckdb.DuckDBPyConnection:
    """A connection with temporary tables and settings of its own to the one engine of this process.

    To start one takes longer than what most tests ask of it.
    """
    return _engine(os.getpid()).cursor()


@lru_cache(maxsize=1)
def _engine(_process: int) -> duckdb.DuckDBPyConnection:
    atexit.register(_engine.cache_clear)  # else DuckDB takes it for lost
    return duckdb.connect()


def staging_of(raw: Any) -> duckdb.DuckDBPyConnection:
    """A connection with the tables raw (from an Arrow table with zone-less times) and staging, of
    all event days."""
    answered = engine()
    answered.register("landed", raw)
    answered.execute("CREATE TEMP TABLE raw AS SELECT * FROM landed")
    answered.execute(f"CREATE TEMP TABLE staging AS {STAGING}")
    return answered


def answers(raw: Any, rules: Rules, *, waits_for_cut: bool = False) -> duckdb.DuckDBPyConnection:
    """A connection with the tables raw (from an Arrow table with zone-less times), staging …
    training by their names.

    `staging` and `current` hold all event days, the others the days of the rules; with
    `waits_for_cut`, as a lake has them, days whose cut the frontier has not reached are left out of
    what is as known at the cut.
    """
    answered = staging_of(raw)
    first, end = rules.days.start, rules.days.end
    days = (
        f"SELECT cast(range AS date) AS d FROM range(DATE '{first}', DATE '{end}', INTERVAL 1 DAY)"
    )
    known = "s.known_from < x.cut AND (s.known_until IS NULL OR s.known_until >= x.cut)"
    if waits_for_cut:
        known += f" AND x.cut <= TIMESTAMP '{rules.frontier}'"
    tables = {
        "days": days,
        "current": CURRENT,
        "features": _features(rules, "current", "true"),
        "features_as_known": _features(rules, "staging", known),
        "labels": _labels(rules),
        "training": TRAINING,
    }
    for name, sql in tables.items():
        answered.execute(f"CREATE TEMP TABLE {name} AS {sql}")
    return answered


def _features(rules: Rules, rows: str, known: str) -> str:
    short, long = rules.windows_days
    return FEATURES.format(short=short, long=long, grace=rules.grace_hours, rows=rows, known=known)


def _labels(rules: Rules) -> str:
    return LABELS.format(
        amount={"events": "1", "flag": "s.flag", "value": "s.value"}[rules.measure],
        bar={"any": "0", "rise": "backward"}[rules.rule],
        horizon=rules.horizon_days,
        ripening=rules.horizon_days + rules.maturity_days,
        frontier=rules.frontier,
    )
