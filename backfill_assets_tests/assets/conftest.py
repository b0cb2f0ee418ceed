"""Fixtures of tests of assets of a project: a folder for a lake, and deliveries.
Here: what every test of this room asks for. Not here: assets (`projects.py`)."""

from pathlib import Path

import pytest

from backfill_assets_tests.assets.projects import Deliveries


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def deliveries() -> Deliveries:
    return Deliveries()
