"""Publishing a finished file: whole in its place, nothing left beside it.

Tested here: `core.disk`. Not tested here: power cuts, which no test can have; only that what cannot be synced is told.
"""

import os
from pathlib import Path

import pytest

from backfill_assets.core.disk import SYNC_ALL_FROM, publish, sync, sync_all


def test_a_published_file_replaces_the_one_in_its_place_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    finished, target = tmp_path / "new.partial", tmp_path / "report.html"
    finished.write_text("new")
    target.write_text("old")
    publish(finished, target)
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_is_synced_as_a_file_is(tmp_path: Path) -> None:
    sync(tmp_path)


@pytest.mark.parametrize("many", [3, SYNC_ALL_FROM])
def test_files_and_their_folders_are_synced_and_many_by_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    files = [tmp_path / "a" / f"{n}.parquet" for n in range(many)]
    files[0].parent.mkdir()
    for file in files:
        file.touch()
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    monkeypatch.setattr(os, "sync", lambda: synced.append("all"))
    sync_all(files, tmp_path)
    each = [str(tmp_path), str(tmp_path / "a"), *map(str, files)]
    assert sorted(synced) == sorted(each if many == 3 else ["all"])


def test_what_is_not_there_is_told_before_anything_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    with pytest.raises(OSError, match="No such file"):
        publish(tmp_path / "new.partial", target)
    assert target.read_text() == "old"
