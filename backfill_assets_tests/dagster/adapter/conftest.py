"""Fixtures that several tests of this room share.
Here: lakes without an engine, and what takes alerts. Not here: what is asked of them (`ticking`). A
module that needs a lake of other days says how many: `DAYS`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.dagster.adapter.alerts import WEBHOOK
from backfill_assets_tests.dagster.adapter.sinks import Hook
from backfill_assets_tests.dagster.adapter.ticking import DAYS, Made, empty_lake
from backfill_assets_tests.synthetic import synthetic_lake


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """A lake of the module's `DAYS`, else of as many as ticks look at, and its pipeline."""
    return synthetic_lake(tmp_path / "lake", getattr(request.module, "DAYS", DAYS))


@pytest.fixture
def empty(tmp_path: Path) -> Made:
    """A lake into which nothing has landed."""
    return empty_lake(tmp_path / "lake")


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    """A webhook that keeps what it is sent, and is where alerts go."""
    hook = Hook()
    monkeypatch.setenv(WEBHOOK, hook.url)
    yield hook
    hook.close()
