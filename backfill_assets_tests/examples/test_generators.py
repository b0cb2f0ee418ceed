"""The files that each example lands: always the same, and with what its steps need, such as late rows and corrections.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import csv
import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pytest

from backfill_assets.examples.big_orders import generator as big_orders
from backfill_assets.examples.december import generator as december
from backfill_assets.examples.failed_week import generator as failed_week
from backfill_assets.examples.feature_store import generator as feature_store
from backfill_assets.examples.features_v2 import generator as features_v2
from backfill_assets.examples.five_days import generator as five_days
from backfill_assets.examples.late_48h import generator as late_48h
from backfill_assets.examples.late_labels import generator as late_labels
from backfill_assets.examples.late_truth import generator as late_truth
from backfill_assets.examples.orders import generator as orders
from backfill_assets.examples.retried_events import generator as retried_events
from backfill_assets.examples.sensor_readings import generator as sensor_readings
from backfill_assets.examples.timezone_bug import generator as timezone_bug
from backfill_assets.examples.training_daily import generator as training_daily
from backfill_assets.operations.example_lakes import HOME

Rows = list[dict[str, Any]]
GENERATORS = sorted(path.parent.name for path in HOME.glob("*/generator.py"))


def lines(files: Mapping[str, str], part: str = "") -> Rows:
    """The JSON lines of the files whose names hold this part."""
    return [json.loads(line) for name, text in files.items() if part in name for line in text.splitlines()]


def later(files: Mapping[str, str]) -> list[str]:
    """The files that the steps land later than the others."""
    return [name for name in files if name.startswith("later")]


def records(files: Mapping[str, str]) -> Rows:
    """The records of CSV files, each with whether it lands later and the day that its file is of."""
    return [
        {**row, "later": name.startswith("later/"), "came": name.partition("dt=")[2][:10]}
        for name, text in files.items()
        for row in csv.DictReader(text.splitlines())
    ]


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_files_are_made_every_time(name: str) -> None:
    files = import_module(f"backfill_assets.examples.{name}.generator").files
    assert files() == files()


def test_big_orders_come_of_sql_as_many_as_are_asked_for_the_same_every_time(tmp_path: Path) -> None:
    assert big_orders.files() == {}
    (tmp_path / "landing").mkdir()
    query = (HOME / "big_orders" / "generate.sql").read_text(encoding="utf-8")
    found = []
    for _ in range(2):
        duckdb.execute(query.replace("{lake}", str(tmp_path)).replace("{rows}", "1000"))
        read = f"FROM read_parquet('{tmp_path}/landing/**/*.parquet') SELECT count(*), count(DISTINCT order_id)"
        found += duckdb.execute(read + ", count(DISTINCT day), min(ordered_at)::VARCHAR, sum(cents)").fetchall()
    assert found[0][:3] == (1_000, 1_000, 30)
    assert found[0] == found[1]


def test_payments_of_december_are_corrected_repeated_and_unusable() -> None:
    found: dict[str, list[object]] = {}
    for row in lines(december.files()):
        found.setdefault(row["event_key"], []).append(row["value"])
    assert len(december.files()) == 31
    twice = [values for values in found.values() if len(values) == 2]
    assert {values[0] == values[1] for values in twice} == {True, False}
    assert ["twelve"] in found.values()


def test_trips_begin_before_the_failed_week_and_end_behind_it() -> None:
    days = [name[-16:-6] for name in failed_week.files()]
    assert (days[0], days[-1], len(days)) == ("2025-02-27", "2025-03-08", 10)


def test_one_row_of_the_feature_store_is_late() -> None:
    (late,) = lines(feature_store.files(), "later")
    told = (late["user_id"], late["played_at"][:10], late["sent_at"][:10])
    assert told == (feature_store.OFFLINE, "2025-06-02", "2025-06-04")


def test_refunds_and_the_web_occur_within_the_ninety_days_of_features_v2() -> None:
    rows = lines(features_v2.files())
    days = {row["bought_at"][:10] for row in rows}
    assert (min(days), max(days), len(features_v2.files())) == ("2024-12-01", "2025-02-28", 90)
    assert {(r["cents"] > 0, r["channel"]) for r in rows} == {(a, b) for a in (True, False) for b in ("web", "shop")}


def test_exactly_five_days_come_again_with_a_hundredth_of_the_amounts() -> None:
    again = lines(five_days.files(), "later")
    first = {row["sale_id"]: row for row in lines(five_days.files(), "landing")}
    assert sorted({row["sold_at"][:10] for row in again}) == [f"2025-01-{day}" for day in range(10, 15)]
    assert all(first[row["sale_id"]]["cents"] == row["cents"] * 100 for row in again)


def test_no_passage_is_later_than_two_days_and_some_are_sent_twice() -> None:
    rows = lines(late_48h.files())
    assert {int(row["sent_at"][8:10]) - int(row["passed_at"][8:10]) for row in rows} == {0, 1, 2}
    assert len({row["passage_id"] for row in rows}) < len(rows)
    assert later(late_48h.files()) == [f"later/2025-03-0{n}.jsonl" for n in range(4, 8)]


def test_outcomes_of_march_alone_are_late() -> None:
    loans = lines(late_labels.files(), "loans")
    assert len({loan["taken_at"][:10] for loan in loans}) == 180
    assert max(loan["taken_at"] for loan in loans).startswith("2024-03-31")
    assert later(late_labels.files()) == [f"later/outcomes/{late_labels.LATE_MONTH}.jsonl"]


def test_a_verdict_comes_days_after_its_payment_and_some_are_overturned() -> None:
    verdicts = lines(late_truth.files(), "verdicts")
    payments = "".join(text for name, text in late_truth.files().items() if "payments" in name)
    for verdict in verdicts:
        assert f"{verdict['payment_id']},{verdict['card']},{verdict['paid_at']}" in payments
        assert verdict["given_at"][:10] > verdict["paid_at"][:10]
    times = Counter(verdict["payment_id"] for verdict in verdicts)
    twice = [verdict for verdict in verdicts if times[verdict["payment_id"]] == 2]
    assert {verdict["card"] for verdict in twice} == {late_truth.OVERTURNED}
    assert {verdict["fraud"] for verdict in twice} == {True, False}


def test_orders_are_late_corrected_returned_and_some_cannot_be_used() -> None:
    rows = records(orders.files())
    made = [row for row in rows if not row["order_id"].startswith("bad")]
    assert {row["customer_id"] for row in made} == set(orders.CUSTOMERS)
    assert len(rows) - len(made) == 4
    assert any(row["came"] > row["ordered_at"][:10] for row in made if not row["later"])
    assert max(Counter(row["order_id"] for row in made).values()) > 1
    assert {row["is_return"] for row in made} == {"true", "false"}
    offline = [row for row in rows if row["later"]]
    assert {row["customer_id"] for row in offline} == {orders.OFFLINE}
    assert min(row["ordered_at"] for row in offline) >= str(orders.OFFLINE_FROM)


def test_offsets_of_retried_events_are_a_total_order_of_all_copies() -> None:
    by_offset = sorted(lines(retried_events.files()), key=lambda row: int(row["offset"]))
    assert [row["offset"] for row in by_offset] == list(range(1, len(by_offset) + 1))
    moments = [row["ingested_at"] for row in by_offset]
    assert moments == sorted(moments)


def test_clicks_are_sent_again_some_changed_and_two_copies_tie() -> None:
    sent = lines(retried_events.files())
    copies = Counter(row["click_id"] for row in sent)
    assert 1 in copies.values()
    assert max(copies.values()) >= 3
    tied = [row for row in sent if row["click_id"] == retried_events.TIE]
    assert (len({row["ingested_at"] for row in tied}), len({row["page"] for row in tied})) == (1, 2)
    assert any(len({row["seconds"] for row in sent if row["click_id"] == click}) > 1 for click in copies)
    assert later(retried_events.files())


def test_machines_of_two_plants_share_names_and_some_sensors_break() -> None:
    rows, plants = records(sensor_readings.files()), sensor_readings.PLANTS
    assert {(r["plant"], r["machine"]) for r in rows} == {(p, m) for p, names in plants.items() for m in names}
    assert {"NaN", ""} <= {row["celsius"] for row in rows}


def test_a_plant_that_is_cut_off_sends_later_and_a_calibration_replaces_readings() -> None:
    rows, (plant, day) = records(sensor_readings.files()), sensor_readings.CUT_OFF
    cut_off = [row for row in rows if row["plant"] == plant and row["measured_at"].startswith(str(day))]
    assert cut_off
    assert all(row["sent_at"][:10] > str(day) for row in cut_off)
    before = {(row["machine"], row["measured_at"]): row["celsius"] for row in rows if not row["later"]}
    better = [row for row in rows if row["later"] and row["celsius"] > "0"]
    assert any(before[row["machine"], row["measured_at"]] != row["celsius"] for row in better)


def test_plays_cross_midnight_in_both_directions_and_one_user_has_a_day_by_the_local_clock_alone() -> None:
    plays = lines(timezone_bug.files())
    moved = {(play["local_time"][:10], play["received_at"][:10]) for play in plays}
    assert {("2024-04-01", "2024-03-31"), ("2024-05-31", "2024-06-01")} <= moved
    assert {min(local for local, _ in moved), max(local for local, _ in moved)} == {"2024-04-01", "2024-05-31"}
    mine = [play for play in plays if play["user_id"] == timezone_bug.OWL]
    right = {str(datetime.fromisoformat(play["received_at"]).date()) for play in mine}
    assert "2024-04-01" in {play["local_time"][:10] for play in mine} - right


def test_windows_and_labels_of_ninety_days_have_their_rows() -> None:
    days = [name[-16:-6] for name in training_daily.files()]
    assert (days[0], days[-1], len(days)) == ("2024-01-01", "2024-04-06", 6 + 90 + 1)
