"""Lakes that several commands are tested on: a late one, one of which a chunk was made again, one
to read from. Here: those fixtures. Not here: the lakes (`operations.late_lake`,
`operations.planned`)."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.operations.report import LakeReport, durations, report
from backfill_assets_tests.operations.late_lake import late_lake
from backfill_assets_tests.operations.planned import Planned
from backfill_assets_tests.operations.readable_lake import readable_lake

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="session", autouse=True)
def _quick_storages(migrations_read_once: None) -> None:
    """Several commands open a storage of Dagster's."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> LakeReport:
    found = report(*late_lake(tmp_path_factory.mktemp("told")), NOW)
    measured = tuple(replace(w, seconds=1.0 + n) for n, w in enumerate(found.writes))
    return replace(found, writes=measured, durations=durations(measured, list(found.status.tables)))


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    """Chunk 4 of the plan p1 wrote two days of staging and features again."""
    found = Planned(tmp_path / "lake")
    found.chunk(4, (3, 4), 9)
    return found


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """`staging` has two versions: of its second day, an event changed and one came."""
    readable_lake(tmp_path)
    return tmp_path
