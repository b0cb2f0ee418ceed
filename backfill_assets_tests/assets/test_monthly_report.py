"""A monthly report over the daily orders of somebody's own project: the year is corrected by late
rows, exactly the months that they touch are stale, made again, and equal to a plain computation.

Tested here: whole runs of assets whose partitions are months and days. Not tested here: which keys a
mapping gives (`test_loaded.py`), and months of a lake's own tables (`end_to_end/test_periods.py`).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest

from backfill_assets import testing
from backfill_assets.dagster import Input, LakeIOManager, daily_table, is_stale
from backfill_assets.kernel.core.days import inclusive_range, parse_days
from backfill_assets.kernel.core.digests import input_days_of
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.reading.opening import open_lake
from backfill_assets.reports.show import report_of_day
from backfill_assets_tests.assets.projects import cause
from backfill_assets_tests.assets.test_io_manager import states, versions

START, FIRST, LAST = "2023-12-01", "2024-01-01", "2024-12-31"
FEBRUARY, APRIL, NOVEMBER = "2024-02-01", "2024-04-01", "2024-11-01"
MONTHS_OVER = {"2024-01-01": "fresh", FEBRUARY: "fresh", "2024-03-01": "fresh"}


@dataclass
class Shop:
    """The cents that the source knows by day; one of each day unless a test says otherwise."""

    cents: dict[str, int] = field(default_factory=dict)

    def report(self, first: str, last: str) -> dict[str, int]:
        """The report as anybody would compute it: cents by month."""
        found = Counter[str]()
        for day in map(str, inclusive_range(date.fromisoformat(first), date.fromisoformat(last))):
            found[f"{day[:7]}-01"] += self.cents.get(day, 1)
        return {**found}


def month_of(days: "pd.Series[Any]") -> "pd.Series[Any]":
    """The first day of each day's month."""
    return pd.to_datetime(days).dt.to_period("M").dt.start_time.dt.date


@dataclass(frozen=True)
class Project:
    """The assets `orders` (of days), `monthly_report`, and `share`, a day's part of its month."""

    lake: Path
    instance: dg.DagsterInstance
    shop: Shop = field(default_factory=Shop)
    end: str = ""  # the first day that no order can be of yet; "": today

    @property
    def assets(self) -> Mapping[str, dg.AssetsDefinition]:
        days = dg.DailyPartitionsDefinition(START, end_date=self.end or None)

        @daily_table(partitions_def=days, code_version="1")
        def orders(context: dg.AssetExecutionContext) -> pd.DataFrame:
            cents = [self.shop.cents.get(day, 1) for day in context.partition_keys]
            return pd.DataFrame(
                {"day": pd.to_datetime(context.partition_keys).date, "cents": cents}
            )

        @daily_table(
            inputs=[Input("orders")],
            start=START,
            every="month",
            day="month",
            unique=["month"],
            code_version="1",
            automation_condition=is_stale(self.lake),
        )
        def monthly_report(orders: pd.DataFrame) -> pd.DataFrame:
            by_month = orders.groupby(month_of(orders["day"]))["cents"].sum()
            return pd.DataFrame({"month": [*by_month.index], "cents": by_month.to_numpy()})

        @daily_table(inputs=[Input("orders"), Input("monthly_report")], start=START)
        def share(orders: pd.DataFrame, monthly_report: pd.DataFrame) -> pd.DataFrame:
            totals = dict(zip(monthly_report["month"], monthly_report["cents"], strict=True))
            of_month = [totals[month] for month in month_of(orders["day"])]
            return pd.DataFrame({"day": orders["day"], "share": orders["cents"] / of_month})

        return {"orders": orders, "monthly_report": monthly_report, "share": share}

    def make(self, name: str, first: str, last: str = "") -> dg.ExecuteInProcessResult:
        """One run over a range of partitions of an asset."""
        assets = self.assets
        known = [assets[name], *(a.to_source_asset() for n, a in assets.items() if n != name)]
        resources = {"io_manager": LakeIOManager(lake=str(self.lake))}
        return testing.materialize(
            known,
            first,
            last or None,
            resources=resources,
            instance=self.instance,
            raise_on_error=False,
        )

    def correct(self, cents: Mapping[str, int]) -> None:
        """Let the source know late rows of some days, and make these days again."""
        self.shop.cents |= cents
        for day in cents:
            assert self.make("orders", day).success

    def stale(self, name: str) -> list[str]:
        """The stale partitions of an asset."""
        return sorted(day for day, state in states(self.lake, name).items() if state == "stale")

    def month_states(self) -> dict[str, str]:
        """The state of each month of the report."""
        return states(self.lake, "monthly_report")

    def shown(self, month: str) -> tuple[str, ...]:
        """Why a month of the report is in its state, as `show` says it."""
        reader = open_lake(self.lake, newest=True)
        day = date.fromisoformat(month)
        return report_of_day(reader.lake, reader.pipeline, "monthly_report", day).reasons

    def report(self) -> dict[str, int]:
        """The rows of the report, by month."""
        rows = open_lake(self.lake, newest=True).table("monthly_report").arrow().to_pylist()
        return {str(row["month"]): row["cents"] for row in rows}

    def asked(self) -> set[str]:
        """The months that `is_stale` asks for at a tick."""
        definitions = dg.Definitions(assets=[*self.assets.values()])
        found = dg.evaluate_automation_conditions(definitions, self.instance)
        return {*map(str, found.get_requested_partitions(dg.AssetKey("monthly_report")))}

    def days_read(self, month: str) -> list[date]:
        """The days of `orders` that the receipt of a month names."""
        reader = open_lake(self.lake, newest=True)
        known = reader.pipeline.states(read_view(reader.lake, reader.pipeline.contracts))
        (wanted,) = known.digests.inputs_of("monthly_report", date.fromisoformat(month))
        return input_days_of(wanted, date.fromisoformat(month), known.view)


