"""Files of a bucket on this machine: what engines prepare before it is sent, and copies of what was
sent or fetched.

Not here: requests to the store (`bucket`). Both trees are laid out as the bucket is, since engines
take the day of a file from its folder. A file that may be written to waits to be sent; one that may
only be read equals its object, which is never replaced. Nothing fetched is synced, so a power cut
may take bytes of it: the time of its last change tells how many there are (`_mark_complete`).

Programs of one user of this machine share the folder, which nobody else may enter, whatever the
umask is; it may be deleted while none of them runs.
"""

import errno
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.buckets.store_errors import lost_request_error
from backfill_assets.kernel.core.addresses import STATE_VARIABLE
from backfill_assets.kernel.core.errors import SettingsError, TransientError
from backfill_assets.kernel.core.ownership import (
    foreign_owners,
    make_closed_folder,
    remove_rights,
    user_name,
)

PREPARED, COPIES = "prepared", "copies"
MOST_BYTES = 20 << 30  # of copies; those that were used last stay
IN_USE_SECONDS = 3600.0  # an engine may be given the path of a copy a while before it opens it
LEFT_SECONDS = 7 * 86400.0  # of what a killed process prepared and never sent
TRIM_EVERY_SECONDS = 600.0
TIME_MODULUS = 1 << 30  # a time of a file that every file system can keep, as seconds since 1970
LAST_TRIM_FILE = "trimmed"  # its time is that of the last look
_UNKEPT = {
    errno.ENOSPC: "no space is left on its disk",
    errno.EDQUOT: "the quota of its disk is used up",
    errno.EIO: "its disk does not work",
    errno.ENOENT: "somebody deleted the folder while it was in use",
}


