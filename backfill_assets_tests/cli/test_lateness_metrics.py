"""The metrics of a small lake with real tables: they can be parsed, and say what the report says. No JVM.

Not tested here: the report itself (`test_lateness`).
"""

from datetime import date, timedelta

import pytest

from backfill_assets.cli.lateness import lateness_gauges
from backfill_assets.cli.output import exposition
from backfill_assets.core.days import DayRange
from backfill_assets.operations.lateness import LatenessScope, lateness
from backfill_assets_tests.operations.late_lake import FRONTIER, late_lake
from backfill_assets_tests.operations.synthetic import Made

NOW = FRONTIER + timedelta(hours=6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Read only."""
    return late_lake(tmp_path_factory.mktemp("late"))


def test_metrics_can_be_parsed_and_say_what_the_report_says(made: Made) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    report = lateness(*made, LatenessScope(), NOW)
    found = {
        (s.name.removeprefix("backfill_assets_"), *s.labels.values()): s.value
        for family in text_string_to_metric_families(exposition(lateness_gauges(report)))
        for s in family.samples
    }
    assert found["lateness_rows", "late"] == 1
    assert found["lateness_seconds", "0.5"] == 3600
    assert found["watermark_lag_seconds", "raw"] == 3 * 86400
    assert found["watermark_clock_lag_seconds", "raw"] == 3 * 86400 + 6 * 3600
    assert found["frontier_timestamp_seconds",] == FRONTIER.timestamp()
    assert found["look_back_days", "0.99"] == 4
    assert found["completeness_ratio", "3"] == 1


def test_what_is_not_known_has_no_sample(made: Made) -> None:
    days = DayRange(date(2030, 1, 1), date(2030, 1, 2))
    text = exposition(lateness_gauges(lateness(*made, LatenessScope(days), NOW)))
    assert 'watermark_timestamp_seconds{table="features_as_known"}' in text
    assert 'watermark_timestamp_seconds{table="raw"}' not in text
    assert "look_back_days" not in text
