"""A month that was reported and closed while rows of it still come: these are counted on the first
day of trade after they came, and the month is opened, made, exported and searched for an entity.

Tested here: closed months beside a table without weekends and holidays, by the rule that its own
query names. Not tested here: closing alone (`closing/`), and the same of days (guide closed-books).
"""

from datetime import date, datetime
from pathlib import Path

import pytest

from backfill_assets.closing.closing import ClosingRequest, close_tables, reopen_tables
from backfill_assets.closing.late_changes import late_changes
from backfill_assets.erasure.forget import ForgetRequest, erasure_obstacles
from backfill_assets.erasure.traces import Trace
from backfill_assets.export.export import export_days
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.core.states import State
from backfill_assets.pipeline.chosen import tables_at
from backfill_assets_tests.end_to_end.month_world import FEBRUARY, MARCH, MONTHLY
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land, make_world
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.oracle import Rules, delivery

pytestmark = pytest.mark.long

RULES = Rules(date(2024, 2, 1), datetime.fromisoformat("2024-03-08"), date(2024, 3, 7))
DAYS = inclusive_range(RULES.start, RULES.last_day)
HOLIDAY = date(2024, 3, 5)  # a Tuesday
BOOKED = """/*
description = "Rows by the day of trade whose books take them. Those of a month close on the 3rd."
day = "day"
key = ["entity"]
columns = { entity = "STRING", day = "DATE", n = "BIGINT" }
inputs = { staging = { before = 30 } }
*/
WITH versions AS (
    SELECT entity, event_date, CAST(known_from AS date) AS came,
        date_add(last_day(event_date), 3) AS closes
    FROM staging WHERE known_until IS NULL AND entity IS NOT NULL
), taken AS (
    SELECT entity, if(came < closes, event_date, came) AS day FROM versions
), shifted AS (
    SELECT entity, date_add(day, if(day = DATE'2024-03-05', 1, 0)
        + CASE dayofweek(day) WHEN 7 THEN 2 WHEN 1 THEN 1 ELSE 0 END) AS day FROM taken
)
SELECT entity, day, count(*) AS n FROM shifted GROUP BY 1, 2
"""
SECTIONS = (
    '[pipeline]\nsql = "*.sql"\n[tables.monthly]\nevery = "month"\n[tables.booked]\n'
    f'without = ["saturday", "sunday", "{HOLIDAY}"]\n{SHARED}'
)
EARLY = [
    delivery(1, "2024-02-28 10:00", key="a"),
    delivery(2, "2024-03-02 10:00", key="b"),  # a Saturday
]
LATE = [
    delivery(3, "2024-03-05 10:00", "2024-02-10 10:00", key="c", entity="late"),
    delivery(4, "2024-03-05 11:00", "2024-03-05 09:00", key="d"),
]


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> World:
    """The lake, loaded and built; February is closed."""
    made = make_world(tmp_path / "lake", RULES, more=SECTIONS)
    (made.root / "monthly.sql").write_text(MONTHLY)
    (made.root / "booked.sql").write_text(BOOKED)
    land(made, "early.jsonl", EARLY)
    world = World(made.root, tables_at(made.root))
    world.backfill(DAYS, "raw", "staging", "monthly", "booked")
    lake_session, pipeline = world.open()
    reported = ClosingRequest(("monthly",), "reported", {})
    close_tables(lake_session.lake, pipeline, date(2024, 3, 6), reported)
    return world


def counted(world: World, table: str, day: str) -> dict[date, int]:
    """The rows that each day of a table counts."""
    found = dict[date, int]()
    for row in world.content(table):
        found[row[day]] = found.get(row[day], 0) + row["n"]
    return dict(sorted(found.items()))


def test_late_rows_are_counted_on_the_next_day_of_trade_and_the_month_stays_until_it_is_opened(
    world: World,
) -> None:
    lake, pipeline = world.open()[0].lake, world.open()[1]
    out = str(world.root.parent / "out")
    export_days(lake, pipeline, "monthly", out)
    land(world, "late.jsonl", LATE)
    world.backfill(DAYS, "raw", "staging", "booked")
    kept = {FEBRUARY: 1, MARCH: 1}
    assert (counted(world, "monthly", "month"), world.days_in(State.CLOSED, "monthly")) == (
        kept,
        {FEBRUARY},
    )
    assert [(c.table, c.day) for c in late_changes(lake, world.look())] == [("monthly", FEBRUARY)]
    booked = {date(2024, 2, 28): 1, date(2024, 3, 4): 1, date(2024, 3, 6): 2}
    assert counted(world, "booked", "day") == booked
    assert world.days_in(State.STALE, "booked") == set()
    late = Trace({"entity": "late"})
    held = (request := ForgetRequest(lake, pipeline, late, "asked")).look().held
    assert held, "in raw, staging and booked"
    assert not [o for o in erasure_obstacles(request, held) if "closed" in str(o)]
    reopen_tables(lake, pipeline, FEBRUARY, ClosingRequest(("monthly",), "it counts", {}))
    assert world.days_in(State.STALE, "monthly") == {FEBRUARY, MARCH}
    world.backfill(DAYS, "monthly")
    assert counted(world, "monthly", "month") == {FEBRUARY: 2, MARCH: 2}
    closing = ClosingRequest(("monthly",), "reported again", {})
    close_tables(lake, pipeline, date(2024, 2, 29), closing)
    again = export_days(lake, pipeline, "monthly", out)
    assert (again.replaced, again.rows) == ((FEBRUARY, MARCH), 3)
    (told,) = [o for o in erasure_obstacles(request, request.look().held) if "closed" in str(o)]
    assert "backfill-assets reopen --tables monthly" in str(told)
