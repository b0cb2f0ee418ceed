"""Addresses of lakes in a bucket, and the folder of this machine for each.

Tested here: `kernel.core.addresses`. Not tested here: what lies there (`kernel.place.test_choice`).
"""

from pathlib import Path

import pytest

from backfill_assets.kernel.core.addresses import (
    STATE_VARIABLE,
    address_of,
    bucket_address,
    local_bucket_folder,
    local_root,
    with_bucket_addresses,
)
from backfill_assets.kernel.core.errors import SettingsError


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "address", ["s3://bucket", "s3://bucket/lake", "az://box/a.b/c_d/e-f", "gs://b/.hidden/x"]
)
def test_a_lake_in_a_bucket_has_a_folder_here_from_which_its_address_follows(
    address: str, state: Path
) -> None:
    root = local_root(address)
    assert root.is_relative_to(state)
    assert bucket_address(root) == address_of(root) == address
    assert local_root(f"{address}/") == local_root(Path(address)) == root


def test_a_candidate_lies_below_the_folder_of_its_lake_and_its_address_leads_there() -> None:
    candidate = local_root("s3://bucket/shops/lake") / ".candidates" / "try"
    assert address_of(candidate) == "s3://bucket/shops/lake/.candidates/try"
    assert local_root(address_of(candidate)) == candidate, (
        "the commands that `candidate create` names find its lake"
    )


def test_a_prefix_in_the_lake_is_below_its_folder_and_another_one_is_below_its_buckets() -> None:
    root = local_root("s3://bucket/lake")
    assert local_bucket_folder("s3://bucket/lake/landing/x", root) == root / "landing/x"
    for address, base in (("s3://bucket/lakes/in", root), ("s3://bucket/lakes/in", Path("/lake"))):
        assert address_of(local_bucket_folder(address, base)) == address


def test_a_copy_of_an_object_is_called_by_its_address_in_a_text(tmp_path: Path) -> None:
    copy = local_root("s3://bucket/lake") / ".bucket" / "copies" / "tables/a.parquet"
    text = f"read_parquet(['{copy}', '{tmp_path}/b.parquet'])"
    assert (
        with_bucket_addresses(text)
        == f"read_parquet(['s3://bucket/lake/tables/a.parquet', '{tmp_path}/b.parquet'])"
    )


def test_a_lake_in_a_bucket_and_one_below_it_share_no_folder() -> None:
    above, below = local_root("s3://bucket/lake"), local_root("s3://bucket/lake/tables")
    assert above not in below.parents
    assert bucket_address(below) == "s3://bucket/lake/tables"


def test_a_folder_is_its_own_address_and_lies_in_no_bucket(tmp_path: Path) -> None:
    assert local_root(tmp_path / "x" / ".." / "lake") == tmp_path / "lake"
    assert (bucket_address(tmp_path), address_of(tmp_path)) == ("", str(tmp_path))


@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3://bucket//lake",
        "s3://bucket/a*",
        "s3://b/../c",
        "s3://b/day=1",
        "https://host/lake",
        "s3a://b/c",
    ],
)
def test_an_address_that_no_lake_can_have_is_refused_by_name(address: str) -> None:
    with pytest.raises(SettingsError, match=r"no address of a lake.*Write s3://BUCKET/NAME"):
        local_root(address)
