"""Files of the examples with a story: late verdicts, corrections, retries, broken sensors, days by other clocks.

Tested here: `examples.stories`. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

from collections import Counter
from datetime import datetime

from backfill_assets.examples import stories
from backfill_assets_tests.examples.generated import later, lines, records


def test_a_verdict_comes_days_after_its_payment_and_some_are_overturned() -> None:
    verdicts = lines(stories.late_truth(), "verdicts")
    payments = "".join(text for name, text in stories.late_truth().items() if "payments" in name)
    for verdict in verdicts:
        assert f"{verdict['payment_id']},{verdict['card']},{verdict['paid_at']}" in payments
        assert verdict["given_at"][:10] > verdict["paid_at"][:10]
    times = Counter(verdict["payment_id"] for verdict in verdicts)
    twice = [verdict for verdict in verdicts if times[verdict["payment_id"]] == 2]
    assert {verdict["card"] for verdict in twice} == {stories.OVERTURNED}
    assert {verdict["fraud"] for verdict in twice} == {True, False}


def test_orders_are_late_corrected_returned_and_some_cannot_be_used() -> None:
    rows = records(stories.orders())
    made = [row for row in rows if not row["order_id"].startswith("bad")]
    assert {row["customer_id"] for row in made} == set(stories.CUSTOMERS)
    assert len(rows) - len(made) == 4
    assert any(row["came"] > row["ordered_at"][:10] for row in made if not row["later"])
    assert max(Counter(row["order_id"] for row in made).values()) > 1
    assert {row["is_return"] for row in made} == {"true", "false"}
    offline = [row for row in rows if row["later"]]
    assert {row["customer_id"] for row in offline} == {stories.OFFLINE}
    assert min(row["ordered_at"] for row in offline) >= str(stories.OFFLINE_FROM)


def test_offsets_of_retried_events_are_a_total_order_of_all_copies() -> None:
    by_offset = sorted(lines(stories.retried_events()), key=lambda row: int(row["offset"]))
    assert [row["offset"] for row in by_offset] == list(range(1, len(by_offset) + 1))
    moments = [row["ingested_at"] for row in by_offset]
    assert moments == sorted(moments)


def test_clicks_are_sent_again_some_changed_and_two_copies_tie() -> None:
    sent = lines(stories.retried_events())
    copies = Counter(row["click_id"] for row in sent)
    assert 1 in copies.values()
    assert max(copies.values()) >= 3
    tied = [row for row in sent if row["click_id"] == stories.TIE]
    assert (len({row["ingested_at"] for row in tied}), len({row["page"] for row in tied})) == (1, 2)
    assert any(len({row["seconds"] for row in sent if row["click_id"] == click}) > 1 for click in copies)
    assert later(stories.retried_events())


def test_machines_of_two_plants_share_names_and_some_sensors_break() -> None:
    rows, plants = records(stories.sensor_readings()), stories.PLANTS
    assert {(r["plant"], r["machine"]) for r in rows} == {(p, m) for p, names in plants.items() for m in names}
    assert {"NaN", ""} <= {row["celsius"] for row in rows}


def test_a_plant_that_is_cut_off_sends_later_and_a_calibration_replaces_readings() -> None:
    rows, (plant, day) = records(stories.sensor_readings()), stories.CUT_OFF
    cut_off = [row for row in rows if row["plant"] == plant and row["measured_at"].startswith(str(day))]
    assert cut_off
    assert all(row["sent_at"][:10] > str(day) for row in cut_off)
    before = {(row["machine"], row["measured_at"]): row["celsius"] for row in rows if not row["later"]}
    better = [row for row in rows if row["later"] and row["celsius"] > "0"]
    assert any(before[row["machine"], row["measured_at"]] != row["celsius"] for row in better)


def test_plays_cross_midnight_in_both_directions_and_one_user_has_a_day_by_the_local_clock_alone() -> None:
    plays = lines(stories.timezone_bug())
    moved = {(play["local_time"][:10], play["received_at"][:10]) for play in plays}
    assert {("2024-04-01", "2024-03-31"), ("2024-05-31", "2024-06-01")} <= moved
    assert {min(local for local, _ in moved), max(local for local, _ in moved)} == {"2024-04-01", "2024-05-31"}
    mine = [play for play in plays if play["user_id"] == stories.OWL]
    right = {str(datetime.fromisoformat(play["received_at"]).date()) for play in mine}
    assert "2024-04-01" in {play["local_time"][:10] for play in mine} - right
