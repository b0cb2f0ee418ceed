"""What the long tests share. Lives here: which of the suite's fixtures all begin with. Does not
live here: any lake."""

import pytest

from backfill_assets_tests.engine_choice import ON_SPARK, USERS_DO


@pytest.fixture(scope="session", autouse=True)
def _quick_storages(migrations_read_once: None) -> None:
    """Most tests of this room make storages of Dagster's."""


@pytest.fixture(scope="module", autouse=True)
def _servers_start_quickly(request: pytest.FixtureRequest) -> None:
    """Most tests of this room on Spark start servers."""
    if any(request.node.get_closest_marker(name) for name in (ON_SPARK, USERS_DO)):
        request.getfixturevalue("class_archive")
