"""Fixtures that tests of several rooms begin with: lakes without an engine, a table's folder, a
report. Here: the fixtures alone, known to every test. Not here: the lakes themselves (`planned`,
`readable_lake`, `late_lake`, `files`). A module whose lake is another one has a fixture of the same
name."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.reader import LakeReader
from backfill_assets.reports.report import LakeReport, durations, report
from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.late_lake import late_lake
from backfill_assets_tests.planned import BUILT, Planned
from backfill_assets_tests.readable_lake import readable_lake

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake of settings only, nothing landed."""
    return bare_lake(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The folder of a table without a commit."""
    return tmp_path / "staging"


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    """A lake with the plan p1."""
    return Planned(tmp_path / "lake")


@pytest.fixture
def reader(tmp_path: Path) -> LakeReader:
    """Reads a lake whose `staging` has two versions."""
    return readable_lake(tmp_path / "it's a lake")


@pytest.fixture
def beside(made: Planned) -> CandidateWorld:
    """A candidate beside the lake with the plan p1."""
    return CandidateWorld.of(made, *BUILT)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> LakeReport:
    """The report on a lake with late deliveries, each write of another duration."""
    found = report(*late_lake(tmp_path_factory.mktemp("told")), NOW)
    measured = tuple(replace(w, seconds=1.0 + n) for n, w in enumerate(found.writes))
    return replace(found, writes=measured, durations=durations(measured, list(found.status.tables)))
