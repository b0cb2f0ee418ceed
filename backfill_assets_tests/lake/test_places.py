from pathlib import Path

from backfill_assets.lake.files import Folder
from backfill_assets.lake.places import place_at


def test_the_place_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    assert place_at(tmp_path / "lake") == Folder(f"{tmp_path}/lake")
