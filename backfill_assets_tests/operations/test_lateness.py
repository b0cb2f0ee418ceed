"""The lateness report of a small lake with real tables: counts, watermarks, and what it refuses. No JVM."""

from datetime import timedelta
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
