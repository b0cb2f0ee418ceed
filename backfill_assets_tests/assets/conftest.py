"""Fixtures of tests of assets of a project: a folder for a lake, and deliveries.
Here: what every test of this room asks for. Not here: assets (`projects.py`), which import Dagster,
as the quick tests of this room do not."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from backfill_assets_tests.assets.projects import Deliveries


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def deliveries() -> "Deliveries":
    from backfill_assets_tests.assets.projects import Deliveries

    return Deliveries()
