"""A bucket as a place: the port's suite through servers that speak S3, and what only a bucket has.
Not here: leases (`test_leases`), and whole lakes in a bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.buckets.bucket import Bucket
from backfill_assets.buckets.objects import READ_BYTES
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.port import Place
from backfill_assets_tests import stores
from backfill_assets_tests.kernel.place import test_port as test_place

SERVERS = [stores.moto, stores.versitygw, stores.azurite]
# The same tests, which take the fixture `place` of this module.
globals().update(
    {name: test for name, test in vars(test_place).items() if name.startswith("test_")}
)


@pytest.fixture(scope="module", params=SERVERS, ids=lambda s: s.__name__)
def server(request: pytest.FixtureRequest, processes: None) -> Iterator[stores.StoreServer]:
    """Each kind of server in turn."""
    with request.param() as running:
        yield running


@pytest.fixture
def place(server: stores.StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty place."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return Bucket(f"{server.new_bucket()}/some/lake", str(tmp_path / "local"))


def test_a_write_a_look_and_a_listing_give_equal_tokens_also_where_a_bucket_keeps_versions(
    bucket_address: str, moto_server: stores.StoreServer, tmp_path: Path
) -> None:
    """A listing does not tell versions. Moto lists the folders of deleted objects there, so the
    suite does without."""
    moto_server.keep_versions(bucket_address.removesuffix("/lake"))
    place = Bucket(bucket_address, str(tmp_path))
    written = place.write("a", b"1")
    assert (written, place.token("a")) == (place.tokens()["a"], place.tokens()["a"])
    place.write("a", b"2", if_unchanged=place.tokens()["a"])
    assert written != place.tokens()["a"] == place.token("a")


def test_what_is_prepared_is_seen_by_this_machine_alone_until_it_is_sent(
    place: Place, tmp_path: Path
) -> None:
    assert isinstance(place, Bucket)
    other = Bucket(place.address, str(tmp_path / "another machine"))
    prepared = place.prepared("t/writes/1/day=2026-01-01") / "part-0.parquet"
    prepared.write_bytes(b"rows")
    name = "t/writes/1/day=2026-01-01/part-0.parquet"
    assert (place.below("t"), place.read(name), place.local(name)) == ([name], b"rows", prepared)
    assert (place.at("t/writes").names(), place.at("t").names("writes")) == (["1"], ["1"])
    assert (other.below(), other.exists(name)) == ([], False)
    place.sync_new([name])
    assert (other.below(), other.read(name), other.local(name).read_bytes()) == (
        [name],
        b"rows",
        b"rows",
    )
    assert (place.below(), place.local(name), prepared.read_bytes()) == ([name], prepared, b"rows")
    other.delete(name)
    assert (place.below(), place.exists(name)) == ([], False)


def test_a_copy_is_fetched_once_and_put_leaves_one(place: Place, tmp_path: Path) -> None:
    assert isinstance(place, Bucket)
    place.write("a", b"1")
    copy = place.local("a")
    place.write("a", b"22")
    assert place.local("a").read_bytes() == b"1", "not for names that are replaced"
    with place.open("a", at_hand=True) as at_hand, place.open("a") as anew:
        assert (at_hand.read(), anew.read()) == (b"1", b"22")
    finished = tmp_path / "finished"
    finished.write_bytes(b"3")
    place.put("b", finished)
    kept = place.local("b")
    assert (kept.read_bytes(), kept.parent, finished.exists()) == (b"3", copy.parent, False)
    place.delete("b")
    assert not kept.exists()


def test_names_have_any_letters_and_a_listing_starts_after_one(place: Place) -> None:
    assert isinstance(place, Bucket)
    names = ["p/.hidden/z", "p/day=a%3Ab/x y+ü.parquet", "p/é%20#?&/q"]
    for name in names:
        place.write(name, name.encode())
    assert place.below("p") == names
    assert [place.read(name).decode() for name in names] == names
    assert [*place.at("p").tokens(after="day=a%3Ab/x y+ü.parquet")] == ["é%20#?&/q"]


def test_a_large_object_is_read_in_ranges_of_one_content(place: Place) -> None:
    content = bytes(range(256)) * (READ_BYTES // 256 + 1)
    place.write("a", content)
    with place.open("a") as opened:
        assert (opened.read(3), opened.seek(-5, 2), opened.read()) == (
            content[:3],
            len(content) - 5,
            content[-5:],
        )
        opened.seek(0)
        assert opened.read() == content
    with place.open("a") as opened:
        place.write("a", bytes(len(content)))
        with pytest.raises(OSError, match=r"(?i)stale"):
            opened.read()


def test_a_bucket_points_to_no_folder_and_copies_a_file(place: Place, tmp_path: Path) -> None:
    with pytest.raises(BackfillError, match="to which a bucket cannot point"):
        place.point("a", tmp_path)
    (theirs := tmp_path / "theirs").write_bytes(b"1")
    place.point("a", theirs)
    theirs.unlink()
    assert (place.read("a"), place.local("a").read_bytes()) == (b"1", b"1")


def test_two_thousand_objects_go_by_three_requests_and_their_copies_with_them(
    bucket_address: str, moto_server: stores.StoreServer, tmp_path: Path
) -> None:
    place = Bucket(bucket_address, str(tmp_path))
    names = [f"a/{number}" for number in range(2001)]
    for name in names[:3]:
        place.write(name, b"1")
    assert place.local("a/1").read_bytes() == b"1"
    moto_server.seen()
    place.delete_all(names)
    # Threads of earlier tests may still ask for buckets of theirs.
    bucket = bucket_address.split("/")[2]
    own = [request for request in moto_server.seen() if bucket in request]
    asked = [request.partition(" ")[0] for request in own]
    assert (asked, place.below()) == (["POST"] * 3, [])
    assert not [path for path in tmp_path.rglob("1") if path.is_file()]
