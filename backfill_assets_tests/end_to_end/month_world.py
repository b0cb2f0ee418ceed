"""A small lake with a table of months over daily staging, one of days over months, and one without
weekends, loaded and built. Here: its settings, its rows, and how it is made. Not here: what is done
with it (`test_periods.py`, `test_periods_in_rooms.py`)."""

from datetime import date, datetime
from pathlib import Path

from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.pipeline.chosen import tables_at
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land, make_world
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


def month_world(root: Path) -> World:
    """The lake, loaded and built."""
    made = make_world(root, RULES, more=SECTIONS)
    land(made, "rows.jsonl", ROWS)
    for name, text in {"monthly": MONTHLY, "shares": SHARES, "weekdays": WEEKDAYS}.items():
        (made.root / f"{name}.sql").write_text(text)
    world = World(made.root, tables_at(made.root))
    world.backfill(DAYS, *TABLES)
    return world


def rows(world: World, table: str, value: str) -> list[tuple[str, object]]:
    """The days of a table with this column of their rows, ascending."""
    day = "month" if table == "monthly" else "day"
    found = [(str(row[day]), row[value]) for row in world.content(table)]
    return sorted(found, key=lambda of_day: of_day[0])
