"""The sample is the same every time, and holds everything it promises. Standard library only."""

import json
from collections import Counter
from datetime import date, datetime
from typing import Any

import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.operations.example_lakes import HOT_CUSTOMER, sample_files

FIRST, DAYS = date(2024, 2, 26), 30


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return sample_files(FIRST, DAYS)


@pytest.fixture(scope="module")
def rows(files: dict[str, str]) -> list[dict[str, Any]]:
    found = []
    for line in (line for text in files.values() for line in text.splitlines()):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and row["delivery"] < 900_000:
            found.append(row)
    return found


def test_the_same_days_give_the_same_bytes(files: dict[str, str]) -> None:
    assert sample_files(FIRST, DAYS) == files
    assert sample_files(FIRST, DAYS, seed=1) != files


def test_what_makes_backfills_hard_is_in_it(rows: list[dict[str, Any]]) -> None:
    upserts = [r for r in rows if r["op"] == "upsert"]
    late = [_time(r["received_at"]) - _time(r["ordered_at"]) for r in upserts]
    assert max(late) > ONE_DAY * 10
    assert sum(lateness > ONE_DAY for lateness in late) > DAYS
    assert sum(r["op"] == "delete" for r in rows) > 5
    assert sum(r["customer"] is None for r in upserts) > 5
    assert 0.2 < sum(r["customer"] == HOT_CUSTOMER for r in upserts) / len(upserts) < 0.3
    orders = Counter((r["order_id"], r["ordered_at"][:10]) for r in upserts)
    assert len(orders) > len({key for key, _ in orders}), "some orders move to another day"
    assert len(rows) > len({r["delivery"] for r in rows}), "some rows are repeated"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
