"""A report to draw, for the tests of this room.

Here: the fixture alone. Not here: what a report holds (`test_report.py`).
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from backfill_assets.reports.report import LakeReport, report_of_lake, table_durations
from backfill_assets_tests.late_lake import late_lake

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> LakeReport:
    """The report on a lake with late deliveries, each write of another duration."""
    found = report_of_lake(*late_lake(tmp_path_factory.mktemp("told")), NOW)
    measured = tuple(replace(w, seconds=1.0 + n) for n, w in enumerate(found.writes))
    return replace(
        found, writes=measured, durations=table_durations(measured, list(found.status.tables))
    )
