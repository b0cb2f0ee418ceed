"""What the tables must hold, computed apart from Spark and from the package: DuckDB SQL with naive joins, and Python.

Lives here: the SQL of the shared goldens for any deliveries and parameters, the ledger `arrivals` by hand, and seeded
deliveries that are as unruly as real ones. Does not live here: writing them to files and running a lake (`worlds`).
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

Row = dict[str, Any]
COLUMNS = ("seq", "arrival_ts", "version_ts", "event_ts", "event_key", "op", "entity", "value", "flag")
_INSTANT = pa.timestamp("us")
SCHEMA = pa.schema(
    [
        ("seq", pa.int64()), ("arrival_ts", _INSTANT), ("version_ts", _INSTANT), ("event_ts", _INSTANT),
        ("event_key", pa.string()), ("op", pa.string()), ("entity", pa.string()), ("value", pa.int64()),
        ("flag", pa.int32()),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Rules:
    """What `lake.toml` says, as far as it decides content. `until`: the frontier, and the end of what is loaded."""

    start: date
    until: datetime
    last_day: date
    windows_days: tuple[int, int] = (2, 4)
    grace_hours: int = 0
    measure: str = "events"
    rule: str = "any"
    horizon_days: int = 3
    maturity_days: int = 1
    early_tolerance_days: int = 1


def delivery(seq: int, arrival: str, event: str | None = None, key: str = "k", **facts: Any) -> Row:
    """A delivery; its event happened on arrival and its version is its arrival's unless said otherwise."""
    moment = datetime.fromisoformat(arrival)
    happened = datetime.fromisoformat(event) if event else moment
    plain: Row = {
        "seq": seq, "arrival_ts": moment, "version_ts": moment, "event_ts": happened, "event_key": key,
        "op": "upsert", "entity": "A", "value": 1, "flag": 0,
    }  # fmt: skip
    return plain | facts


def unruly(seed: int, start: date, days: int = 12, rows: int = 90, keys: int = 30) -> list[Row]:
    """Deliveries that repeat keys, arrive late and out of order, tie, move, vanish, and name no entity."""
    chance = random.Random(seed)
    origin = datetime.fromisoformat(str(start))
    made: list[Row] = []
    for seq in range(rows):
        arrival = origin + timedelta(
            days=chance.randrange(days), hours=chance.randrange(24), seconds=chance.choice([0, 0, 1, 59])
        )
        late = chance.choice([0, 0, 0, 1, 3, 30, 80, 150, -12])
        event = max(origin, min(arrival - timedelta(hours=late), origin + timedelta(days=days)))
        version = arrival - timedelta(hours=chance.choice([0, 0, 0, 0, 2, 40]))
        if chance.random() < 0.1:
            event = event.replace(hour=0, minute=0, second=0)
        key = f"k{int(keys * chance.random() ** 2)}"
        facts: Row = {"version_ts": version, "value": chance.randrange(-5, 50), "flag": chance.randrange(2)}
        facts["entity"] = chance.choice(["A", "A", "A", "B", "C", "NA", None])
        if chance.random() < 0.1:
            facts |= {
                "op": "delete",
                "event_ts": chance.choice([None, event]),
                "entity": None,
                "value": None,
                "flag": None,
            }
        made.append(delivery(seq, arrival.isoformat(), event.isoformat(), key, **facts))
    for twin in chance.sample(made, 4):  # the same again, and a tie on arrival and version
        made.append(twin | {"seq": len(made), "value": None if twin["op"] == "delete" else 7})
    return made


_SQL = {
    "d": """select * from landed where arrival_ts < $until and (op = 'delete' or
        (cast(event_ts as date) >= $start and event_ts <= arrival_ts + to_days($tolerance)))""",
    "win": """with o as
        (select *, row_number() over (partition by event_key order by version_ts, arrival_ts, seq) r from d),
        w as (select *, max(r) over (partition by event_key order by arrival_ts, seq
                                     rows between unbounded preceding and 1 preceding) best from o)
        select *, lead(arrival_ts) over (partition by event_key order by arrival_ts, seq) as valid_to
        from w where best is null or r > best""",
    "staging": """select event_key, event_ts, entity, value, flag, version_ts, seq, arrival_ts as known_from,
        valid_to as known_until, cast(event_ts as date) as event_date from win
        where op <> 'delete' and (valid_to is null or valid_to > arrival_ts)""",
    "now": """select * exclude (n), cast(event_ts as date) as event_date from (select *, row_number() over
        (partition by event_key order by version_ts desc, arrival_ts desc, seq desc) n from d)
        where n = 1 and op <> 'delete'""",
    "days": """select cast(range as date) d, range + interval 1 day + to_hours($grace) as cut
        from range($start, $last + 1, interval 1 day)""",
    "pit": "select *, cast(event_ts as date) as event_date from win where op <> 'delete'",
}  # fmt: skip
_FEATURES = """select s.entity, count(*) filter (s.event_date > x.d - $w1) as events_short, count(*) as events_long,
    coalesce(sum(s.value) filter (s.event_date > x.d - $w1), 0)::bigint as value_short,
    sum(s.value)::bigint as value_long,
    sum(s.flag)::bigint as flagged_long, (x.d - max(s.event_date))::int as days_since_last, x.d as feature_date
    from days x join {source} s on s.event_date between x.d - $w2 + 1 and x.d {also}
    where s.entity is not null group by s.entity, x.d"""
