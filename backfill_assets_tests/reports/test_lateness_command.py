"""`lateness` as a person meets it: tables, the page, the metrics file, and what it refuses. No
JVM."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result

from backfill_assets.cli.output import prometheus_text
from backfill_assets.reports.lateness import LatenessScope, lateness_report
from backfill_assets.reports.lateness_command import lateness_gauges
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.late_lake import DAYS, FRONTIER, late_lake
from backfill_assets_tests.synthetic import Made


def measured(root: Path, *args: object) -> Result:
    return run("lateness", "--lake", root, *args)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lateness") / "lake"
    late_lake(folder)
    return folder


def test_the_tables_say_what_is_late_and_what_a_look_back_would_miss(root: Path) -> None:
    result = measured(root)
    assert result.exit_code == 0, result.output
    assert (
        f"{3 * DAYS + 1} upserts; 1 deletes apart\nfrontier: {FRONTIER:%Y-%m-%d}" in result.stdout
    )
    assert "late (a later day than the event's): 1, 4.00 %" in result.stdout
    assert "The smallest that sees 99 % of the rows: 4 day(s)." in result.stdout
    assert re.search(r"features_as_known +\S+ +\S+ +1.0 d", result.stdout)


def test_json_is_one_document(root: Path) -> None:
    said = read(measured(root, "--json"))
    assert (said["wanted_share"], said["look_back_days"]) == (0.99, 4)


NOW = FRONTIER + timedelta(hours=6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Read only."""
    return late_lake(tmp_path_factory.mktemp("late"))


def test_metrics_can_be_parsed_and_say_what_the_report_says(made: Made) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    report = lateness_report(*made, LatenessScope(), NOW)
    found = {
        (s.name.removeprefix("backfill_assets_"), *s.labels.values()): s.value
        for family in text_string_to_metric_families(prometheus_text(lateness_gauges(report)))
        for s in family.samples
    }
    assert found["lateness_rows", "late"] == 1
    assert found["lateness_seconds", "0.5"] == 3600
    assert found["watermark_lag_seconds", "raw"] == 3 * 86400
    assert found["watermark_clock_lag_seconds", "raw"] == 3 * 86400 + 6 * 3600
    assert found["frontier_timestamp_seconds",] == FRONTIER.timestamp()
    assert found["look_back_days", "0.99"] == 4
    assert found["completeness_ratio", "3"] == 1
