"""The history over all tables, and how long writes take.

Tested here: `operations.writes`. Not tested here: that a receipt knows its seconds (`end_to_end`, `cli/test_demo.py`).
"""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.operations.writes import TableWrite, durations, writes
from backfill_assets_tests.builders import make_commit
from backfill_assets_tests.operations.synthetic import START, synthetic_lake

AT = datetime(2026, 1, 1, tzinfo=UTC)
ROUNDING = 1e-6  # of an interpolation, in seconds


def written(seconds: float | None, table: str = "staging", days: int = 1) -> TableWrite:
    return TableWrite(table, 1, AT, tuple(START + ONE_DAY * n for n in range(days)), 0, "manual", "", "", seconds)


def test_every_commit_with_days_is_listed_newest_first(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 3)
    entries = {START: DayEntry(5, "F", "d"), START + ONE_DAY * 2: DayEntry(6, "F", "d")}
    said = Receipt("w", "staging", "late_data", entries, "run-2", "a note", seconds=1.5)
    later = datetime.now(UTC) + timedelta(days=1)
    make_commit(lake.table_path("staging"), 2, said, info={"inCommitTimestamp": int(later.timestamp() * 1000)})
    found = writes(lake, pipeline)
    assert [w.table for w in found[1:]].count("staging") == 1
    newest = found[0]
    assert (newest.table, newest.version, newest.rows, newest.seconds) == ("staging", 2, 11, 1.5)
    assert (newest.reason, newest.note, newest.run_id) == ("late_data", "a note", "run-2")
    assert newest.ranges == (DayRange(START, START + ONE_DAY), DayRange(START + ONE_DAY * 2, START + ONE_DAY * 3))
    assert found[1].seconds is None, "a receipt of before says nothing of its time"


def test_durations_are_told_per_table_in_the_order_of_the_tables_and_only_where_measured() -> None:
    found = [written(4.0, days=4), written(2.0), written(None), written(1.0, "raw")]
    raw, staging = durations(found, ("raw", "staging", "labels"))
    assert (raw.table, raw.writes, raw.median, raw.p95, raw.greatest) == ("raw", 1, 1.0, 1.0, 1.0)
    assert (staging.writes, staging.median, staging.greatest) == (2, 3.0, 4.0)
    assert staging.per_day == pytest.approx(6 / 5)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_the_95th_percentile_lies_between_the_median_and_the_greatest(seconds: list[int]) -> None:
    (told,) = durations([written(float(s)) for s in seconds], ("staging",))
    least_to_greatest = [min(seconds), told.median, told.p95, told.greatest]
    assert all(a <= b + ROUNDING for a, b in pairwise(least_to_greatest))


def test_the_95th_percentile_of_a_hundred_and_one_even_steps_is_the_ninety_fifth() -> None:
    (told,) = durations([written(float(n)) for n in range(101)], ("staging",))
    assert (told.median, told.p95) == (50.0, 95.0)