_KNOWN = "and s.arrival_ts < x.cut and (s.valid_to is null or s.valid_to >= x.cut) and x.cut <= $until"
_LABELS = """with sums as (select f.entity, f.feature_date as d,
    coalesce(sum({amount}) filter (s.event_date > f.feature_date), 0)::bigint as forward,
    coalesce(sum({amount}) filter (s.event_date <= f.feature_date), 0)::bigint as backward
    from features_as_known f left join now s on s.entity = f.entity
      and s.event_date > f.feature_date - $h and s.event_date <= f.feature_date + $h group by 1, 2)
    select entity, forward, backward, cast(forward > {bar} as int) as label,
    case when d::timestamp + to_days(1 + $h + $m) <= $until then 'mature' else 'provisional' end as label_state,
    d as label_date from sums"""
_TRAINING = """select f.*, l.label from features_as_known f
    join labels l on l.entity = f.entity and l.label_date = f.feature_date where l.label_state = 'mature'"""
TABLES = ("staging", "features", "features_as_known", "labels", "training")


def expected(rows: Iterable[Mapping[str, Any]], rules: Rules) -> dict[str, list[Row]]:
    """The rows of every table for the days from the lake's first through `last_day`, sorted."""
    db = duckdb.connect()
    db.register("landed", pa.Table.from_pylist([dict(r) for r in rows], SCHEMA))
    known: dict[str, Any] = {
        "until": rules.until, "start": rules.start, "last": rules.last_day, "tolerance": rules.early_tolerance_days,
        "grace": rules.grace_hours, "w1": rules.windows_days[0], "w2": rules.windows_days[1],
        "h": rules.horizon_days, "m": rules.maturity_days,
    }  # fmt: skip
    amount = {"events": "cast(s.event_key is not null as int)"}.get(rules.measure, f"s.{rules.measure}")
    steps = _SQL | {
        "features": _FEATURES.format(source="now", also=""),
        "features_as_known": _FEATURES.format(source="pit", also=_KNOWN),
        "labels": _LABELS.format(amount=amount, bar="0" if rules.rule == "any" else "backward"),
        "training": _TRAINING,
    }
    for name, sql in steps.items():
        used = {k: v for k, v in known.items() if re.search(rf"\${k}\b", sql)}
        db.execute(f"create table {name} as {sql}", used)
    return {t: _rows_of(db.table(t)) for t in TABLES}


def _rows_of(table: duckdb.DuckDBPyRelation) -> list[Row]:
    return ordered(dict(zip(table.columns, row, strict=True)) for row in table.fetchall())


def ordered(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows in an order of their own, for comparing."""
    return sorted((dict(r) for r in rows), key=lambda r: [str(r[k]) for k in sorted(r)])


def arrivals_of(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[date, date], tuple[int, int, int, int | None]]:
    """The ledger by hand: (arrival day, event day) -> deliveries, keys, moved keys, greatest lateness in seconds."""
    days: dict[str, set[date]] = defaultdict(set)
    for row in rows:
        if row["op"] == "upsert":
            days[row["event_key"]].add(row["event_ts"].date())
    found: dict[tuple[date, date], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        for day in days[row["event_key"]]:
            found[row["arrival_ts"].date(), day].append(row)
    ledger = {}
    for (arrival, event), mine in found.items():
        keys = {r["event_key"] for r in mine}
        own = [r for r in mine if r["op"] == "upsert" and r["event_ts"].date() == event]
        late = max((((r["arrival_ts"] - r["event_ts"]) // timedelta(seconds=1)) for r in own), default=None)
        ledger[arrival, event] = (len(mine), len(keys), sum(len(days[k]) > 1 for k in keys), late)
    return ledger
