"""What tests of logs and tables share: a lake and a table that are empty yet, and the commits that
a look reads. Not here: logs and lakes to look at (`builders`, `files`)."""

from pathlib import Path

import pytest

from backfill_assets.lake import log
from backfill_assets.lake.home import Lake
from backfill_assets.lake.log import Commit
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.logs import place_of


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake of settings only, nothing landed."""
    return bare_lake(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The folder of a table without a commit."""
    return tmp_path / "staging"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions that were read from disk."""
    seen: list[int] = []
    really = log.read_commit

    def counting(table: Path, version: int) -> Commit:
        seen.append(version)
        return really(place_of(table), version)

    monkeypatch.setattr(log, "read_commit", counting)
    return seen
