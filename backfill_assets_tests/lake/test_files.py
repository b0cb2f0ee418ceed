"""The file layer: publishing and syncing, locks between processes that death frees, and folders of links.

Tested here: `lake.files`, locks with real processes that speak over their pipes; nothing here sleeps or measures time.
Not tested here: power cuts (`test_commit_steps`), and the hour after which a waiter gives up.
"""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from backfill_assets.lake.files import SYNC_ALL_FROM, publish, size, sync_all, table_lock, write_new
from backfill_assets.lake.staging import StagedFile
from backfill_assets_tests.faults import raising_around
from backfill_assets_tests.processes import PIPES, start

HOLD = """
import sys
from pathlib import Path
from backfill_assets.lake.files import table_lock
with table_lock(Path(sys.argv[1]), "raw"):
    print("held", flush=True)
    sys.stdin.readline()
"""
COUNT = """
import sys
from pathlib import Path
from backfill_assets.lake.files import load_lock, table_lock
locks, kind, counter = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    with table_lock(locks, "raw") if kind == "table" else load_lock(locks):
        seen = int(counter.read_text())
        counter.write_text("")  # whoever reads now, finds no number
        counter.write_text(str(seen + 1))
"""


@contextmanager
def _process(code: str, *args: object) -> "Iterator[subprocess.Popen[str]]":
    """A Python process that has said its first word; it is killed and waited for at the end."""
    with start("-c", code, *map(str, args), **(PIPES | {"stdin": subprocess.PIPE})) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it ended before its first word"
            yield process
        finally:
            process.kill()


def _is_free(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        return False


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("kind", ["table", "load"])
def test_two_processes_exclude_each_other(tmp_path: Path, kind: str) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with _process(COUNT, tmp_path, kind, counter) as one, _process(COUNT, tmp_path, kind, counter) as other:
        for process in (one, other):
            assert process.stdin is not None
            print("go", file=process.stdin, flush=True)
        assert [one.wait(60), other.wait(60)] == [0, 0]
    assert counter.read_text() == "20"


@pytest.mark.usefixtures("processes")
def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    with _process(HOLD, tmp_path) as holder:
        holder.kill()
        holder.wait(60)
        with table_lock(tmp_path, "raw"):
            assert not _is_free(tmp_path / "raw.lock")


def test_a_published_file_replaces_the_one_in_its_place_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    finished, target = tmp_path / "new.partial", tmp_path / "report.html"
    finished.write_text("new")
    target.write_text("old")
    publish(finished, target)
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


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


def test_a_size_that_the_disk_does_not_give_is_an_error_and_not_a_file_that_is_gone(tmp_path: Path) -> None:
    """A commit once named the size 0, and was refused by every reader, because one `stat` had met an error."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert size(tmp_path / "gone") is None
    with pytest.raises(OSError, match="symbolic links"):
        size(loop)
    with pytest.raises(OSError, match="symbolic links"):
        assert StagedFile(loop, None).size
    with pytest.raises(FileNotFoundError, match="gone"):
        assert StagedFile(tmp_path / "gone", None).size


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_a_new_file_appears_whole_and_never_replaces_one(tmp_path: Path, links: bool) -> None:
    path = tmp_path / "folder" / "1.json"
    for content in (b"first", b"second"):
        refused = raising_around(Path.hardlink_to, False, lambda: PermissionError(errno.EPERM, "no hard links"))
        with nullcontext() if links else refused:
            assert write_new(path, content) is (content == b"first")
    assert ({p.name for p in path.parent.iterdir()} - {".lock"}, path.read_bytes()) == ({"1.json"}, b"first")
