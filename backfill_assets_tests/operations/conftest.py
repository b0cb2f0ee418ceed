"""Lakes without an engine that several tests of this room begin with.
Here: the fixtures. Not here: the lakes (`planned`, `readable_lake`, `files`). A module whose lake
is another one has a fixture of the same name."""

from pathlib import Path

import pytest

from backfill_assets.lake.home import Lake
from backfill_assets.operations.reader import LakeReader
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.operations.candidate_world import CandidateWorld
from backfill_assets_tests.operations.planned import BUILT, Planned
from backfill_assets_tests.operations.readable_lake import readable_lake


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "lake")


@pytest.fixture
def reader(tmp_path: Path) -> LakeReader:
    return readable_lake(tmp_path / "it's a lake")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return bare_lake(tmp_path / "lake")


@pytest.fixture
def beside(made: Planned) -> CandidateWorld:
    return CandidateWorld.of(made, *BUILT)
