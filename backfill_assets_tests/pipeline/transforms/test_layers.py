"""Every upsert of a day is in staging or superseded: counted by the query, held against the oracle's staging.

Tested here: `pipeline.transforms.layers`, without Spark. Not tested here: the gate that compares
(`operations/test_plan_layers.py`).
"""

from collections import Counter
from datetime import date

import pytest

from backfill_assets.pipeline.transforms import layers
from backfill_assets_tests.oracle import delivery, staged, table_of, unruly
from backfill_assets_tests.pipeline.oracle import engine

COUNTED = layers.of_deliveries("SELECT * REPLACE (CAST(event_ts AS TIMESTAMPTZ) AS event_ts) FROM landed")


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
    assert {d: came - superseded for d, (came, superseded) in found.items()} == {d: in_staging[d] for d in found}
    assert set(in_staging) <= set(found)


def test_what_came_with_an_older_version_or_was_replaced_at_once_is_superseded() -> None:
    rows = [
        delivery(1, "2024-03-01 10:00:00"),
        delivery(2, "2024-03-01 11:00:00", version_ts=delivery(0, "2024-02-01")["version_ts"]),
        delivery(3, "2024-03-01 12:00:00"),
        delivery(4, "2024-03-01 12:00:00"),
    ]
    assert counted(rows) == {date(2024, 3, 1): (4, 2)}
