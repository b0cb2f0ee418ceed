"""The metrics of a lake: they can be parsed, say what the report says, and take no text of a lake for syntax. No JVM.

Not tested here: the metrics of lateness (`test_lateness`), and that `report` writes them (`test_report`).
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.cli.output import Gauge, exposition
from backfill_assets.cli.report import report_gauges
from backfill_assets.lake.home import Lake
from backfill_assets.operations.account import Account
from backfill_assets.operations.report import Delivered, LakeReport, durations
from backfill_assets.operations.report import report as report_of
from backfill_assets.orchestration.history import PastRun
from backfill_assets_tests.operations.late_lake import FRONTIER, late_lake
from backfill_assets_tests.operations.test_report_writes import written

pytestmark = pytest.mark.usefixtures("storages")

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
    found = parsed(list(report_gauges(lake, busy, [ran(10, 1), ran(10, 1), ran(10, None)])))
    assert found["duplicates_per_1000_rows", ""] == pytest.approx(7000 / 1004)
    assert found["late_rows_in_quarantine", ""] == 4
    assert (found["quarantined_rows", "seq is NULL"], found["quarantined_rows", HOSTILE]) == (2, 1)
    assert (found["run_p95_seconds",], found["run_queue_p95_seconds",]) == (10, 1)
    assert found["write_p95_seconds", "staging"] == 2
    assert (found["write_rows_per_second", "staging"], found["write_bytes_per_second", "staging"]) == (10, 500)
    assert not [name for name, *_ in found if name.startswith("write_rows_per_second_trend")], "there is none yet"
