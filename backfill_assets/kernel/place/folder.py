"""The folder that fills the port `Place`: the only module that opens, lists, syncs, links, locks
and deletes its files.

Not here: what a file means (`log`, `staging`), and reading Parquet, which the engines do by path.
"""

import errno
import fcntl
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.lease_watch import shown_lately
from backfill_assets.kernel.place.port import (
    LOCK_SECONDS,
    AlreadyThere,
    Changed,
    Gone,
    Held,
    LockedMarker,
    Place,
    Token,
)
from backfill_assets.kernel.place.processes import BOOT_ID
from backfill_assets.kernel.place.schemes import takes_addresses

SYNC_ALL_FROM = 50  # files: one sync of the whole file system is quicker than so many single ones
ABSENT = (FileNotFoundError, NotADirectoryError)


@takes_addresses
@dataclass(frozen=True)
class Folder(Place):
    """A folder of a file system. A write is a file beside its place that is renamed, or linked
    where none may be there; locks are the kernel's."""

    path: str  # absolute
    is_store: bool = field(default=False, init=False, compare=False)  # as the port says

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        return self.path

    def at(self, name: str) -> Self:
        """As the port says."""
        return type(self)(self._path_of(name))

    def _path_of(self, name: str) -> str:
        if not name:
            return self.path
        return f"{self.path}/{name}"

    def _path_to_make(self, name: str) -> str:
        """The path of a file, in a folder that exists."""
        path = self._path_of(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def names(self, folder: str = "") -> list[str]:
        """As the port says; none where there is no such folder."""
        try:
            return os.listdir(self._path_of(folder))  # a log of years: names are enough
        except ABSENT:
            return []

    def below(self, folder: str = "") -> list[str]:
        """As the port says; links are left out, and nobody goes through one."""
        return sorted(_files_below(self._path_of(folder), f"{folder}/" if folder else ""))

    def tokens(self, folder: str = "", after: str = "") -> dict[str, Token]:
        """As the port says; without files that went away during the listing."""
        found = {}
        for name in self.below(folder):
            token = self.token(name) if name > after else None
            if token is not None:
                found[name] = token
        return found

    def token(self, name: str) -> Token | None:
        """As the port says: inode, bytes, and the times of the content and of any change."""
        try:
            return _token_of(os.stat(self._path_of(name)))
        except ABSENT:
            return None

    def size(self, name: str) -> int | None:
        """As the port says. Asks for nothing but the bytes: a lake has a million of names."""
        if ":/" in name:
            return super().size(name)
        try:
            return os.stat(self._path_of(name)).st_size
        except ABSENT:
            return None

    def open(self, name: str, *, at_end: bool = False, at_hand: bool = False) -> BufferedReader:
        """As the port says. Raises OSError for what is no regular file: a pipe would never be read
        to its end."""
        path = self._path_of(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except ABSENT:
            raise _condition_error(Gone, errno.ENOENT, path) from None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return open(descriptor, "rb")
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", path)

    def write(
        self,
        name: str,
        content: bytes,
        *,
        if_absent: bool = False,
        if_unchanged: Token | None = None,
        is_private: bool = False,
    ) -> Token:
        """As the port says. Whoever names no condition, and other programs, are not kept from
        writing in between."""
        path = self._path_to_make(name)
        part = f"{path}.{uuid.uuid4().hex}"
        rights = 0o600 if is_private else 0o666  # less the umask
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, rights), "wb") as opened:
            try:
                opened.write(content)
                opened.flush()
                if if_absent:
                    self._put_if_absent(part, name, opened.fileno())
                elif if_unchanged is not None:
                    self._put_if_unchanged(part, name, opened.fileno(), if_unchanged)
                else:
                    os.replace(part, path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(part)
            return _token_of(os.fstat(opened.fileno()))

    def _put_if_absent(self, part: str, name: str, descriptor: int) -> None:
        """Give the written file at the path `part`, which `descriptor` has open, its name, safe
        against a power cut. Raises AlreadyThere if the name is taken."""
        path = self._path_of(name)
        os.fsync(descriptor)
        try:
            os.link(part, path)  # unlike a rename, it never replaces
        except FileExistsError:
            raise _condition_error(AlreadyThere, errno.EEXIST, path) from None
        except OSError:  # a file system without hard links
            folder = name.rpartition("/")[0]
            with self.lock(f"{folder}/.lock".lstrip("/"), f"the folder {self._path_of(folder)}"):
                if self.token(name) is not None:
                    raise _condition_error(AlreadyThere, errno.EEXIST, path) from None
                os.replace(part, path)
        _sync_path(os.path.dirname(path))

    def _put_if_unchanged(self, part: str, name: str, descriptor: int, before: Token) -> None:
        """Give the written file at the path `part`, which `descriptor` has open, the name of the
        file whose token is `before`, safe against a power cut. Raises Changed if the name has
        another token, or none."""
        path = self._path_of(name)
        os.fsync(descriptor)
        try:
            known = os.open(path, os.O_RDONLY)
        except ABSENT:
            raise _condition_error(Changed, errno.ESTALE, path) from None
        try:
            # Of the file that is to go: who waits for this lock finds another token afterwards.
            fcntl.flock(known, fcntl.LOCK_EX)
            if self.token(name) != before:
                raise _condition_error(Changed, errno.ESTALE, path)
            os.replace(part, path)
        finally:
            os.close(known)
        _sync_path(os.path.dirname(path))

    def put(self, name: str, finished: Path, *, is_synced: bool = True) -> None:
        """As the port says, by a rename: the file lies on the same file system. A file that is not
        `is_synced` may be empty or gone after a power cut until `sync_new` has named it."""
        path = self._path_to_make(name)
        if is_synced:
            _sync_path(str(finished))
        os.replace(finished, path)
        if is_synced:
            _sync_path(os.path.dirname(path))

    def link(self, name: str, source: Place, source_name: str) -> None:
        """As the port says: a hard link, or a copy where the file system has none."""
        path, known = self._path_to_make(name), source.local(source_name)
        try:
            os.link(known, path)
        except OSError:
            shutil.copyfile(known, path)

    def copy(self, name: str, source: Place, source_name: str) -> None:
        """As the port says."""
        path = self._path_to_make(name)
        with source.open(source_name) as opened, open(f"{path}.{uuid.uuid4().hex}", "wb") as part:
            shutil.copyfileobj(opened, part)
        os.replace(part.name, path)

    def point(self, name: str, theirs: Path) -> None:
        """As the port says, by a symbolic link."""
        with suppress(FileExistsError):
            os.symlink(theirs, self._path_to_make(name))

    def delete(self, name: str) -> None:
        """As the port says."""
        with suppress(FileNotFoundError):
            os.unlink(self._path_of(name))

    def delete_below(self, folder: str) -> None:
        """As the port says."""
        shutil.rmtree(self._path_of(folder), ignore_errors=True)

    def prune(self, folder: str) -> None:
        """As the port says; stops at the first folder that has something in it."""
        while folder:
            try:
                os.rmdir(self._path_of(folder))
            except OSError:
                return
            folder = folder.rpartition("/")[0]

    def sync(self, *names: str) -> None:
        """As the port says."""
        for name in names:
            _sync_path(self._path_of(name))

    def sync_new(self, names: Collection[str]) -> None:
        """As the port says: one by one with the folders that hold them, or the whole file system
        from `SYNC_ALL_FROM` files on."""
        if len(names) >= SYNC_ALL_FROM:
            os.sync()
            return
        self.sync(*names, *{folder for name in names for folder in _folders_above(name)})

    @contextmanager
    def lock(self, name: str, what: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """As the port says: a lock file of the kernel, which frees it when this process dies."""
        path = self._path_to_make(name)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=seconds)
        except Timeout:
            raise Held(
                what,
                f"another process has held its lock for {seconds:.0f} s",
                "Nothing was written",
                f"Find it with `fuser {path}`, then run again",
            ) from None
        try:
            yield
        finally:
            lock.release()

    def hold(self, name: str) -> LockedMarker:
        """As the port says: the kernel frees it at death. Creates it again if a sweep deleted it in
        between."""
        path = self._path_to_make(name)
        while True:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if (found := os.fstat(descriptor)).st_nlink:
                os.pwrite(descriptor, _kernel_of(found), 0)
                return LockedMarker(descriptor)
            os.close(descriptor)

    def abandoned(self, folder: str, is_past: Callable[[str, int], bool]) -> Iterator[str]:
        """As the port says: a marker whose lock is free, as the kernel frees it at the death of its
        process, so that `is_past` is not asked. Each is locked while the caller works on it."""
        for name in sorted(self.names(folder)):
            try:
                descriptor = os.open(self._path_of(f"{folder}/{name}"), os.O_RDWR | os.O_NOFOLLOW)
            except FileNotFoundError:  # its process has just ended the write
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield name
            except BlockingIOError:
                continue
            finally:
                os.close(descriptor)

    def held(self, names: Iterable[str]) -> frozenset[str]:
        """As the port says. The kernel knows of a lock only what is locked by it, through the same
        mount."""
        return shown_lately(self, (name for name in names if not self._is_known_free(name)))

    def _is_known_free(self, name: str) -> bool:
        """Whether the marker was locked through this kernel and this mount, and is not any more."""
        with suppress(*ABSENT, PermissionError), open(self._path_of(name), "rb") as opened:
            kernel = _kernel_of(os.fstat(opened.fileno()))
            if kernel and opened.read() == kernel:
                with suppress(BlockingIOError):
                    fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    return True
        return False

    def refuse_link(self, folder: str) -> None:
        """As the port says: where the folder's real path is not below that of this place."""
        if os.path.realpath(self._path_of(folder)) != f"{os.path.realpath(self.path)}/{folder}":
            raise BackfillError(
                f"the folder {self._path_of(folder)}",
                f"a link leads out of {self.path}",
                "What a killed write left was not removed",
                "No link of this package stands there: find out who made it, and remove it",
            )

    def file_fault(self, name: str) -> str:
        """As the port says: a link on the way, or no regular file at its end; "" where there is no
        such file."""
        path = self.path
        try:
            for part in name.split("/"):
                path = f"{path}/{part}"
                if stat.S_ISLNK(mode := os.lstat(path).st_mode):
                    return "which lies behind a link"
        except ABSENT:
            return ""
        return "" if stat.S_ISREG(mode) else "which is no regular file"

    def refuse_loss(self, error: Exception, expected: str = "") -> None:
        """As the port says: a folder answers."""

    def keeping_copies(self, machine: str) -> Self:
        """As the port says."""
        return self

    def clear_locks(self) -> None:
        """As the port says: the kernel freed them."""

    def uri(self, name: str = "") -> str:
        """As the port says: the absolute path."""
        return self._path_of(name)

    def local(self, name: str = "") -> Path:
        """As the port says."""
        return Path(self._path_of(name))

    def prepared(self, folder: str) -> Path:
        """As the port says."""
        os.makedirs(self._path_of(folder), exist_ok=True)
        return self.local(folder)


def _token_of(status: os.stat_result) -> Token:
    token = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return Token(token, status.st_size, status.st_mtime)


def _kernel_of(found: os.stat_result) -> bytes:
    """Which kernel keeps the locks of a file, and through which mount; empty where the system does
    not say."""
    with suppress(OSError):
        return f"{BOOT_ID.read_text().strip()} {found.st_dev}".encode()
    return b""


def _condition_error(kind: type[OSError], number: int, path: str) -> OSError:
    return kind(number, os.strerror(number), path)


def _files_below(path: str, prefix: str) -> Iterator[str]:
    """Yield the files at any depth below a folder, `prefix` before their names; none behind links,
    and none where there is no folder."""
    try:
        entries = os.scandir(path)
    except ABSENT:
        return
    with entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path, f"{prefix}{entry.name}/")
            elif not entry.is_symlink():
                yield prefix + entry.name


def _folders_above(name: str) -> Iterator[str]:
    """The folders that list a name, up to the place itself ("")."""
    while name:
        name = name.rpartition("/")[0]
        yield name


def _sync_path(path: str) -> None:
    """Write a file, or a folder's list of names, to the disk; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
