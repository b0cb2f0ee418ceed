"""Guarded reads of landed files: changes, hashes remembered and not, settling, copies.

Lives here: tests of `intake.files`. Does not live here: listing (`test_listing`) and contents
(`test_ingest`).
"""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backfill_assets.intake.files import (
    Hashes,
    LandedFile,
    StillChanging,
    copy_with_hash,
    file_sha256,
    is_complete,
    landed_object,
    local_file,
    opened_file,
    settled_file,
    wait_until_quiet,
)
from backfill_assets.intake.listing import list_landing
from backfill_assets.intake.text_lines import HashedReader
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import Place
from backfill_assets_tests.landed import land, stock


@pytest.mark.parametrize(
    ("age_seconds", "complete"),
    [(0.5, False), (2.0, True), (9e8, True), (-1.0, True), (-3e7, True)],
)
def test_a_file_is_complete_when_quiet_or_dated_in_the_future(
    tmp_path: Path, age_seconds: float, complete: bool
) -> None:
    now = 1_700_000_000.0
    assert (
        is_complete(LandedFile("a", tmp_path / "a", 1, int((now - age_seconds) * 1e9)), now)
        is complete
    )


def _appended(file: LandedFile) -> None:
    file.path.write_bytes(b"one and more")


def _replaced(file: LandedFile) -> None:
    land(file.path.parent, "b", b"one").path.replace(file.path)


def _removed(file: LandedFile) -> None:
    file.path.unlink()


@pytest.mark.parametrize("meanwhile", [_appended, _replaced, _removed])
def test_a_file_changing_while_read_is_still_changing(
    tmp_path: Path, meanwhile: Callable[[LandedFile], None]
) -> None:
    file = land(tmp_path, "a", b"one")
    with pytest.raises(StillChanging), opened_file(file):
        meanwhile(file)


@pytest.mark.parametrize("become", ["link", "fifo", "folder", "nothing"])
def test_a_file_swapped_for_something_else_is_not_opened(tmp_path: Path, become: str) -> None:
    file = land(tmp_path, "a", b"one")
    file.path.unlink()
    if become == "link":
        file.path.symlink_to(land(tmp_path, "secret", b"one").path)
    elif become == "fifo":
        os.mkfifo(file.path)
    elif become == "folder":
        file.path.mkdir()
    with pytest.raises(StillChanging):
        file_sha256(file)


def test_a_file_at_rest_settles_at_once_and_a_fresh_one_after_the_quiet_time(
    tmp_path: Path,
) -> None:
    file = land(tmp_path, "a", b"x")
    assert wait_until_quiet(file, quiet_seconds=0.05)
    os.utime(file.path, (0, 0))
    started = time.monotonic()
    assert wait_until_quiet(file, quiet_seconds=60)
    assert time.monotonic() - started < 30


@pytest.mark.slow
def test_a_file_that_keeps_growing_or_is_gone_does_not_settle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, pause = land(tmp_path, "a", b"x"), time.sleep

    def write_meanwhile(seconds: float) -> None:
        with file.path.open("ab") as growing:
            growing.write(b"x")
        pause(seconds / 10)  # or it would write as fast as the machine can

    monkeypatch.setattr(time, "sleep", write_meanwhile)
    assert not wait_until_quiet(file, quiet_seconds=0.4, patience_seconds=0.01)
    file.path.unlink()
    assert not wait_until_quiet(file, quiet_seconds=0.05)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_folder_swapped_for_a_link_since_the_listing_is_not_followed(
    tmp_path: Path, depth: int
) -> None:
    inside = "/".join(["theirs", "inner"][:depth])
    secret = land(tmp_path / "private", f"{inside}/x.csv".split("/", 1)[1], b"key,who\nk,A\n").path
    land(tmp_path, f"landing/{inside}/x.csv", b"key,who\nk,B\n")
    os.utime(tmp_path / "landing" / inside / "x.csv", ns=(secret.stat().st_mtime_ns,) * 2)
    (listed,) = list_landing("landing/**/*.csv", tmp_path, "csv").files
    (tmp_path / "landing" / "theirs").rename(tmp_path / "landing" / ".gone")
    (tmp_path / "landing" / "theirs").symlink_to(tmp_path / "private")
    with pytest.raises(StillChanging):
        file_sha256(listed)


