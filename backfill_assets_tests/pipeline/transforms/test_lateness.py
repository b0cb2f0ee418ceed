"""How late rows were, per day, of rows written here: shares, quantiles, and what is left out.

Tested here: `pipeline.transforms.lateness` in the embedded engine, without Spark. Not tested here: who shows it.
"""

import duckdb
import pytest

from backfill_assets.pipeline.transforms.lateness import of_deliveries, of_versions

RAW = """
SELECT DATE '2024-03-02' AS arrival_date, op, a::TIMESTAMPTZ AS arrival_ts, e::TIMESTAMPTZ AS event_ts FROM (VALUES
('upsert', '2024-03-02 12:00:00Z', '2024-03-02 12:00:00Z'), ('upsert', '2024-03-02 12:00:00Z', '2024-03-01 12:00:00Z'),
('upsert', '2024-03-02 00:00:01Z', '2024-03-01 23:59:59Z'), ('delete', '2024-03-02 12:00:00Z', '2024-01-01 00:00:00Z'),
('upsert', '2024-03-02 12:00:00Z', '2024-02-28 12:00:00Z')) rows(op, a, e)"""


def test_late_is_what_arrived_after_its_event_day_and_deletes_do_not_count() -> None:
    ((day, share, middle, most, greatest),) = duckdb.execute(of_deliveries(RAW)).fetchall()
    assert (str(day), share, greatest) == ("2024-03-02", 0.75, 3.0)
    assert middle == pytest.approx((1 + 2 / 86_400) / 2)
    assert most == pytest.approx(1 + 0.7 * 2)


def test_versions_are_measured_by_when_they_were_known() -> None:
    rows = "SELECT DATE '2024-03-01' event_date, arrival_ts known_from, event_ts " + RAW[RAW.index("FROM (VALUES") :]
    rows = rows.replace("arrival_ts", "a::TIMESTAMPTZ").replace("event_ts ", "e::TIMESTAMPTZ AS event_ts ")
    ((_, share, *_),) = duckdb.execute(of_versions(rows)).fetchall()
    assert share == 0.8
