"""What the long tests share. Lives here: which of the suite's fixtures all begin with. Does not
live here: any lake."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _quick_storages(migrations_read_once: None) -> None:
    """Most tests of this room make storages of Dagster's."""
