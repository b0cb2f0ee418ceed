"""A report of a small lake, for the tests of the command, of the page and of the grid.

Lives here: that fixture. Does not live here: the lake (`operations.late_lake`).
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from backfill_assets.operations.report import LakeReport, report
from backfill_assets.operations.writes import durations
from backfill_assets_tests.operations.late_lake import late_lake

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="session", autouse=True)
def _quick_storages(migrations_read_once: None) -> None:
    """Several commands open a storage of Dagster's."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> LakeReport:
    found = report(*late_lake(tmp_path_factory.mktemp("told")), NOW)
    measured = tuple(replace(w, seconds=1.0 + n) for n, w in enumerate(found.writes))
    return replace(found, writes=measured, durations=durations(measured, list(found.status.tables)))
