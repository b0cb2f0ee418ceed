"""`report` and `audit` as a person meets them: pages, JSON, metrics that can be parsed, and what is
refused. No JVM. Not here: metrics of lateness (`test_lateness`), the page in a browser
(`browser/test_pages.py`)."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.cli.output import Gauge, prometheus_text
from backfill_assets.dagster.adapter.history import PastRun
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.account import Account
from backfill_assets.reconcile.reconcile import keep_report
from backfill_assets.reports.report import NEWEST_WRITES, Delivered, LakeReport, table_durations
from backfill_assets.reports.report import report_of_lake as report_of
from backfill_assets.reports.report_command import report_gauges
from backfill_assets.reports.report_page import day_grid, month_strip, wanting_days
from backfill_assets.reports.status import DayStatus
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.late_lake import FRONTIER, late_lake
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.reconcile.test_reconcile import reconciled
from backfill_assets_tests.reports.test_report import written
from backfill_assets_tests.synthetic import START

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(made: Planned) -> Planned:
    """Chunk 4 of the plan p1 wrote two days of staging and features again."""
    made.chunk(4, (3, 4), 9)
    return made


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


def test_the_page_and_the_document_are_written_by_one_call(
    root: Path, home: Path, tmp_path: Path
) -> None:
    said = read(run("report", "--lake", root, "--html", tmp_path / "report.html", "--json"))
    assert said["dagster"] == {"runs": []}
    assert said["delivered"]["files"] == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_a_home_of_dagster_that_is_not_there_is_one_line(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "none"))
    result = run("report", "--lake", root, "--json")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "Set DAGSTER_HOME to a folder that you may write" in result.stderr


def test_without_a_place_to_write_to_it_draws_the_metrics(
    root: Path, home: Path, tmp_path: Path
) -> None:
    drawn = run("report", "--lake", root).stdout
    assert "watermark_lag_seconds" in drawn
    assert "look_back_missed_ratio" not in drawn
    file = tmp_path / "lake.prom"
    assert run("report", "--lake", root, "--prometheus", file).stderr == f"wrote {file}\n"
    assert "# TYPE backfill_assets_look_back_missed_ratio gauge" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o644, "a scraper is another user"


NOW = datetime(2026, 1, 1, tzinfo=UTC)

HOSTILE = 'a"b\\c\nd{e="f"} 1\n# TYPE x'


def parsed(gauges: list[Gauge]) -> dict[tuple[str, ...], float]:
    from prometheus_client.parser import text_string_to_metric_families

    families = list(text_string_to_metric_families(prometheus_text(gauges)))
    assert all(f.documentation and f.type == "gauge" for f in families)
    samples = [s for family in families for s in family.samples]
    return {(s.name.removeprefix("backfill_assets_"), *s.labels.values()): s.value for s in samples}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, LakeReport]:
    lake, pipeline = late_lake(tmp_path_factory.mktemp("metrics"))
    return lake, report_of(lake, pipeline, FRONTIER + timedelta(hours=6))


def ran(seconds: float, queued: float | None) -> PastRun:
    return PastRun("r", "rebuild", "success", None, "manual", NOW, seconds, queued_seconds=queued)


def test_every_number_of_the_report_is_one_sample(measured: tuple[Lake, LakeReport]) -> None:
    lake, report = measured
    took = table_durations(
        [replace(written(2.0), rows=10, work_seconds=1.0, bytes=500)], ("staging",)
    )
    account = Account(2, 1000, 990, 3, too_late=4, duplicates=7)
    busy = replace(
        report, delivered=Delivered(account, {"seq is NULL": 2, HOSTILE: 1}), durations=took
    )
    found = parsed(list(report_gauges(lake, busy, [ran(10, 1), ran(10, 1), ran(10, None)])))
    assert found["duplicates_per_1000_rows", ""] == pytest.approx(7000 / 1004)
    assert found["late_rows_in_quarantine", ""] == 4
    assert (found["quarantined_rows", "seq is NULL"], found["quarantined_rows", HOSTILE]) == (2, 1)
    assert (found["run_p95_seconds",], found["run_queue_p95_seconds",]) == (10, 1)
    assert found["write_p95_seconds", "staging"] == 2
    assert (
        found["write_rows_per_second", "staging"],
        found["write_bytes_per_second", "staging"],
    ) == (10, 500)
    assert not [name for name, *_ in found if name.startswith("write_rows_per_second_trend")], (
        "there is none yet"
    )


def test_the_mismatches_of_the_newest_reconciliation_are_a_sample(
    told: LakeReport, tmp_path: Path
) -> None:
    lake = bare_lake(tmp_path)
    keep_report(lake, reconciled())
    assert parsed(list(report_gauges(lake, told, [])))["reconcile_mismatches", "l | r"] == 3


def test_writes_that_became_slower_have_a_trend_below_one(told: LakeReport, tmp_path: Path) -> None:
    newest = [replace(written(2.0), rows=10, work_seconds=4.0)] * NEWEST_WRITES
    before = [replace(written(2.0), rows=10, work_seconds=1.0)] * NEWEST_WRITES
    slower = replace(told, durations=table_durations([*newest, *before], ("staging",)))
    found = parsed(list(report_gauges(bare_lake(tmp_path), slower, [])))
    assert found["write_rows_per_second_trend_ratio", "staging"] == 0.25


def test_a_month_is_a_strip_per_table_and_says_in_words_what_it_shows(told: LakeReport) -> None:
    months = re.findall(r'<th scope="row">(\S+?)((?:<td>.*)+)</tr>', day_grid(told.status))
    assert [month for month, _ in months] == ["2024-02", "2024-03"]
    assert months[0][1].count('class="strip"') == len(told.status.tables)
    days = [DayStatus("raw", START + ONE_DAY * n, State.FRESH, 5, 1) for n in range(3)]
    days.append(DayStatus("raw", START + ONE_DAY * 3, State.STALE, 7, 1))
    drawn = month_strip(days)
    assert 'aria-label="raw 2024-02: 3 fresh, 1 stale"' in drawn
    assert drawn.count('class="fresh"') == drawn.count('class="stale"') == 1, (
        "equal neighbours are one rectangle"
    )
    assert "<title>2024-02-26..2024-02-28: fresh, 15 rows</title>" in drawn
    assert "<title>2024-02-29: stale, 7 rows</title>" in drawn


def test_what_needs_a_look_is_joined_to_ranges_and_no_table_hides_another(told: LakeReport) -> None:
    stale = [
        DayStatus("raw", START + ONE_DAY * n, State.STALE, reason=f"because {n}") for n in range(2)
    ]
    held = [DayStatus("raw", START + ONE_DAY * n, State.HELD) for n in range(2, 4)]
    days = (*stale, *held, DayStatus("raw", START + ONE_DAY * 4, State.PENDING))
    status = replace(told.status, tables={"raw": days, "staging": days})
    found, left_out = wanting_days(status, 2)
    assert found == [
        (table, "2024-02-26..2024-02-27", "stale", "because 0") for table in ("raw", "staging")
    ]
    assert left_out == 2


def test_writes_are_listed_by_commit_and_told_to_programs_by_day(
    made: Planned, tmp_path: Path
) -> None:
    told = run("audit", "--plan", "p1", on=made)
    assert told.exit_code == 0, told.output
    assert f"{day(3)}..{day(4)}" in told.stdout
    assert "p1 chunk 4" in told.stdout
    unknown = run("audit", "--plan", "p9", on=made)
    assert (unknown.exit_code, "this lake has no such plan" in unknown.stderr) == (2, True)
    none = run("audit", "--since", "2999-01-01", on=made)
    assert (none.stdout, none.stderr) == ("", "No write is like that.\n")
    page, table = tmp_path / "audit.html", tmp_path / "audit.parquet"
    asked = ("--table", "staging", "--day", day(3), "--html", page, "--parquet", table)
    found = read(run("audit", *asked, "--json", on=made))
    assert [w["version"] for w in found] == [2, 1]
    assert "p1 chunk 4" in page.read_text()
    assert table.exists()
