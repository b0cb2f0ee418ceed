"""The landed files of the examples hold what their steps show: late, repeated, corrected and unusable rows.

Tested here: the rows. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

from backfill_assets_tests.processes import CHECKOUT

EXAMPLES = CHECKOUT / "backfill_assets" / "examples"


def rows(example: str) -> list[dict[str, Any]]:
    """The rows of all files, with `file`, the path of each in its example."""
    folder = EXAMPLES / example
    found = sorted(path for part in ("landing", "later") for path in (folder / part).rglob("*.*") if path.is_file())
    return [{**row, "file": path.relative_to(folder).as_posix()} for path in found for row in _rows_of(path)]


def _rows_of(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines] if path.suffix == ".jsonl" else list(csv.DictReader(lines))


def is_later(row: dict[str, Any]) -> bool:
    return str(row["file"]).startswith("later/")


def test_a_verdict_comes_days_after_its_payment_and_some_are_overturned() -> None:
    found = rows("late_truth")
    verdicts = [r for r in found if "verdicts" in r["file"]]
    payments = {(r["payment_id"], r["card"], r["paid_at"]) for r in found if "payments" in r["file"]}
    for verdict in verdicts:
        assert (verdict["payment_id"], verdict["card"], verdict["paid_at"]) in payments
        assert verdict["given_at"][:10] > verdict["paid_at"][:10]
    assert {v["fraud"] for v in verdicts} == {True, False}
    ids = [v["payment_id"] for v in verdicts]
    twice = [v for v in verdicts if ids.count(v["payment_id"]) == 2]
    assert {v["card"] for v in twice} == {"c2"}
    assert {v["fraud"] for v in twice} == {True, False}


def test_orders_are_late_corrected_returned_and_some_cannot_be_used() -> None:
    found = rows("orders")
    made = [r for r in found if not r["order_id"].startswith("bad")]
    assert len({r["customer_id"] for r in made}) == 8
    assert len(found) - len(made) == 4
    assert any(r["file"].split("dt=")[1][:10] > r["ordered_at"][:10] for r in made if not is_later(r))
    assert max(Counter(r["order_id"] for r in made).values()) > 1
    assert {r["is_return"] for r in made} == {"true", "false"}


def test_the_till_that_was_offline_delivers_last() -> None:
    offline = [r for r in rows("orders") if is_later(r)]
    assert {r["customer_id"] for r in offline} == {"gus"}
    assert min(r["ordered_at"] for r in offline) >= "2024-03-05"


def test_offsets_are_a_total_order_of_all_copies() -> None:
    sent = rows("retried_events")
    offsets = [r["offset"] for r in sent]
    assert sorted(offsets) == list(range(1, len(offsets) + 1))
    by_offset = sorted(sent, key=lambda r: int(r["offset"]))
    assert [r["ingested_at"] for r in by_offset] == sorted(r["ingested_at"] for r in sent)


def test_clicks_are_sent_again_some_changed_and_two_copies_tie() -> None:
    sent = rows("retried_events")
    copies = Counter(r["click_id"] for r in sent)
    assert 1 in copies.values()
    assert max(copies.values()) >= 3
    tied = [r for r in sent if r["click_id"] == "click-tie"]
    assert len({r["ingested_at"] for r in tied}) == 1
    assert len({r["page"] for r in tied}) == 2
    seconds = {name: {r["seconds"] for r in sent if r["click_id"] == name} for name in copies}
    assert any(len(told) > 1 for told in seconds.values())
    assert any(map(is_later, sent))


def test_machines_of_two_plants_share_names_and_some_sensors_break() -> None:
    found = rows("sensor_readings")
    machines = {(r["plant"], r["machine"]) for r in found}
    assert machines == {("east", "m1"), ("east", "m2"), ("west", "m1"), ("west", "m2"), ("west", "m3")}
    assert {"NaN", ""} <= {r["celsius"] for r in found}


def test_a_plant_that_is_cut_off_sends_later_and_a_calibration_replaces_readings() -> None:
    found = rows("sensor_readings")
    cut_off = [r for r in found if r["plant"] == "west" and r["measured_at"].startswith("2024-07-06")]
    assert cut_off
    assert all(r["sent_at"][:10] > "2024-07-06" for r in cut_off)
    before = {(r["machine"], r["measured_at"]): r["celsius"] for r in found if not is_later(r)}
    better = [r for r in found if is_later(r)]
    assert better
    assert {before[r["machine"], r["measured_at"]] == r["celsius"] for r in better if r["celsius"] > "0"} >= {False}