@pytest.fixture
def project(lake: Path, instance: dg.DagsterInstance) -> Project:
    """The project, with the orders of three months and the report over them."""
    return made_project(lake, instance, "2024-03-31", "2024-03-01")


def made_project(
    lake: Path, instance: dg.DagsterInstance, last_day: str, last_month: str
) -> Project:
    """The project, with the orders from FIRST on and the report over them."""
    made = Project(lake, instance)
    assert made.make("orders", FIRST, last_day).success
    report = made.make("monthly_report", FIRST, last_month)
    assert report.success, cause(report)
    return made


def test_late_rows_of_a_year_make_exactly_their_months_stale_and_a_rerun_equals_the_sum(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    project = made_project(lake, instance, LAST, "2024-12-01")
    assert project.report() == project.shop.report(FIRST, LAST)
    assert project.days_read(FEBRUARY) == [*parse_days("2024-02-01..2024-02-29")]
    project.correct({"2024-02-29": 70, "2024-11-01": 5, "2024-11-30": 6, "2024-05-31": 1})
    assert project.stale("monthly_report") == [FEBRUARY, NOVEMBER]
    assert project.asked() == {FEBRUARY, NOVEMBER}
    for month in (FEBRUARY, NOVEMBER):
        assert project.make("monthly_report", month).success
    assert project.stale("monthly_report") == []
    assert project.report() == project.shop.report(FIRST, LAST)
    before = versions(lake, "monthly_report")
    assert project.make("monthly_report", FIRST, "2024-12-01").success
    assert versions(lake, "monthly_report") == before  # equal rows write nothing


def test_a_day_that_reads_its_month_is_stale_with_it(project: Project) -> None:
    assert project.make("share", "2024-01-30", "2024-03-02").success
    project.correct({"2024-02-10": 30})
    assert project.stale("share") == ["2024-02-10"]  # its own rows, and not yet its month
    assert project.make("monthly_report", FEBRUARY).success
    assert project.stale("share") == [*map(str, parse_days("2024-02-01..2024-02-29"))]


def test_a_month_that_is_not_over_is_provisional_and_says_what_is_still_to_come(
    project: Project,
) -> None:
    early = replace(project, end="2024-04-29")
    assert early.make("orders", "2024-04-01", "2024-04-28").success
    made = early.make("monthly_report", APRIL)
    assert early.month_states() == {**MONTHS_OVER, APRIL: "provisional"}
    (event,) = made.asset_materializations_for_node("monthly_report")
    assert event.metadata["backfill_assets/state"].value == "provisional"
    assert early.shown(APRIL) == (
        "the month is not over: orders 2024-04-29..2024-04-30 is still to come",
    )
    later = replace(project, end="2024-04-30")
    assert later.make("orders", "2024-04-29").success
    assert later.month_states() == {**MONTHS_OVER, APRIL: "stale"}
    assert later.make("monthly_report", APRIL).success
    assert later.month_states() == {**MONTHS_OVER, APRIL: "provisional"}
    assert project.make("orders", "2024-04-30").success
    assert project.make("monthly_report", APRIL).success
    assert project.month_states() == {**MONTHS_OVER, APRIL: "fresh"}
    assert project.shown(APRIL) == ()


def test_a_month_of_a_day_that_was_never_made_is_refused_with_what_to_make_first(
    project: Project,
) -> None:
    result = project.make("monthly_report", "2023-12-01")
    assert "orders for 2023-12-01..2023-12-31, which were never made" in cause(result)


@pytest.mark.parametrize(
    ("every", "day", "culprit"),
    [
        ("month", "2024-02-29", "2024-02-29"),
        ("", "2024-02-01", "has the partitions of every month, and the asset those of every day"),
    ],
)
def test_what_is_no_month_is_refused_and_the_report_stays(
    project: Project, every: str, day: str, culprit: str
) -> None:
    @daily_table(start=FIRST, every=every, day="month", name="monthly_report")
    def other() -> pd.DataFrame:
        return pd.DataFrame({"month": [date.fromisoformat(day)], "cents": [1]})

    result = testing.materialize(
        [other],
        FEBRUARY,
        resources={"io_manager": LakeIOManager(lake=str(project.lake))},
        instance=project.instance,
        raise_on_error=False,
    )
    assert culprit in cause(result)
    assert project.report() == project.shop.report(FIRST, "2024-03-31")
    assert {*states(project.lake, "monthly_report").values()} == {"fresh"}


def test_months_that_a_definition_leaves_out_are_not_missing_and_no_work_has_them(
    project: Project,
) -> None:
    definition = dg.TimeWindowPartitionsDefinition(
        "2024-01-01", "%Y-%m-%d", cron_schedule="0 0 1 * *", exclusions=["0 0 1 2 *"]
    )
    orders = project.assets["orders"]

    @daily_table(inputs=[Input("orders")], partitions_def=definition, day="month")
    def without_february(orders: pd.DataFrame) -> pd.DataFrame:
        by_month = orders.groupby(month_of(orders["day"]))["cents"].sum()
        return pd.DataFrame({"month": [*by_month.index], "cents": by_month.to_numpy()})

    made = testing.materialize(
        [without_february, orders.to_source_asset()],
        FIRST,
        resources={"io_manager": LakeIOManager(lake=str(project.lake))},
        instance=project.instance,
    )
    assert made.success
    reader = open_lake(project.lake, newest=True)
    known = reader.pipeline.states(read_view(reader.lake, reader.pipeline.contracts))
    quarter = inclusive_range(date(2024, 1, 1), date(2024, 3, 31))
    months = [date(2024, 1, 1), date(2024, 3, 1)]
    assert known.keys_in("without_february", quarter) == months
    assert known.of("without_february", date(2024, 2, 1)) is State.PENDING
    work = Work(quarter, ("without_february",))
    assert [[*part.days] for part in work.parts(reader.pipeline.contracts)] == [months]
