"""A table of months over daily staging, a table of days over months, and one without weekends, on
the small engine: late rows make exactly their month stale, and a rerun writes the same rows.

Tested here: the load path and readers. Not tested here: which days a period has
(`kernel.core.test_calendars`), plans and other rooms (`test_periods_in_rooms.py`), and Dagster's
partitions (`dagster.adapter.test_partitions`).
"""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.core.errors import BackfillError, ContractBroken
from backfill_assets.kernel.core.states import State
from backfill_assets.reading.reader import LakeReader
from backfill_assets_tests.end_to_end.month_world import (
    DAYS,
    FEBRUARY,
    MARCH,
    MONTHLY,
    RULES,
    TABLES,
    month_world,
    rows,
)
from backfill_assets_tests.end_to_end.worlds import World, land
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.oracle import delivery


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> World:
    """The lake, loaded and built."""
    return month_world(tmp_path / "lake")


def test_late_rows_make_exactly_their_month_stale(world: World) -> None:
    assert rows(world, "monthly", "n") == [("2024-02-01", 2), ("2024-03-01", 2)]
    before = world.fingerprints()["monthly"]
    land(world, "late.jsonl", [delivery(9, "2024-03-05 10:00", "2024-02-10 10:00", key="late")])
    world.backfill(DAYS, "raw", "staging")
    assert world.days_in(State.STALE, "monthly") == {FEBRUARY}
    made = world.backfill(inclusive_range(date(2024, 2, 20), date(2024, 2, 21)), "monthly")
    assert {*made["monthly"].entries} == {FEBRUARY}  # the partition that covers the days
    assert rows(world, "monthly", "n") == [("2024-02-01", 3), ("2024-03-01", 2)]
    assert world.fingerprints()["monthly"][MARCH] == before[MARCH]
    # and the days that read February are stale now: its own, and those of March
    assert world.days_in(State.STALE, "shares") == {*inclusive_range(FEBRUARY, RULES.last_day)}
    world.backfill(DAYS, *TABLES)
    assert world.days_in(State.STALE, "shares") == set()
    versions = {name: world.look().view.table(name).version for name in TABLES}
    world.backfill(DAYS, *TABLES)  # nothing new: nothing is written
    assert {name: world.look().view.table(name).version for name in TABLES} == versions
    assert rows(world, "shares", "before")[-1] == ("2024-03-04", 3)


def test_days_that_are_left_out_are_no_partitions(world: World) -> None:
    assert rows(world, "weekdays", "n") == [
        ("2024-01-31", 1),
        ("2024-02-01", 1),
        ("2024-02-29", 1),
        ("2024-03-04", 1),
    ]
    made = world.look().view.table("weekdays").latest
    assert made.keys().isdisjoint({date(2024, 3, 2), date(2024, 3, 3), date(2024, 3, 5)})
    before_any_month = inclusive_range(RULES.start, date(2024, 1, 31))
    shares = world.backfill(before_any_month, "shares", force=True)["shares"]
    assert shares.entries.keys() == {*before_any_month}
    with pytest.raises(
        BackfillError, match="the table weekdays: it has no partition on 2024-03-02"
    ):
        world.backfill(inclusive_range(date(2024, 3, 2), date(2024, 3, 3)), "weekdays")


def test_a_range_of_days_is_read_and_kept_as_the_partitions_that_cover_them(world: World) -> None:
    lake_session, pipeline = world.open()
    lake = lake_session.lake
    reader = LakeReader(lake, pipeline).table("monthly")
    found = reader.days("2024-02-10", "2024-03-05").arrow()
    assert sorted(found.column("month").to_pylist()) == [FEBRUARY, MARCH]
    days = inclusive_range(date(2024, 2, 10), date(2024, 2, 20))
    kept = create_snapshot(lake, pipeline, SnapshotRequest("feb", ("monthly",), days))
    assert kept.tables["monthly"].days.keys() == {FEBRUARY}


def test_a_row_whose_day_is_no_key_is_refused(world: World) -> None:
    path = world.root / "monthly.sql"
    path.write_text(MONTHLY.replace("date_trunc('MONTH', event_date)", "event_date"))
    before = world.content("monthly")
    with pytest.raises(ContractBroken, match="2024-02-29"):
        world.backfill(DAYS, "monthly")
    assert world.content("monthly") == before
