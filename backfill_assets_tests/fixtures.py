"""Fixtures that tests of several rooms begin with: lakes without an engine, a table's folder.
Here: the fixtures alone, known to every test. Not here: the lakes themselves (`planned`,
`readable_lake`, `late_lake`, `files`). A module whose lake is another one has a fixture of the same
name."""

from pathlib import Path

import pytest

from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.reader import LakeReader
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.readable_lake import readable_lake


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
