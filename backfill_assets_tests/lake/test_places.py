"""Where the files of a lake lie, by its folder.

Tested here: `lake.places`. Not tested here: the fillings (`test_files`, `test_bucket`).
"""

from pathlib import Path

from backfill_assets.lake.files import Folder
from backfill_assets.lake.places import place_at


def test_the_place_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    assert place_at(tmp_path / "lake") == Folder(f"{tmp_path}/lake")
