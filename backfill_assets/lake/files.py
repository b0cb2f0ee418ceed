"""File layer of a lake: the only module that opens, lists, renames, syncs, links, locks and deletes its files.

Not here: what a file means (`log`, `staging`), and reading Parquet, which the engines do by path.
"""

import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from backfill_assets.core.errors import BackfillError, TransientError

FileStamp = tuple[int, int, int, int]  # inode, bytes, time of content and of any change (ns since 1970)
SYNC_ALL_FROM = 50  # files: one sync of the whole file system is quicker than so many single ones
LOCK_TIMEOUT_SECONDS = 3600.0  # a first load of years of data holds the load lock for minutes


def names(folder: Path) -> list[str]:
    """Names in a folder, in no order; empty if there is no such folder."""
    try:
        return os.listdir(folder)  # noqa: PTH208  # a log of years: names are enough
    except (FileNotFoundError, NotADirectoryError):
        return []


def stamp(path: Path) -> FileStamp | None:
    """The stamp of a file: one that is replaced or written to gets another; None if it is gone."""
    try:
        stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def stamps(folder: Path) -> dict[str, FileStamp]:
    """The stamp of each file in a folder by its name; empty if there is no such folder."""
    return {name: found for name in names(folder) if (found := stamp(folder / name)) is not None}


def below(folder: Path, pattern: str = "*") -> list[Path]:
    """Files and folders at any depth below `folder` whose name matches the pattern, ascending."""
    return sorted(folder.rglob(pattern))


def size(path: Path | str) -> int | None:
    """Bytes of a file; None if it is gone. Raises OSError if the disk does not say."""
    try:
        return os.stat(path).st_size  # noqa: PTH116  # thousands of files: a path object costs as much
    except (FileNotFoundError, NotADirectoryError):
        return None


def changed_at(path: Path) -> float:
    """Time of the newest change of a file's content, seconds since 1970; raises OSError."""
    return path.stat().st_mtime


def exists(path: Path) -> bool:
    """Whether a file or folder is there."""
    return path.exists()


def sha256_of_bytes(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal, read in blocks; raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lines(path: Path) -> Iterator[bytes]:
    """Lines of a file, one at a time: a commit of 3,650 days has 40 MiB. Raises OSError."""
    with path.open("rb") as opened:
        yield from opened


def ends(path: Path, count: int) -> tuple[bytes, bytes]:
    """First and last `count` bytes of a file; raises OSError."""
    with path.open("rb") as opened:
        head = opened.read(count)
        opened.seek(max(0, opened.seek(0, os.SEEK_END) - count))
        return head, opened.read()


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, unless it exists."""
    folder.mkdir(parents=True, exist_ok=True)


def delete(path: Path) -> None:
    """Delete a file; harmless if it is gone."""
    path.unlink(missing_ok=True)


def delete_folder(folder: Path) -> None:
    """Delete a folder with all its files; leaves what it may not delete."""
    shutil.rmtree(folder, ignore_errors=True)


def delete_empty(folder: Path, root: Path) -> None:
    """Delete a folder below `root` if it is empty, and the folders above it that are empty then."""
    while folder != root and folder.is_relative_to(root):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def link(source: Path, target: Path) -> None:
    """Give a file a further name, or copy it where the file system has no hard links."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def point(link: Path, folder: Path) -> None:
    """Make a symbolic link to a folder, unless there is one of that name; the folder above the link is made, too."""
    make_folder(link.parent)
    with suppress(FileExistsError):
        link.symlink_to(folder, target_is_directory=True)


def rename(path: Path, name: str) -> None:
    """Give a file another name in its folder, atomically; `sync` the folder afterwards."""
    path.rename(path.with_name(name))


def refuse_link(folder: Path, root: Path) -> None:
    """Raise BackfillError if a symbolic link between `root` and `folder` leads out of `root`."""
    if folder.resolve() != root.resolve() / folder.relative_to(root):
        raise BackfillError(
            f"the folder {folder}", f"a link leads out of {root}", "What a killed write left was not removed",
            "No link of this package stands there: find out who made it, and remove it",
        )  # fmt: skip


def publish(finished: Path, target: Path) -> None:
    """Move a finished file to its place, atomically and safe against a power cut."""
    sync(finished)
    finished.replace(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Write a file, or a folder's list of names, to the disk; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Collection[Path], root: Path) -> None:
    """Write files, and the folders from `root` on that list them, to the disk; raises OSError."""
    if len(paths) >= SYNC_ALL_FROM:
        os.sync()
        return
    for path in paths:
        sync(path)
    for folder in {parent for path in paths for parent in path.parents if parent.is_relative_to(root)}:
        sync(folder)


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file of the kernel, which frees it when this process dies.

    Raises TransientError, naming `what`, if another process holds it for an hour.
    """
    make_folder(path.parent)
    try:
        with FileLock(path, timeout=LOCK_TIMEOUT_SECONDS):
            yield
    except Timeout:
        raise TransientError(
            what,
            f"another process has held its lock for {LOCK_TIMEOUT_SECONDS:.0f} s",
            "Nothing was written",
            f"Find it with `fuser {path}`, then run again",
        ) from None


def hold(marker: Path) -> int:
    """Create and lock a marker file; returns the descriptor that `release` takes. The kernel frees it at death.

    Creates it again if a sweep deleted it in between.
    """
    make_folder(marker.parent)
    while True:
        descriptor = os.open(marker, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def release(descriptor: int) -> None:
    """Give up the hold of a marker file."""
    os.close(descriptor)


def abandoned(folder: Path) -> Iterator[Path]:
    """Marker files in a folder that no living process holds; each is locked while the caller handles it."""
    for name in sorted(names(folder)):
        try:
            descriptor = os.open(folder / name, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:  # its process has just ended the write
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder / name
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def table_lock(locks: Path, table: str) -> AbstractContextManager[None]:
    """The write lock of a table. The committer is this process, so nothing of it can still commit once it is dead."""
    return locked(locks / f"{table}.lock", f"the table {table}")


def load_lock(locks: Path, source: str = "") -> AbstractContextManager[None]:
    """The lock of loading a source's raw table and its ledgers, from the first read to the last commit."""
    if source:
        return locked(locks / f"load.{source}.lock", f"the load of the source {source}")
    return locked(locks / "load.lock", "the load of raw")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a small JSON file; empty where there is no readable one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a small JSON file beside its place and rename it, so that a reader sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    part.write_text(json.dumps(dict(content)), encoding="utf-8")
    part.replace(path)


def write_new(path: Path, content: bytes) -> bool:
    """Write a small file that appears whole, safe against a power cut; False if there is one of that name already."""
    make_folder(path.parent)
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        part.write_bytes(content)
        sync(part)
        path.hardlink_to(part)  # unlike a rename, it never replaces
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        with locked(path.with_name(".lock"), f"the folder {path.parent}"):
            return not path.exists() and part.replace(path) == path
    finally:
        delete(part)
    sync(path.parent)
    return True
