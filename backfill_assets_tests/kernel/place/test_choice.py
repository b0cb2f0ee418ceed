"""Where the files of a lake lie, by its folder.
Not here: the fillings (`test_files`, `test_bucket`)."""

from pathlib import Path

import pytest

from backfill_assets.kernel.place.choice import bucket_prefix_at, place_at
from backfill_assets.kernel.place.folder import Folder


def test_the_place_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    assert place_at(tmp_path / "lake") == Folder(f"{tmp_path}/lake")


@pytest.mark.whole_house
def test_a_prefix_in_a_bucket_that_others_write_is_a_place_below_the_bucket() -> None:
    place = bucket_prefix_at("s3://bucket/landing/dt=1 ü")
    assert (place.uri("a.csv"), place.name) == ("s3://bucket/landing/dt=1 ü/a.csv", "dt=1 ü")
    assert bucket_prefix_at("gs://bucket").uri("a") == "gs://bucket/a"
