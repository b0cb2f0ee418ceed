"""The files of the example `timezone-bug` hold plays whose local day is the day before or after that in UTC.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import json
from datetime import datetime
from typing import Any

from backfill_assets.examples.timezone_bug.generator import OWL, files


def plays() -> list[dict[str, Any]]:
    return [json.loads(line) for text in files().values() for line in text.splitlines()]


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_rows_cross_midnight_in_both_directions_and_at_both_ends_of_two_months() -> None:
    moved = {(p["local_time"][:10], p["received_at"][:10]) for p in plays()}
    assert {("2024-04-01", "2024-03-31"), ("2024-05-31", "2024-06-01")} <= moved
    assert {min(local for local, _ in moved), max(local for local, _ in moved)} == {"2024-04-01", "2024-05-31"}


def test_one_user_leaves_no_row_on_a_day_that_has_one_by_the_local_clock() -> None:
    mine = [p for p in plays() if p["user_id"] == OWL]
    local = {p["local_time"][:10] for p in mine}
    right = {str(datetime.fromisoformat(p["received_at"]).date()) for p in mine}
    assert "2024-04-01" in local - right
