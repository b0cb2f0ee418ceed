"""The lateness report of a small lake with real tables: counts, watermarks, and what it refuses. No JVM."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.lateness import LatenessReport, LatenessScope, lateness
from backfill_assets_tests.operations.late_lake import DAYS, FRONTIER, LATE_ON, late_lake
from backfill_assets_tests.operations.synthetic import START
from backfill_assets_tests.processes import run_python

NOW = FRONTIER + timedelta(hours=6)


Made = tuple[Lake, Pipeline]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Read only: who changes a lake makes one."""
    return late_lake(tmp_path_factory.mktemp("late"))


def report_of(made: Made, days: DayRange | None = None, share: float = 0.99) -> LatenessReport:
    return lateness(*made, LatenessScope(days, share), NOW)


def test_rows_are_counted_over_all_per_arrival_day_and_per_event_day(made: Made) -> None:
    report = report_of(made)
    assert (report.rows, report.late, report.early, report.deletes) == (3 * DAYS + 1, 1, 0, 1)
    late_on = START + ONE_DAY * LATE_ON
    assert {d.day: (d.late, d.spread.rows) for d in report.by_arrival if d.late} == {late_on: (1, 4)}
    assert {d.day: (d.late, d.spread.rows) for d in report.by_event if d.late} == {late_on - ONE_DAY * 3: (1, 4)}
    assert report.ages == ((0, 3 * DAYS), (3, 1))
    assert report.overall
    assert (report.overall.p50, report.overall.max) == (3600, 3 * 86400)


def test_the_advice_and_the_watermark_see_the_share_that_was_wanted(made: Made) -> None:
    strict, lax = report_of(made), report_of(made, share=0.9)
    assert (strict.look_back_days, strict.age_days) == (4, 3)
    assert (lax.look_back_days, lax.age_days) == (1, 0)
    marks = {w.table: w for w in strict.watermarks}
    assert strict.watched == DayRange(START, FRONTIER.date())
    assert marks["raw"].day == FRONTIER.date() - ONE_DAY * 4
    assert (marks["raw"].lag_days, marks["raw"].clock_lag_days) == (3, 3.25)


def test_a_day_that_is_pending_is_not_a_tables_newest(made: Made) -> None:
    marks = {w.table: w for w in report_of(made, share=0.9).watermarks}
    last = START + ONE_DAY * (DAYS - 1)
    assert marks["raw"].newest_day == last
    assert {w.newest_day for name, w in marks.items() if name != "raw"} == {last - ONE_DAY}
    assert marks["labels"].day == last - ONE_DAY * 3, "staging's, less the horizon of two days"


def test_only_the_days_of_arrival_that_were_asked_for_are_measured(made: Made) -> None:
    days = DayRange(START + ONE_DAY, START + ONE_DAY * 3)
    report = report_of(made, days)
    assert [d.day for d in report.by_arrival] == list(days)
    assert report.watched == days
    nothing = lateness(*made, LatenessScope(DayRange(date(2030, 1, 1), date(2030, 1, 2))), NOW)
    assert (nothing.overall, nothing.watched, nothing.completeness, nothing.look_back_days) == (None, None, (), None)
    assert nothing.to_dict()["late_share"] is None


def test_the_report_is_json(made: Made) -> None:
    said = json.loads(json.dumps(report_of(made).to_dict()))
    assert said["late_share"] == 1 / (3 * DAYS + 1)
    assert said["lateness_days"]["max"] == 3
    assert said["look_backs"][0]["missed"] == 1
    assert said["completeness"]["by_age"][-1] == {"age_days": 4, "share": 1, "event_days": 4, "rows": 13}
    assert said["by_event_day"][1]["late_share"] == 1 / 4


def test_a_lake_without_deliveries_says_what_to_run(made: Made, tmp_path: Path) -> None:
    lake, pipeline = made
    with pytest.raises(BackfillError, match=r"no delivery is loaded yet.*`backfill-assets scan`"):
        lateness(type(lake)(tmp_path, lake.settings), pipeline, LatenessScope(), NOW)


@pytest.mark.usefixtures("processes")
def test_the_report_needs_neither_spark_nor_dagster_nor_plots(made: Made) -> None:
    code = f"""
        import sys
        from click.testing import CliRunner
        from backfill_assets.cli.app import app
        done = CliRunner().invoke(app, ["lateness", "--lake", {str(made[0].root)!r}])
        assert done.exit_code == 0, done.output
        heavy = {{"pyspark", "dagster", "matplotlib", "jinja2", "prometheus_client", "pandas"}}
        print(sorted(heavy & set(sys.modules)))
    """
    assert run_python(code, fresh=True).splitlines()[-1] == "[]"
