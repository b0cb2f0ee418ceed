"""The door for readers: what it takes, and what it refuses.
Not here: what can be read of a lake (`reading.reader`), and readers that wait for a run
(`kernel.tables.versions`)."""

import importlib
from pathlib import Path

import pytest

import backfill_assets
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.reading.opening import open_lake
from backfill_assets_tests.readable_lake import readable_lake


def test_a_lake_is_opened_by_its_folder_under_each_of_its_public_names(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    room = importlib.import_module("backfill_assets.reading")
    assert backfill_assets.open_lake is room.open_lake is open_lake
    assert open_lake(tmp_path).lake.root == tmp_path


def test_a_moment_and_the_newest_versions_are_not_asked_for_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name one of at and newest"):
        open_lake(tmp_path, at=1, newest=True)


def test_a_folder_without_a_lake_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no_lake"):
        open_lake(tmp_path / "no_lake")
