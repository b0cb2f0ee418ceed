"""Fixtures of tests of the door: an instance of Dagster, and a folder for a lake.
Here: what every test of this room asks for. Not here: assets (`projects.py`)."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets_tests.dagster.projects import Deliveries


@pytest.fixture
def instance(storages: None) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def deliveries() -> Deliveries:
    return Deliveries()
