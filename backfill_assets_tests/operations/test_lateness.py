"""The lateness report of a small lake with real tables: counts, watermarks, and what it refuses. No JVM."""

from datetime import timedelta
from pathlib import Path

import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.lateness import LatenessReport, LatenessScope, lateness
from backfill_assets_tests.operations.late_lake import FRONTIER, late_lake
from backfill_assets_tests.processes import run_python

NOW = FRONTIER + timedelta(hours=6)


Made = tuple[Lake, Pipeline]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Read only: who changes a lake makes one."""
    return late_lake(tmp_path_factory.mktemp("late"))


def report_of(made: Made, days: DayRange | None = None, share: float = 0.99) -> LatenessReport:
    return lateness(*made, LatenessScope(days, share), NOW)


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
