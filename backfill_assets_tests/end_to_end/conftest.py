"""What the long tests share. Lives here: storages of Dagster's that are quick to make, and, where the suite runs in two
processes, Java's classes in an archive before the first server starts. Does not live here: any lake."""

import os

import pytest

from backfill_assets_tests.end_to_end.archive import make_archive


@pytest.fixture(scope="session", autouse=True)
def _quick_storages(migrations_read_once: None) -> None:
    """Most tests of this room make storages of Dagster's."""


@pytest.fixture(scope="session", autouse=True)
def _class_archive(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Most tests of this room start servers. One that is run alone does not wait for what pays with the fifth."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        make_archive(tmp_path_factory.mktemp("archive"))
