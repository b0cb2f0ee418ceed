"""The sample is the same every time, and holds everything it promises. Standard library only."""

import hashlib
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


def test_every_day_but_the_quiet_one_has_one_or_two_files_and_one_came_twice(files: dict[str, str]) -> None:
    days = Counter(name.split("orders-")[1][:10] for name in files if "-resent" not in name)
    quiet = {str(FIRST + ONE_DAY * n) for n in range(DAYS)} - set(days)
    assert quiet == {str(FIRST + ONE_DAY * (DAYS // 2))}
    assert set(days.values()) == {1, 2}
    digests = Counter(hashlib.sha256(text.encode()).hexdigest() for text in files.values())
    assert sorted(digests.values())[-2:] == [1, 2]


def test_a_day_has_between_fifty_and_a_hundred_rows(files: dict[str, str]) -> None:
    assert 45 * DAYS < sum(text.count("\n") for text in files.values()) < 100 * DAYS


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


def test_some_older_versions_arrive_after_newer_ones(rows: list[dict[str, Any]]) -> None:
    newest: dict[str, str] = {}
    overtaken = 0
    for row in sorted(rows, key=lambda r: str(r["received_at"])):
        overtaken += row["version_at"] < newest.get(row["order_id"], "")
        newest[row["order_id"]] = max(row["version_at"], newest.get(row["order_id"], ""))
    assert overtaken > 3


def test_nothing_arrives_before_its_order_or_after_the_last_day(rows: list[dict[str, Any]]) -> None:
    last = str(FIRST + ONE_DAY * (DAYS - 1))
    assert all(r["received_at"][:10] <= last for r in rows)
    assert all(r["ordered_at"] is None or r["ordered_at"] < r["received_at"] for r in rows)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