LONG_AGO = 1_700_000_000


def dated(path: Path, content: bytes, moment: int = LONG_AGO) -> LandedFile:
    path.write_bytes(content)
    os.utime(path, (moment, moment))
    return LandedFile(path.name, path, len(content), path.stat().st_mtime_ns)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def remembered(store: Place, file: LandedFile) -> None:
    hashes = Hashes(store)
    hashes.sha256(file)
    hashes.keep()


def test_a_hash_is_remembered_and_the_file_not_read_again(tmp_path: Path) -> None:
    file = dated(tmp_path / "a", b"one")
    remembered(stock(tmp_path), file)
    file.path.unlink()
    assert Hashes(stock(tmp_path)).sha256(file) == sha(b"one")


def test_a_file_that_changed_since_it_was_listed_has_no_hash_yet(tmp_path: Path) -> None:
    file = dated(tmp_path / "a", b"one")
    dated(tmp_path / "a", b"more than one")
    assert Hashes(stock(tmp_path)).sha256(file) == ""


def as_listed(path: Path) -> LandedFile:
    found = path.stat()
    return LandedFile(path.name, path, found.st_size, found.st_mtime_ns)


def test_a_copy_never_replaces_a_file(tmp_path: Path) -> None:
    source, target = tmp_path / "a.jsonl", tmp_path / "copy"
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        copy_with_hash(as_listed(source), target)
    assert target.read_bytes() == b"old"


def test_of_a_file_that_grows_no_more_than_its_listed_size_is_read(tmp_path: Path) -> None:
    source, read = tmp_path / "a.jsonl", 0
    source.write_bytes(b"x" * 10)
    with source.open("r+b") as grows:
        for block in HashedReader(grows.fileno(), 4, 10).blocks():
            read += len(block)
            os.truncate(source, 1000 * read)
    assert read == 10


def test_an_object_is_fetched_once_and_is_complete_at_any_time(tmp_path: Path) -> None:
    root = Folder(str(tmp_path / "in"))
    token = root.write("a/b.csv", b"one")
    file = landed_object(root, "a/b.csv", token)
    assert settled_file(file) == file
    assert is_complete(file, file.mtime_ns / 1e9)
    assert (file.address, file.size) == (root.uri("a/b.csv"), 3)
    assert [file.has_beside(name) for name in ("a/b.csv", "b.csv", "a\0")] == [True, False, False]
    with local_file(file, stock(tmp_path)) as here, local_file(here) as again:
        assert (again, here.path.read_bytes(), here.path.parents[1]) == (
            here,
            b"one",
            tmp_path / "stock",
        )
    assert stock(tmp_path).names() == []
    assert file_sha256(file) == sha(b"one")


@pytest.mark.parametrize("change", ["replaced", "deleted", "another second"])
def test_an_object_that_is_not_the_listed_one_any_more_is_left_for_the_next_scan(
    tmp_path: Path, change: str
) -> None:
    root = Folder(str(tmp_path / "in"))
    token = root.write("a.csv", b"one")
    file = landed_object(root, "a.csv", token)
    if change == "replaced":
        after = root.write("a.csv", b"two")
        same_second = landed_object(root, "a.csv", after._replace(changed_at=token.changed_at))
        assert (same_second.size, same_second.mtime_ns == file.mtime_ns) == (file.size, False)
    elif change == "deleted":
        root.delete("a.csv")
    else:
        os.utime(tmp_path / "in/a.csv", (1, 1))
    with pytest.raises(StillChanging, match=r"in/a\.csv"), opened_file(file):
        pass
