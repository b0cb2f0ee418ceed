"""Queries of the embedded engine over rows written here: lateness, accounting of deliveries, and
turned labels.

Tested here: `pipeline.transforms.queries`, without Spark. Not tested here: the gate that compares
(`plans/test_layers.py`), and which days are looked at (`kernel/write/test_candidate.py`).
"""

from collections import Counter
from datetime import date

import duckdb
import pytest

from backfill_assets.pipeline.transforms.queries import (
    account_query,
    label_flips_query,
    lateness_of_versions,
)
from backfill_assets_tests.oracle import delivery, staged, table_of, unruly
from backfill_assets_tests.pipeline.oracle import engine

RAW = """
SELECT DATE '2024-03-02' AS arrival_date, op, a::TIMESTAMPTZ AS arrival_ts, e::TIMESTAMPTZ AS event_ts FROM (VALUES
('upsert', '2024-03-02 12:00:00Z', '2024-03-02 12:00:00Z'), ('upsert', '2024-03-02 12:00:00Z', '2024-03-01 12:00:00Z'),
('upsert', '2024-03-02 00:00:01Z', '2024-03-01 23:59:59Z'), ('delete', '2024-03-02 12:00:00Z', '2024-01-01 00:00:00Z'),
('upsert', '2024-03-02 12:00:00Z', '2024-02-28 12:00:00Z')) rows(op, a, e)"""


def test_versions_are_measured_by_when_they_were_known() -> None:
    rows = (
        "SELECT DATE '2024-03-01' event_date, arrival_ts known_from, event_ts "
        + RAW[RAW.index("FROM (VALUES") :]
    )
    rows = rows.replace("arrival_ts", "a::TIMESTAMPTZ").replace(
        "event_ts ", "e::TIMESTAMPTZ AS event_ts "
    )
    ((_, share, *_),) = duckdb.execute(lateness_of_versions(rows)).fetchall()
    assert share == 0.8


COUNTED = account_query(
    "SELECT * REPLACE (CAST(event_ts AS TIMESTAMPTZ) AS event_ts) FROM landed",
    ["entity", "value", "flag"],
)


def counted(rows: list[dict[str, object]]) -> dict[date, tuple[int, int]]:
    """What the query says of these deliveries."""
    db = engine()
    db.execute("SET TimeZone = 'UTC'")
    db.register("landed", table_of({row["seq"]: row for row in rows}.values()))
    return {day: (came, superseded) for day, came, superseded in db.execute(COUNTED).fetchall()}


@pytest.mark.parametrize("seed", range(6))
def test_upserts_of_a_day_are_rows_of_staging_and_superseded_ones(seed: int) -> None:
    rows = unruly(seed, date(2024, 3, 1))
    in_staging = Counter(row["event_date"] for row in staged(rows))
    found = counted(rows)
    assert {d: came - superseded for d, (came, superseded) in found.items()} == {
        d: in_staging[d] for d in found
    }
    assert set(in_staging) <= set(found)


def test_what_came_with_an_older_version_or_said_nothing_new_is_superseded() -> None:
    noon = delivery(0, "2024-03-01 12:00:00")["event_ts"]
    rows = [
        delivery(1, "2024-03-01 10:00:00"),
        delivery(2, "2024-03-01 11:00:00", version_ts=delivery(0, "2024-02-01")["version_ts"]),
        delivery(3, "2024-03-01 12:00:00"),
        delivery(4, "2024-03-01 12:00:00"),
        delivery(5, "2024-03-01 13:00:00", event_ts=noon),
    ]
    assert counted(rows) == {date(2024, 3, 1): (5, 3)}


def test_labels_that_were_mature_and_have_another_value_or_are_gone_are_counted_by_their_day() -> (
    None
):
    label = (
        "SELECT DATE '2024-03-{}' AS label_date, '{}' AS who, {} AS label, '{}' AS label_state"
    ).format
    before = [
        label("01", "a", 0, "mature"),
        label("01", "b", 1, "mature"),
        label("01", "c", 0, "mature"),
    ]
    before += [label("02", "a", 0, "mature"), label("03", "a", 0, "provisional")]
    after = [
        label("01", "a", 1, "mature"),
        label("01", "c", 0, "mature"),
        label("02", "a", 0, "mature"),
    ]
    after += [label("03", "a", 1, "mature")]
    query = label_flips_query(" UNION ALL ".join(before), " UNION ALL ".join(after), ["who"])
    assert dict(duckdb.execute(query).fetchall()) == {date(2024, 3, 1): 2, date(2024, 3, 2): 0}
