"""Files of a bucket on this machine: what waits to be sent, what is a copy, and what is deleted when there is too much.
Not here: sending and fetching (`test_bucket`)."""

import os
import time
from pathlib import Path

import pytest

from backfill_assets.places import local_copies
from backfill_assets.places.local_copies import LocalCopies


@pytest.fixture
def local(tmp_path: Path) -> LocalCopies:
    """An empty folder for them."""
    return LocalCopies(str(tmp_path))


def test_a_prepared_file_waits_until_it_is_sent_and_its_path_stays(local: LocalCopies) -> None:
    path = local.prepared("t/1/a")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"1")
    assert (local.waiting_below("t"), local.found("t/1/a"), local.waiting("t/1")) == (["t/1/a"], path, None)
    local.sent("t/1/a")
    assert (local.waiting_below(""), local.found("t/1/a"), local.copied("t/1/a").read_bytes()) == ([], path, b"1")
    assert local.forget("t/1/a") is False, "it is an object"
    assert local.found("t/1/a") is None
    local.prune("t/1")
    assert not local.prepared("t").exists()


def test_what_arrives_cut_off_is_no_copy(local: LocalCopies) -> None:
    with pytest.raises(OSError, match="a/b: the store does not answer"):
        local.receive("a/b", [b"1", b"2"], 3)
    assert local.found("a/b") is None
    assert local.receive("a/b", [b"1", b"23"], 3).read_bytes() == b"123"
    assert [path.name for path in local.copied("a").iterdir()] == ["b"]


def test_copies_that_were_used_longest_ago_go_when_there_are_too_many_bytes(local: LocalCopies) -> None:
    for n, name in enumerate("abcd"):
        local.receive(name, [b"12345"], 5)
        os.utime(local.copied(name), (at := time.time() - 9000 + n * 1000, at))
    local.receive("used", [b"12345"], 5)
    few = LocalCopies(local.folder, most_bytes=12)
    few.trim()
    assert local.found("a"), "it looks once in ten minutes"
    os.utime(Path(local.folder, local_copies.TRIMMED), (0, 0))
    few.trim()
    assert [name for name in ("a", "b", "c", "d", "used") if local.found(name)] == ["a", "used"]
