"""`every` and `without` of `[tables.NAME]`: which tables can have other partitions than days, and
what is refused by name.

Tested here: `pipeline.calendars`, and the section of `lake.toml`. Not tested here: the calendars
themselves (`kernel.core.test_calendars`), and a lake with such a table (`end_to_end.test_periods`).
"""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.assets.declared import DeclaredTable, declare_table
from backfill_assets.kernel.core.calendars import Calendar, Unit
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.files import SMALLEST

MONTHLY = """/*
description = "Rows by month."
day = "month"
key = ["entity"]
columns = { entity = "STRING", month = "DATE", n = "BIGINT" }
inputs = { staging = {} }
*/
SELECT entity, CAST(trunc(event_date, 'MONTH') AS DATE) AS month, count(*) AS n FROM staging GROUP BY 1, 2
"""
YEARLY = MONTHLY.replace("staging", "monthly").replace("event_date, 'MONTH'", "month, 'YEAR'")


def pipeline_with(folder: Path, sections: str, **queries: str) -> Pipeline:
    """The pipeline of a lake with SQL tables by their names, and these sections."""
    text = SMALLEST.replace("start_date = 2024-02-26", "start_date = 2024-01-15")
    (folder / "lake.toml").write_text(f'{text}\n[pipeline]\nsql = "*.sql"\n{sections}\n')
    for name, query in {"monthly": MONTHLY, **queries}.items():
        (folder / f"{name}.sql").write_text(query)
    return chosen_pipeline(open_lake(folder))


def test_the_first_month_is_the_first_that_begins_in_the_lake(tmp_path: Path) -> None:
    made = pipeline_with(tmp_path, '[tables.monthly]\nevery = "month"').table("monthly").contract
    assert made.calendar == Calendar(Unit.MONTH)
    assert made.first_day == date(2024, 2, 1)
    assert made.matures_after_days == 0
    assert made.keys_in([date(2024, 1, 20), date(2024, 2, 29)]) == [date(2024, 2, 1)]


def test_a_year_of_months_counts_months(tmp_path: Path) -> None:
    sections = '[tables.monthly]\nevery = "month"\n[tables.yearly]\nevery = "year"'
    yearly = pipeline_with(tmp_path, sections, yearly=YEARLY).table("yearly").contract
    (wanted,) = yearly.inputs
    assert (wanted.calendar, wanted.made_in) == (Calendar(Unit.MONTH), Calendar(Unit.YEAR))
    months = wanted.window_days(date(2024, 1, 1), date(2024, 1, 1))
    assert [m.month for m in months] == [*range(1, 13)]


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ('[tables.monthly]\nevery = "fortnight"', "'fortnight' is none of day, week, month"),
        (
            '[tables.monthly]\nevery = "month"\nwithout = ["sunday"]',
            "a month without rows exists and is empty",
        ),
        ('[tables.nothing]\nevery = "month"', "the table 'nothing': there is no such table"),
        (
            '[tables.staging]\nevery = "month"',
            "its partitions are days: it reads raw by deliveries",
        ),
    ],
)
def test_what_can_have_no_periods_is_refused_by_name(
    tmp_path: Path, sections: str, told: str
) -> None:
    with pytest.raises(BackfillError, match=told):
        pipeline_with(tmp_path, sections)


def test_a_table_of_what_was_known_at_a_cut_stays_daily(tmp_path: Path) -> None:
    known = MONTHLY.replace("staging = {}", "staging = { as_known = true }")
    with pytest.raises(BackfillError, match=r"a day [(]as_known[)], of which"):
        pipeline_with(tmp_path, '[tables.monthly]\nevery = "month"', monthly=known)


def test_the_partitions_of_an_assets_table_are_said_by_the_asset(tmp_path: Path) -> None:
    column = Column("month", "DATE", "when")
    made = Contract("report", "", (column,), "month", (), (), made_by="report")
    month = replace(made, calendar=Calendar(Unit.MONTH), first_day=date(2024, 2, 1))
    declare_table(place_at(tmp_path), DeclaredTable(month, ("report",), "1"))
    assert pipeline_with(tmp_path, "").table("report").contract.calendar == Calendar(Unit.MONTH)
    with pytest.raises(BackfillError, match=r"the asset report says itself which .* every month"):
        pipeline_with(tmp_path, '[tables.report]\nevery = "month"')
