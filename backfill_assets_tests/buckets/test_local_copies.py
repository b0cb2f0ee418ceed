"""Files of a bucket on this machine: what waits to be sent, what is a copy, and what is deleted
when there is too much. Not here: sending and fetching (`test_bucket`)."""

import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.buckets import local_copies
from backfill_assets.buckets.local_copies import LocalCopies
from backfill_assets.kernel.core.errors import SettingsError, TransientError


@pytest.fixture
def local(tmp_path: Path) -> LocalCopies:
    """An empty folder for them."""
    return LocalCopies(str(tmp_path))


def test_a_prepared_file_waits_until_it_is_sent_and_its_path_stays(local: LocalCopies) -> None:
    path = local.prepared("t/1/a")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"1")
    assert (local.waiting_below("t"), local.found("t/1/a"), local.waiting("t/1")) == (
        ["t/1/a"],
        path,
        None,
    )
    local.sent("t/1/a")
    assert (local.waiting_below(""), local.found("t/1/a"), local.copied("t/1/a").read_bytes()) == (
        [],
        path,
        b"1",
    )
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


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (errno.ENOSPC, "no space is left"),
        (errno.EIO, "its disk does not work"),
        ("the folder goes", "somebody deleted the folder"),
    ],
)
def test_a_copy_that_cannot_be_kept_names_the_folder_and_the_next_one_is_whole(
    local: LocalCopies, reason: int | str, words: str
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"1"
        if isinstance(reason, int):
            raise OSError(reason, os.strerror(reason))
        shutil.rmtree(local.folder)

    with pytest.raises(TransientError, match=words) as told:
        local.receive("a/b", chunks(), 1)
    assert local.folder in str(told.value)
    assert local.found("a/b") is None
    assert local.receive("a/b", [b"123"], 3).read_bytes() == b"123"


@pytest.mark.parametrize("way", ["fetched", "sent", "taken"])
def test_a_copy_that_lost_bytes_as_by_a_power_cut_is_no_copy(local: LocalCopies, way: str) -> None:
    path, name = local.prepared("a/b"), "a/b"
    path.parent.mkdir(parents=True)
    if way == "fetched":
        local.receive(name, [b"123"], 3)
    else:
        path.write_bytes(b"123")
        local.sent(name) if way == "sent" else local.take(name, path)
    found = local.found(name)
    assert found is not None
    assert local.found(name) == found, "looking at it changes nothing"
    for left in (2, 0):
        found.chmod(0o644)
        os.truncate(found, left)
        found.chmod(0o444)
        assert local.found(name) is None
        found = local.receive(name, [b"123"], 3)
        assert local.found(name) == found
    assert found.read_bytes() == b"123"


def test_looking_for_what_to_delete_never_fails_where_the_folder_is_gone(
    local: LocalCopies,
) -> None:
    shutil.rmtree(local.folder)
    local.trim()
    assert not Path(local.folder).exists()


def test_copies_that_were_used_longest_ago_go_when_there_are_too_many_bytes(
    local: LocalCopies,
) -> None:
    for n, name in enumerate("abcd"):
        local.receive(name, [b"12345"], 5)
        os.utime(local.copied(name), (time.time() - 9000 + n * 1000, 5))
    local.receive("used", [b"12345"], 5)
    few = LocalCopies(local.folder, most_bytes=12)
    few.trim()
    assert local.found("a"), "it looks once in ten minutes"
    os.utime(Path(local.folder, local_copies.LAST_TRIM_FILE), (0, 0))
    few.trim()
    assert [name for name in ("a", "b", "c", "d", "used") if local.found(name)] == ["a", "used"]


@pytest.fixture
def project_umask() -> Iterator[None]:
    """The umask that most projects' processes have."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("project_umask")
@pytest.mark.parametrize("is_there", [False, True])
def test_copies_are_closed_to_others_whatever_the_umask_is(tmp_path: Path, is_there: bool) -> None:
    local = LocalCopies(str(tmp_path / "copies"))
    if is_there:
        (tmp_path / "copies").mkdir(0o755)
    copy = local.receive("t/a", [b"rows"], 4)
    local.made(local.prepared("t"))
    assert (tmp_path / "copies").stat().st_mode & 0o077 == 0
    assert copy.stat().st_mode & 0o077 == 0
    (tmp_path / "copies").chmod(0o755)
    assert local.found("t/a") == copy
    assert (tmp_path / "copies").stat().st_mode & 0o077 == 0, (
        "closed again where somebody opened it"
    )


def test_what_another_user_prepared_is_neither_read_nor_sent(
    local: LocalCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.receive("t/a", [b"rows"], 4)
    local.made(local.prepared("t")).joinpath("b").write_bytes(b"rows")
    stranger = os.geteuid() + 1
    if os.geteuid() == 0:
        for path in (Path(local.folder), *Path(local.folder).rglob("*")):
            os.chown(path, 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: stranger)
    for look in (
        local.found,
        local.waiting,
        local.waiting_below,
        local.forget,
        lambda n: local.receive(n, [b""], 0),
    ):
        with pytest.raises(SettingsError, match=r"belongs to .*BACKFILL_ASSETS_STATE"):
            look("t/a")
