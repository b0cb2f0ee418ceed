"""`report` as a person meets it: the page, its grid, JSON, and what it refuses. No JVM.

Tested here: `cli.report`. The page in a browser, with an automatic look at its accessibility: `browser/test_pages.py`.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli.app import app
from backfill_assets.cli.report import Gauge, exposition, metrics_section, report_gauges
from backfill_assets.lake.home import Lake
from backfill_assets.operations.account import Account
from backfill_assets.operations.report import Delivered, LakeReport
from backfill_assets.operations.report import report as report_of
from backfill_assets.operations.writes import durations
from backfill_assets.orchestration.history import History, PastRun
from backfill_assets_tests.operations.late_lake import FRONTIER, late_lake
from backfill_assets_tests.operations.test_writes import written

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "lake"
    late_lake(folder)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Dagster home of this test's own."""
    folder = tmp_path / "dagster_home"
    folder.mkdir()
    (folder / "dagster.yaml").write_text("telemetry:\n  enabled: false\n", encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    yield folder
    dg.DagsterInstance.get().dispose()


def run(root: Path, *args: object) -> Result:
    return CliRunner().invoke(app, ["report", "--lake", str(root), *map(str, args)])


def test_the_page_and_the_document_are_written_by_one_call(root: Path, home: Path, tmp_path: Path) -> None:
    result = run(root, "--html", tmp_path / "report.html", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["dagster"] == {"runs": [], "checks": [], "findings": []}
    assert said["delivered"]["files"] == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_a_home_of_dagster_that_is_not_there_is_one_line(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "none"))
    result = run(root, "--json")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "Set DAGSTER_HOME to a folder that you may write" in result.stderr


def test_without_a_place_to_write_to_it_draws_the_metrics(root: Path, home: Path, tmp_path: Path) -> None:
    drawn = run(root).stdout
    assert "watermark_lag_seconds" in drawn
    assert "look_back_missed_ratio" not in drawn
    file = tmp_path / "lake.prom"
    assert run(root, "--prometheus", file).stderr == f"wrote {file}\n"
    assert "# TYPE backfill_assets_look_back_missed_ratio gauge" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o644, "a scraper is another user"


NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = 'a"b\\c\nd{e="f"} 1\n# TYPE x'


def parsed(gauges: list[Gauge]) -> dict[tuple[str, ...], float]:
    from prometheus_client.parser import text_string_to_metric_families

    families = list(text_string_to_metric_families(exposition(gauges)))
    assert all(f.documentation and f.type == "gauge" for f in families)
    samples = [s for family in families for s in family.samples]
    return {(s.name.removeprefix("backfill_assets_"), *s.labels.values()): s.value for s in samples}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, LakeReport]:
    lake, pipeline = late_lake(tmp_path_factory.mktemp("metrics"))
    return lake, report_of(lake, pipeline, FRONTIER + timedelta(hours=6))


def ran(seconds: float, queued: float | None) -> PastRun:
    return PastRun("r", "rebuild", "success", None, "manual", NOW, seconds, queued_seconds=queued)


def test_every_number_of_the_report_is_one_sample(made: tuple[Lake, LakeReport]) -> None:
    lake, report = made
    took = durations([replace(written(2.0), rows=10, work_seconds=1.0, bytes=500)], ("staging",))
    account = Account(2, 1000, 990, 3, too_late=4, duplicates=7)
    busy = replace(report, delivered=Delivered(account, {"seq is NULL": 2, HOSTILE: 1}), durations=took)
    found = parsed(list(report_gauges(lake, busy, History((ran(10, 1), ran(10, 1), ran(10, None)), (), ()))))
    assert found["duplicates_per_1000_rows", ""] == pytest.approx(7000 / 1004)
    assert found["late_rows_in_quarantine", ""] == 4
    assert (found["quarantined_rows", "seq is NULL"], found["quarantined_rows", HOSTILE]) == (2, 1)
    assert (found["run_p95_seconds",], found["run_queue_p95_seconds",]) == (10, 1)
    assert found["write_p95_seconds", "staging"] == 2
    assert (found["write_rows_per_second", "staging"], found["write_bytes_per_second", "staging"]) == (10, 500)
    assert not [name for name, *_ in found if name.startswith("write_rows_per_second_trend")], "there is none yet"


def test_a_lake_without_runs_and_reconciliations_has_no_sample_of_them(made: tuple[Lake, LakeReport]) -> None:
    lake, report = made
    found = parsed(list(report_gauges(lake, report, History((), (), ()))))
    assert not [name for name, *_ in found if name.startswith(("run", "reconcile", "control"))]


def test_the_table_has_a_row_per_known_value(tmp_path: Path) -> None:
    section = metrics_section([("a_seconds", "A.", "table", {"raw": 1234.5, "labels": None}), ("b", "B.", "", {"": 2})])
    assert section.tables[0].rows == [("a_seconds", "table raw", "1,234.5"), ("b", "–", "2")]
