"""Publishing a finished file: whole in its place, nothing left beside it.

Tested here: `core.disk`. Not tested here: power cuts, which no test can have; only that what cannot be synced is told.
"""

from pathlib import Path

import pytest

from backfill_assets.core.disk import publish, sync


def test_a_published_file_replaces_the_one_in_its_place_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    finished, target = tmp_path / "new.partial", tmp_path / "report.html"
    finished.write_text("new")
    target.write_text("old")
    publish(finished, target)
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_is_synced_as_a_file_is(tmp_path: Path) -> None:
    sync(tmp_path)


def test_what_is_not_there_is_told_before_anything_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    with pytest.raises(OSError, match="No such file"):
        publish(tmp_path / "new.partial", target)
    assert target.read_text() == "old"
