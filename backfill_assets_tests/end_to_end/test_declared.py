"""Declared features and labels from landed files to training, through `lake.toml` alone.

Lives here: orders with decimals, returns and an entity of two columns, landed late and in random order, against naive
joins in DuckDB. Does not live here: random declarations (`pipeline.transforms.test_declared`).
"""

import csv
import json
import os
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from backfill_assets.core.days import ONE_DAY, from_inclusive
from backfill_assets.core.states import State
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.model import make_pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.lakes import LONG_AGO, SHARED, backfill, content
from backfill_assets_tests.pipeline.frames import rows_of
from backfill_assets_tests.pipeline.naive import Asked, answers
from backfill_assets_tests.pipeline.oracle import STAGING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.on_spark("what it declares, Sail is not known to compute alike and refuses by name")

ENTITY = ("customer_id", "country")
DAYS = from_inclusive(date(2024, 3, 1), date(2024, 3, 12))
FIELDS = ("seq", "arrival_ts", "order_id", "ordered_at", "op", *ENTITY, "total", "is_return")
TOML = f"""
start_date = 2024-03-01
[source]
files = "landing/**/*.csv"
format = "csv"
select = '''cast(seq AS bigint) AS seq, cast(arrival_ts AS timestamp) AS arrival_ts,
cast(arrival_ts AS timestamp) AS version_ts, cast(ordered_at AS timestamp) AS event_ts,
order_id AS event_key, op, customer_id, nullif(country, '') AS country,
cast(total AS decimal(18,2)) AS total, cast(is_return AS boolean) AS is_return'''
[source.payload]
customer_id = "STRING"
country = "STRING"
total = "DECIMAL(18,2)"
is_return = "BOOLEAN"
[features]
entity = ["customer_id", "country"]
cutoff_grace_hours = 6
[[features.columns]]
name = "spent"
agg = "sum"
of = "if(is_return, -total, total)"
days = 5
[[features.columns]]
name = "largest"
agg = "max"
of = "total"
where = "NOT is_return AND country = 'DE'"
days = 3
[[features.columns]]
name = "returned"
agg = "days_since_last"
where = "is_return"
days = 7
[labels]
label = "sum_ahead(total) > 2 * sum_behind(total)"
horizon_days = 2
maturity_days = 1
[spark]
memory = {json.dumps(SHARED["memory"])}
"""
ASKED = [
    Asked("spent", "sum", "CASE WHEN is_return THEN -total ELSE total END", "", 0, 4),
    Asked("largest", "max", "total", "NOT is_return AND country = 'DE'", 0, 2),
    Asked("returned", "days_since_last", "", "is_return", 0, 6),
]


def _orders(random: Random) -> list[dict[str, Any]]:
    """Deliveries of few orders, each with up to three versions that arrive days later; some are deleted."""
    found: list[dict[str, Any]] = []
    for order in range(60):
        arrival = datetime(2024, 3, 1, tzinfo=UTC) + timedelta(hours=random.randrange(24 * 11))
        event = arrival - timedelta(hours=random.choice((0, 0, 5, 30)))
        for _ in range(random.choice((1, 1, 2, 3))):
            found.append({
                "seq": len(found), "arrival_ts": arrival, "version_ts": arrival, "event_key": f"o{order}",
                "event_ts": max(event, datetime(2024, 3, 1, tzinfo=UTC)), "customer_id": random.choice("abc"),
                "country": random.choice(("DE", "FR", None)), "is_return": random.random() < 0.3,
                "total": Decimal(random.randrange(100000)) / 100, "op": "upsert" if random.random() < 0.9 else "delete",
            })  # fmt: skip
            arrival += timedelta(hours=random.choice((1, 20, 50)))
    return [row for row in found if row["arrival_ts"].date() <= DAYS.last]


def _land(lake: Path, name: str, rows: list[dict[str, Any]]) -> None:
    path = lake / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for row in rows:
            told = {**row, "order_id": row["event_key"], "ordered_at": row["event_ts"]}
            writer.writerow([_text(told[field]) for field in FIELDS])
    os.utime(path, (LONG_AGO, LONG_AGO))


def _text(value: Any) -> Any:
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value


def _staging(rows: list[dict[str, Any]]) -> Any:
    """Versions with their known intervals, by the oracle's SQL; its times are UTC."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET timezone = 'UTC'")
    connection.register("raw", pa.Table.from_pylist(rows))
    columns = f"{', '.join(ENTITY)}, total, is_return"
    return connection.sql(STAGING.replace("entity, value, flag", columns)).to_arrow_table()


def _labels(staging: Any, known: list[tuple[Any, ...]], frontier: date) -> list[tuple[Any, ...]]:
    terms = [Asked("ahead", "sum", "total", "", -2, -1), Asked("behind", "sum", "total", "", 0, 1)]
    sums = {(*r[:2], r[-1]): r[2:4] for r in rows_of(answers(staging, terms, DAYS, known=False, entity=ENTITY))}
    found = []
    for row in known:
        ahead, behind = sums.get((*row[:2], row[-1]), (Decimal(0), Decimal(0)))
        state = "mature" if row[-1] + ONE_DAY * (1 + 2 + 1) <= frontier else "provisional"
        found.append((*row[:2], ahead, behind, int(ahead > 2 * behind), state, row[-1]))
    return found


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [str(cell) for cell in row])


def _outdated(lake: Lake, text: str) -> list[str]:
    """The tables of which a day is outdated by these settings, before anything runs."""
    (lake.root / "lake.toml").write_text(text)
    pipeline = make_pipeline(tables(open_lake(lake.root).settings))
    states = pipeline.states(read_view(lake, pipeline.contracts))
    return [c.name for c in pipeline.contracts if states.of(c.name, date(2024, 3, 5)) is State.OUTDATED]


def test_declared_features_and_labels_come_to_what_naive_joins_come_to(spark: "SparkSession", tmp_path: Path) -> None:
    random, root = Random(11), tmp_path / "lake"
    root.mkdir()
    (root / "lake.toml").write_text(TOML)
    rows = _orders(random)
    random.shuffle(rows)
    for part in range(3):
        _land(root, f"part-{part}.csv", rows[part::3])
    lake = open_lake(root)
    backfill(lake, DAYS.start, DAYS.last)
    staging, frontier = _staging(rows), max(r["arrival_ts"] for r in rows).date() + ONE_DAY
    now = rows_of(answers(staging, ASKED, DAYS, known=False, entity=ENTITY))
    at_cut = rows_of(answers(staging, ASKED, DAYS, known=True, grace_hours=6, entity=ENTITY))
    over = [row for row in at_cut if row[-1] + ONE_DAY < frontier]  # with the grace, the newest cut is still to come
    assert content(lake, "features") == _sorted(now)
    assert content(lake, "features_as_known") == _sorted(over)
    assert over != [row for row in now if row[-1] + ONE_DAY < frontier], "late orders change what is known now"
    labels = _labels(staging, over, frontier)
    assert content(lake, "labels") == _sorted(labels)
    mature = {(*r[:2], r[-1]): r[4] for r in labels if r[5] == "mature"}
    learned = [(*row, mature[(*row[:2], row[-1])]) for row in over if (*row[:2], row[-1]) in mature]
    assert content(lake, "training") == _sorted(learned)
    assert _outdated(lake, TOML) == []
    assert _outdated(lake, TOML.replace("days = 5", "days = 4")) == ["features", "features_as_known"]
