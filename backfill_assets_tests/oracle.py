"""What the tables of a lake must hold, computed apart from Spark and from the package. Here: which
deliveries count under a lake's rules, the ledger `arrivals` by hand, and seeded deliveries that are
as unruly as real ones. Not here: the SQL of the tables (`pipeline.oracle`, the only one), and
writing deliveries to files and running a lake (`worlds`)."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets_tests.pipeline import oracle as content
from backfill_assets_tests.pipeline.oracle import Measure, Rule, answers, engine, staging_of

Row = dict[str, Any]
COLUMNS = (
    "seq",
    "arrival_ts",
    "version_ts",
    "event_ts",
    "event_key",
    "op",
    "entity",
    "value",
    "flag",
)
_INSTANT = pa.timestamp("us")
SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("arrival_ts", _INSTANT),
        ("version_ts", _INSTANT),
        ("event_ts", _INSTANT),
        ("event_key", pa.string()),
        ("op", pa.string()),
        ("entity", pa.string()),
        ("value", pa.int64()),
        ("flag", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Rules:
    """What `lake.toml` says, as far as it decides content. `until`: the frontier, and the end of
    what is loaded."""

    start: date
    until: datetime
    last_day: date
    windows_days: tuple[int, int] = (2, 4)
    grace_hours: int = 0
    measure: Measure = "events"
    rule: Rule = "any"
    horizon_days: int = 3
    maturity_days: int = 1
    early_tolerance_days: int = 1

    @property
    def of_content(self) -> content.Rules:
        """The same as the tables' SQL asks for them."""
        days = inclusive_range(self.start, self.last_day)
        return content.Rules(
            days,
            self.windows_days,
            self.grace_hours,
            self.horizon_days,
            self.maturity_days,
            self.measure,
            self.rule,
            self.until,
        )


def delivery(seq: int, arrival: str, event: str | None = None, key: str = "k", **facts: Any) -> Row:
    """A delivery; its event happened on arrival and its version is its arrival's unless said
    otherwise."""
    moment = datetime.fromisoformat(arrival)
    happened = datetime.fromisoformat(event) if event else moment
    plain: Row = {
        "seq": seq,
        "arrival_ts": moment,
        "version_ts": moment,
        "event_ts": happened,
        "event_key": key,
        "op": "upsert",
        "entity": "A",
        "value": 1,
        "flag": 0,
    }
    return plain | facts


def unruly(seed: int, start: date, days: int = 12, rows: int = 90, keys: int = 30) -> list[Row]:
    """Deliveries that repeat keys, arrive late and out of order, tie, move, vanish, and name no
    entity."""
    chance = random.Random(seed)
    origin = datetime.fromisoformat(str(start))
    made: list[Row] = []
    for seq in range(rows):
        arrival = origin + timedelta(
            days=chance.randrange(days),
            hours=chance.randrange(24),
            seconds=chance.choice([0, 0, 1, 59]),
        )
        late = chance.choice([0, 0, 0, 1, 3, 30, 80, 150, -12])
        event = max(origin, min(arrival - timedelta(hours=late), origin + timedelta(days=days)))
        version = arrival - timedelta(hours=chance.choice([0, 0, 0, 0, 2, 40]))
        if chance.random() < 0.1:
            event = event.replace(hour=0, minute=0, second=0)
        key = f"k{int(keys * chance.random() ** 2)}"
        facts: Row = {
            "version_ts": version,
            "value": chance.randrange(-5, 50),
            "flag": chance.randrange(2),
        }
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


TABLES = ("staging", "features", "features_as_known", "labels", "training")
USABLE = """SELECT * FROM landed WHERE arrival_ts < $until AND (op = 'delete' OR
    (cast(event_ts AS date) >= $start AND event_ts <= arrival_ts + to_days($tolerance)))"""


def expected(rows: Iterable[Mapping[str, Any]], rules: Rules) -> dict[str, list[Row]]:
    """The rows of every table for the days from the lake's first through `last_day`, sorted."""
    db = engine()
    db.register("landed", table_of(rows))
    used = {"until": rules.until, "start": rules.start, "tolerance": rules.early_tolerance_days}
    usable = db.sql(USABLE, params=used).to_arrow_table()
    answered = answers(usable, rules.of_content, waits_for_cut=True)
    return {t: _rows_of(answered.table(t)) for t in TABLES}


def staged(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """All of staging, with no rule about which deliveries count but that each number counts
    once."""
    unique = {row["seq"]: row for row in rows}
    return _rows_of(staging_of(table_of(unique.values())).table("staging"))


def table_of(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Deliveries as Arrow."""
    return pa.Table.from_pylist([dict(r) for r in rows], SCHEMA)


def _rows_of(table: duckdb.DuckDBPyRelation) -> list[Row]:
    return ordered(dict(zip(table.columns, row, strict=True)) for row in table.fetchall())


def ordered(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows in an order of their own, for comparing."""
    return sorted((dict(r) for r in rows), key=lambda r: [str(r[k]) for k in sorted(r)])


def arrivals_of(
    rows: Sequence[Mapping[str, Any]], day_of_key: Callable[[str], date] | None = None
) -> dict[tuple[date, date], tuple[int, int, int, int | None]]:
    """The ledger by hand: (arrival day, event day) -> deliveries, keys, moved keys, greatest
    lateness in seconds. Where keys name their event days, a delete has one, too."""
    days: dict[str, set[date]] = defaultdict(set)
    for row in rows:
        if row["op"] == "upsert":
            days[row["event_key"]].add(row["event_ts"].date())
        elif day_of_key:
            days[row["event_key"]].add(day_of_key(row["event_key"]))
    found: dict[tuple[date, date], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        for day in days[row["event_key"]]:
            found[row["arrival_ts"].date(), day].append(row)
    ledger = {}
    for (arrival, event), mine in found.items():
        keys = {r["event_key"] for r in mine}
        own = [r for r in mine if r["op"] == "upsert" and r["event_ts"].date() == event]
        late = max(
            (((r["arrival_ts"] - r["event_ts"]) // timedelta(seconds=1)) for r in own), default=None
        )
        ledger[arrival, event] = (len(mine), len(keys), sum(len(days[k]) > 1 for k in keys), late)
    return ledger
