"""What tests of logs share: the commits that a look reads.
Not here: logs and lakes to look at (`builders`, `files`, `logs`)."""

from pathlib import Path

import pytest

from backfill_assets.kernel.log import log
from backfill_assets.kernel.log.log import Commit
from backfill_assets_tests.logs import place_of


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