@dataclass(frozen=True)
class LocalCopies:
    """The folder of this machine for the files of one bucket; names as in the bucket."""

    folder: str
    most_bytes: int = MOST_BYTES

    @property
    def _closed_folder(self) -> Path:
        """The folder, closed to others. Raises SettingsError where it is another user's: what lies
        there is his."""
        _close_own_folder(folder := Path(self.folder))
        return folder

    def prepared(self, name: str) -> Path:
        """Where engines write a file or folder that is to be sent."""
        return self._closed_folder / PREPARED / name

    def copied(self, name: str) -> Path:
        """Where the copy of an object lies, or would lie."""
        return self._closed_folder / COPIES / name

    def made(self, folder: Path) -> Path:
        """A folder of these, which exists then."""
        make_closed_folder(self._closed_folder, 0o077)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def waiting(self, name: str) -> os.stat_result | None:
        """The status of a file that is prepared and was not sent yet; None if there is none."""
        try:
            found = self.prepared(name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_unsent = stat.S_ISREG(found.st_mode) and found.st_mode & stat.S_IWUSR
        return found if is_unsent else None

    def waiting_below(self, folder: str) -> list[str]:
        """The names of the files at any depth below a folder that wait to be sent, in no order."""
        top = self.prepared("")
        found = (os.path.relpath(path, top) for path in _files_below(self.prepared(folder)))
        return [name for name in found if self.waiting(name)]

    def found(self, name: str) -> Path | None:
        """The prepared file or folder of a name, else the copy of its object; None if it has
        neither whole."""
        for path in (self.prepared(name), self.copied(name)):
            with suppress(FileNotFoundError, NotADirectoryError):
                status = path.stat()
                if not stat.S_ISREG(status.st_mode) or status.st_mode & stat.S_IWUSR:
                    return path
                if status.st_mtime == status.st_size % TIME_MODULUS:
                    _mark_complete(path, status.st_size)  # it is used: it stays
                    return path
        return None

    def sent(self, name: str) -> None:
        """Make a prepared file the copy of its object; its path stays."""
        path, copy = self.prepared(name), self.copied(name)
        _mark_complete(path, path.stat().st_size)
        self.made(copy.parent)
        with suppress(FileExistsError):
            os.link(path, copy)

    def take(self, name: str, finished: Path) -> None:
        """Make a file of the same file system, which was sent, the copy of its object; else delete
        it."""
        copy = self.copied(name)
        self.made(copy.parent)
        _mark_complete(finished, finished.stat().st_size)
        try:
            finished.replace(copy)
        except OSError:
            finished.unlink(missing_ok=True)
        self.trim()

    def receive(self, name: str, chunks: Iterable[bytes], size: int) -> Path:
        """Write the copy of an object of so many bytes. Raises StoreLost if others arrive, and
        TransientError if the disk is full or broken, or somebody deletes the folder meanwhile."""
        copy = self.copied(name)
        part = copy.with_name(f".{copy.name}.{uuid.uuid4().hex}")
        try:
            self.made(copy.parent)
            with part.open("wb") as opened:
                for chunk in chunks:
                    opened.write(chunk)
                written = opened.tell()
            if written != size:
                raise lost_request_error(name)  # its connection ended early
            _mark_complete(part, size)
            part.replace(copy)
        except OSError as error:
            if error.errno not in _UNKEPT:
                raise
            # So that the error names this folder's disk.
            raise self._unkept_copy_error(_UNKEPT[error.errno]) from None
        finally:
            part.unlink(missing_ok=True)
        self.trim()
        return copy

    def _unkept_copy_error(self, why: str) -> TransientError:
        return TransientError(
            f"this machine's copies of the bucket's files, {self.folder}",
            why,
            "The copy was not kept; what the bucket holds is unchanged",
            "Free space there, or let BACKFILL_ASSETS_STATE name a folder on a larger disk, and "
            "run again",
        )

    def forget(self, name: str) -> bool:
        """Delete the files of a name on this machine. Returns whether it waited to be sent, so that
        it is no object."""
        waited = self.waiting(name) is not None
        for path in (self.prepared(name), self.copied(name)):
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
        return waited

    def forget_below(self, folder: str) -> None:
        """Delete the files of a folder on this machine."""
        for path in (self.prepared(folder), self.copied(folder)):
            shutil.rmtree(path, ignore_errors=True)

    def prune(self, folder: str) -> None:
        """Delete a prepared folder if it is empty, and those above it that are empty then."""
        while folder:
            try:
                self.prepared(folder).rmdir()
            except OSError:
                return
            folder = folder.rpartition("/")[0]

    def trim(self) -> None:
        """Delete the copies that were used longest ago if there are too many bytes of them, and
        what is left of killed processes. It looks once in ten minutes."""
        looked, now = Path(self.folder, LAST_TRIM_FILE), time.time()
        with suppress(FileNotFoundError):
            if now - looked.stat().st_mtime < TRIM_EVERY_SECONDS:
                return
        # The disk is full, which deleting mends; or somebody deleted the folder.
        with suppress(OSError):
            looked.touch()
        for path in _files_below(self.prepared("")):
            found = _file_status(path)
            if found is not None and _is_left(found, now):
                Path(path).unlink(missing_ok=True)
        self._trim_copies(now)

    def _trim_copies(self, now: float) -> None:
        """Delete the copies that were used longest ago, but none that may be in use, until the
        others have no more than `most_bytes`."""
        copies = list[tuple[float, int, str]]()
        for path in _files_below(self.copied("")):
            if found := _file_status(path):
                copies.append((found.st_atime, found.st_size, path))
        over = sum(size for _, size, _ in copies) - self.most_bytes
        for used, size, path in sorted(copies):
            if over <= 0 or now - used < IN_USE_SECONDS:
                return
            Path(path).unlink(missing_ok=True)
            over -= size


def _mark_complete(path: Path, size: int) -> None:
    """Let a file of so many bytes only be read, be used now, and tell its size by the time of its
    last change."""
    path.chmod(0o400)
    os.utime(path, (time.time(), size % TIME_MODULUS))


def _is_left(found: os.stat_result, now: float) -> bool:
    """Whether a prepared file is what a killed process left, or was sent and is no longer in
    use."""
    is_unsent = found.st_mode & stat.S_IWUSR
    if is_unsent:
        return now - found.st_mtime > LEFT_SECONDS
    return now - found.st_atime > IN_USE_SECONDS


def _file_status(path: str) -> os.stat_result | None:
    try:
        return Path(path).stat()
    except FileNotFoundError:
        return None


def _files_below(folder: Path) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        yield from (f"{path}/{name}" for name in names)


def _close_own_folder(folder: Path) -> None:
    """Close a folder of this user to everybody else. Raises SettingsError where it, or a link at
    its place, belongs to another user, who may have put files there. Raises nothing where there is
    none."""
    try:
        status = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    for owner in foreign_owners(folder):
        raise SettingsError(
            f"the folder {folder}",
            f"it belongs to {user_name(owner)}, and you are {user_name(os.geteuid())}",
            "Nothing was taken from it and nothing was put there",
            f"Name a folder of your own in ${STATE_VARIABLE}",
        )
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        remove_rights(folder.resolve(), stat.S_IRWXG | stat.S_IRWXO)
