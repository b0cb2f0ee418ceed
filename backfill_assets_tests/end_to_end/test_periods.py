"""A table of months over daily staging, a table of days over months, and one without weekends, on
the small engine: late rows make exactly their month stale, and a rerun writes the same rows.

Tested here: the load path, plans and readers. Not tested here: which days a period has
(`kernel.core.test_calendars`), which chunk of a plan makes it (`plans.test_periods`), and Dagster's
partitions (`dagster.adapter.test_partitions`).
"""

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.core.errors import BackfillError, ContractBroken
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG, Work
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.pipeline.chosen import tables_at
from backfill_assets.plans.files import keep_plan
from backfill_assets.plans.model import Plan
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.progress import Progress
from backfill_assets.plans.run import run_plan
from backfill_assets.plans.work import ChunkMaker
from backfill_assets.reading.reader import LakeReader
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land, make_world
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.oracle import Rules, delivery

RULES = Rules(date(2024, 1, 30), datetime.fromisoformat("2024-03-06"), date(2024, 3, 5))
DAYS = inclusive_range(RULES.start, RULES.last_day)
FEBRUARY, MARCH = date(2024, 2, 1), date(2024, 3, 1)
MONTHLY = """/*
description = "Rows by month."
day = "month"
key = ["entity"]
columns = { entity = "STRING", month = "DATE", n = "BIGINT" }
inputs = { staging = {} }
*/
SELECT entity, CAST(date_trunc('MONTH', event_date) AS DATE) AS month, count(*) AS n
FROM staging WHERE known_until IS NULL AND entity IS NOT NULL
AND event_date BETWEEN :first_day AND :last_day GROUP BY 1, 2
"""
SHARES = """/*
description = "The rows of a day, and of the month before it."
day = "day"
key = ["entity"]
columns = { entity = "STRING", day = "DATE", before = "BIGINT NULL" }
inputs = { staging = {}, monthly = { before = 1 } }
*/
SELECT s.entity, s.event_date AS day, max(m.n) AS before FROM staging s
LEFT JOIN monthly m ON m.entity = s.entity
AND m.month = CAST(add_months(date_trunc('MONTH', s.event_date), -1) AS DATE)
WHERE s.known_until IS NULL AND s.entity IS NOT NULL GROUP BY 1, 2
"""
WEEKDAYS = """/*
description = "Rows by trading day."
day = "day"
key = ["entity"]
columns = { entity = "STRING", day = "DATE", n = "BIGINT" }
inputs = { staging = {} }
*/
SELECT entity, event_date AS day, count(*) AS n FROM staging
WHERE known_until IS NULL AND entity IS NOT NULL GROUP BY 1, 2
"""
SECTIONS = (
    f'[pipeline]\nsql = "*.sql"\n[tables.monthly]\nevery = "month"\n[tables.weekdays]\n'
    f'without = ["saturday", "sunday", "2024-03-05"]\n{SHARED}'
)
ROWS = [
    delivery(1, "2024-01-31 10:00", key="a"),
    delivery(2, "2024-02-01 10:00", key="b"),
    delivery(3, "2024-02-29 10:00", key="c"),
    delivery(4, "2024-03-02 10:00", key="d"),  # a Saturday
    delivery(5, "2024-03-04 10:00", key="e"),
]
TABLES = ("raw", "staging", "monthly", "shares", "weekdays")


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> World:
    """The lake, loaded and built."""
    made = make_world(tmp_path / "lake", RULES, more=SECTIONS)
    land(made, "rows.jsonl", ROWS)
    for name, text in {"monthly": MONTHLY, "shares": SHARES, "weekdays": WEEKDAYS}.items():
        (made.root / f"{name}.sql").write_text(text)
    world = World(made.root, tables_at(made.root))
    world.backfill(DAYS, *TABLES)
    return world


def rows(world: World, table: str, value: str) -> list[tuple[str, object]]:
    day = "month" if table == "monthly" else "day"
    found = [(str(row[day]), row[value]) for row in world.content(table)]
    return sorted(found, key=lambda of_day: of_day[0])


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


def opened(world: World) -> tuple[Lake, Pipeline]:
    lake_session, pipeline = world.open()
    return lake_session.lake, pipeline


def planned(world: World, first: date, last: date, *tables: str, **policy: Any) -> Plan:
    """A kept plan in chunks of a week, unless said otherwise."""
    asked = Policy(**{"chunk": "7d", **policy})
    plan = make_plan(
        *opened(world), PlanRequest(inclusive_range(first, last), tables or TABLES, asked)
    )
    keep_plan(opened(world)[0], plan)
    return plan


def ran(world: World, plan: Plan, before: Callable[[Work], None] = lambda _: None) -> Progress:
    """The plan, run without Dagster; `before` is called with each work."""

    def make(work: Work) -> str:
        before(work)
        world.make(work)
        return ""

    return run_plan(
        lambda: opened(world), plan, ChunkMaker(world.root, lambda: opened(world), make, print)
    )


def chunks_of(world: World, table: str, plan: Plan) -> list[tuple[str, list[date]]]:
    """Per write of the plan its chunk and its days, oldest first."""
    lake, _ = opened(world)
    receipts = [c.receipt for c in lake.store.commits(table) if c.receipt is not None]
    own = [r for r in receipts if r.tags.get(PLAN_TAG) == plan.id]
    return [(r.tags[CHUNK_TAG], sorted(r.days)) for r in own]


def test_a_plan_makes_each_month_once_with_the_last_of_its_days(world: World) -> None:
    late = [
        delivery(9, "2024-03-05 10:00", "2024-02-10 10:00", key="late"),
        delivery(10, "2024-03-05 11:00", "2024-03-03 10:00", key="later"),
    ]
    land(world, "late.jsonl", late)
    world.backfill(DAYS, "raw")
    plan = planned(world, date(2024, 2, 8), RULES.last_day)
    assert all(tick.passed for tick in plan.preflight)
    assert (ran(world, plan).state, world.states()["monthly"]) == ("finished", {State.FRESH})
    # February 8; 9 to 15; 16 to 22; 23 to 29; 1 to 5 of March; boundary
    assert chunks_of(world, "monthly", plan) == [("4", [FEBRUARY]), ("5", [MARCH])]
    assert rows(world, "monthly", "n") == [("2024-02-01", 3), ("2024-03-01", 3)]
    assert world.days_in(State.STALE, "weekdays") == set()
    again = planned(world, DAYS.start, DAYS.last)
    assert {i.table: i.days() for i in again.impacts if i.days()} == {
        "shares": frozenset(inclusive_range(FEBRUARY, date(2024, 2, 7)))
    }, "the days before the plan's read the month, too"
