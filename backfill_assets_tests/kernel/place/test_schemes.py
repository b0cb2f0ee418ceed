"""Whole addresses lead to the places that rooms make for their schemes; one that no room knows is
refused. Not here: what a place in a bucket does (`buckets.test_bucket`)."""

from pathlib import Path

import pytest

from backfill_assets.kernel.core.addresses import SCHEMES, local_root
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.rooms import Room
from backfill_assets.kernel.place.choice import bucket_prefix_at, place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.schemes import place_maker


@pytest.mark.whole_house
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_lake_in_a_bucket_is_a_place_there(scheme: str) -> None:
    place = place_at(local_root(f"{scheme}://bucket/lake") / "tables")
    assert (place.uri("raw"), place.is_store) == (f"{scheme}://bucket/lake/tables/raw", True)


def test_an_address_whose_scheme_no_room_knows_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        place_maker("s3", [Room("plans"), Room("elsewhere", places={"az": "elsewhere:Place"})])
    assert caught.value.object == "an address of s3://"
    assert caught.value.culprit.endswith("reads such addresses (known: az://)")
    assert caught.value.consequence == "Nothing was read or written"
    assert "Name a folder" in caught.value.fix


@pytest.mark.whole_house
def test_a_name_that_is_a_whole_address_is_found_from_any_place(tmp_path: Path) -> None:
    for place in (Folder(str(tmp_path)), bucket_prefix_at("s3://bucket/lake")):
        assert place.uri("gs://others/table/a.parquet") == "gs://others/table/a.parquet"
        assert place.at("s3://others/table").uri("b") == "s3://others/table/b"
