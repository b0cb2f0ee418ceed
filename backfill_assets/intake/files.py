"""Reading landed files and objects: opening one that must not change meanwhile, hashing, waiting
for its writer.

Also copying and fetching. Not here: finding them (`listing`, `object_listing`) and their content
(`ingest`).
"""

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from backfill_assets.intake.text_lines import HashedReader
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import BackfillError, TransientError
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.port import Changed, Gone, Place, Token

# A file whose size and time did not change for so long is taken as complete.
COMPLETE_AFTER_SECONDS = 2.0
OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Large enough that Python costs nothing beside SHA-256, small enough to forget about.
READ_BYTES = 1 << 20
HASHES_NAME = "landing.hashes"
NOT_HERE = Path()
SECOND = 1_000_000_000  # in nanoseconds


class LandingError(BackfillError):
    """The landing folder contradicts the ledger: an altered, vanished or miscounted file."""


class StillChanging(LandingError, TransientError):
    """The landed file at `path` changed, moved or vanished during a read; the next scan sees it
    again. `contents`: the names of contents that an engine read where they landed, and that changed
    meanwhile, of which one lies at `path`."""

    def __init__(self, path: str, contents: frozenset[str] = frozenset()) -> None:
        super().__init__(
            f"the landed file {printable_text(path)}",
            "it changed while it was being read",
            "Nothing of it was used",
            "Let its writer finish (best: write elsewhere, then rename), and scan again",
        )
        self.contents = contents
        self.args = (path, contents)  # pickle hands these back to this constructor


@dataclass(frozen=True)
class LandedFile:
    """A regular file in the landing folder, an object of a store, or a content of a table
    (`intake.source_log`)."""

    name: str  # posix path below the fixed root
    path: (
        Path  # of an object: of its copy on this machine; empty until it is fetched (`local_file`)
    )
    size: int  # bytes
    mtime_ns: int  # time of its last change; of an object see `landed_object`
    # Of a table's content, whose log names it; a file's is not known before it is read.
    sha256: str = ""
    place: Place | None = None  # the fixed root, of an object

    @property
    def address(self) -> str:
        """What people call it: the path, or the address of an object."""
        return str(self.path) if self.place is None else self.place.uri(self.name)

    def has_beside(self, name: str) -> bool:
        """Whether a file of this name lies below the same fixed root; a name that no file can have
        does not."""
        try:
            if self.place is not None:
                return self.place.exists(name)
            return (self.path.parents[self.name.count("/")] / name).exists()
        except TransientError:  # of a store that does not answer now
            raise
        except (OSError, ValueError):
            return False


def landed_object(place: Place, name: str, token: Token) -> LandedFile:
    """An object below a fixed root. Stores tell times in seconds: what is finer in its `mtime_ns`
    is a digest of its ETag, so that an object which was replaced within a second is seen to be
    another."""
    etag = str(token.mark[0])  # a listing tells no more of the mark
    mark = hashlib.sha256(etag.encode()).digest()
    finer = int.from_bytes(mark[:8], "big") % SECOND
    return LandedFile(
        name, NOT_HERE, token.size, int(token.changed_at) * SECOND + finer, place=place
    )


def settled_file(file: LandedFile) -> LandedFile:
    """The file once its writer let go of it; objects and contents of tables are whole. Raises
    StillChanging, FileNotFoundError."""
    if file.sha256 or file.place is not None:
        return file
    if not wait_until_quiet(file):
        raise StillChanging(file.address)
    stat = os.lstat(file.path)
    return replace(file, size=stat.st_size, mtime_ns=stat.st_mtime_ns)


@contextmanager
def opened_file(file: LandedFile) -> Iterator[int]:
    """Open the file and yield a descriptor; raises StillChanging unless it is the listed file,
    before and after.

    Never follows a link below the fixed root, never waits on a FIFO. Raises LandingError without
    the right to read. An object is fetched first.
    """
    if file.place is not None:
        with local_file(file) as here, here.path.open("rb") as copy:
            yield copy.fileno()
        return
    try:
        descriptor = _open_descriptor(file)
    except OSError as error:
        raise _opening_error(file, error) from None
    try:
        before = os.fstat(descriptor)
        is_as_listed = (before.st_size, before.st_mtime_ns) == (file.size, file.mtime_ns)
        if not stat.S_ISREG(before.st_mode) or not is_as_listed:
            raise StillChanging(file.address)
        yield descriptor
        for now in (os.fstat(descriptor), _link_status(file)):
            if _stat_identity(now) != _stat_identity(before):
                raise StillChanging(file.address)
    finally:
        os.close(descriptor)


@contextmanager
def local_file(file: LandedFile, store: Place | None = None) -> Iterator[LandedFile]:
    """The file, of an object with a copy on this machine, beside the content store if it is given,
    else in the folder for temporary files. Raises StillChanging if the object is not the listed one
    any more."""
    if file.place is None or file.path != NOT_HERE:
        yield file
        return
    beside = None if store is None else store.prepared("")
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=beside) as folder:
        copy = Path(folder, "object")
        try:
            with file.place.open(file.name) as source, copy.open("xb") as sink:
                shutil.copyfileobj(source, sink, READ_BYTES)
            token = file.place.token(file.name)
        except (Changed, Gone):
            raise StillChanging(file.address) from None
        fetched = replace(file, path=copy, size=copy.stat().st_size)
        if token is None:
            raise StillChanging(file.address)
        if replace(landed_object(file.place, file.name, token), path=copy) != fetched:
            raise StillChanging(file.address)
        yield fetched


def file_sha256(file: LandedFile) -> str:
    """Hash the file's bytes: SHA-256 as 64 hexadecimal digits. Raises as `opened_file` does."""
    with opened_file(file) as descriptor:
        return HashedReader(descriptor, READ_BYTES, file.size).sha256()


def is_complete(file: LandedFile, now: float) -> bool:
    """Whether the file counts as complete at `now` (seconds since 1970): it did not change just
    before.

    A time stamp in the future proves nothing and may never pass: such a file counts as complete
    here, and the scan watches it before reading (`wait_until_quiet`). An object is complete at any
    time.
    """
    if file.place is not None:
        return True
    age = now - file.mtime_ns / 1e9
    return age < 0 or age >= COMPLETE_AFTER_SECONDS


def wait_until_quiet(
    file: LandedFile, quiet_seconds: float = 1.0, patience_seconds: float = 5.0
) -> bool:
    """Wait until the file is unchanged for `quiet_seconds`; False after `patience_seconds`, or if
    it is gone.

    Its last change must be that old or, for clocks that run ahead, it must not change while watched
    for that long. Returns at once for old files.
    """
    started = watched = time.monotonic()
    try:
        last = _stat_identity(_link_status(file))
        while True:
            _, _, mtime_ns = last
            is_old = utc_now().timestamp() - mtime_ns / 1e9 >= quiet_seconds
            if is_old or time.monotonic() - watched >= quiet_seconds:
                return _stat_identity(_link_status(file)) == last
            if time.monotonic() - started >= max(patience_seconds, quiet_seconds):
                return False
            time.sleep(min(0.1, quiet_seconds / 4))
            now = _stat_identity(_link_status(file))
            if now != last:
                last, watched = now, time.monotonic()
    except StillChanging:
        return False


def copy_with_hash(file: LandedFile, target: Path) -> str:
    """Copy the file's bytes to `target`, which must not exist; return their SHA-256. Raises as
    `opened_file` does.

    Never a hard link: a landed file that is rewritten in place would change the copy.
    """
    with opened_file(file) as source, target.open("xb") as sink:
        # `opened_file` refuses a file that grew
        reader = HashedReader(source, READ_BYTES, file.size)
        for block in reader.blocks():
            if block.strip(b"\0"):
                sink.write(block)
            else:  # a hole stays one: a huge sparse file takes no disk
                sink.seek(len(block), os.SEEK_CUR)
        sink.truncate()
        return reader.sha256()


class Hashes:
    """Remembered SHA-256 of landed files, by path, size and modification time; one derived file in
    the content store.

    `keep` writes the hashes used since, and drops the others. A file that changed just now is never
    remembered.
    """

    def __init__(self, store: Place) -> None:
        self._store, self._known = store, _read_hashes(store)
        self._used: dict[str, list[object]] = {}

    def sha256(self, file: LandedFile) -> str:
        """Return the file's SHA-256 as 64 hexadecimal digits; an empty text while the file is still
        changing."""
        size, moment, digest = self._known.get(file.name, (None, None, ""))
        if (size, moment) != (file.size, file.mtime_ns):
            try:
                digest = file_sha256(file)
            except StillChanging:
                return ""
        if is_complete(file, utc_now().timestamp()):
            self._used[file.name] = [file.size, file.mtime_ns, digest]
        return str(digest)

    def keep(self) -> None:
        """Write the hashes if they changed. A read-only folder costs time, nothing else."""
        if self._used == self._known:
            return
        with suppress(OSError):
            self._store.write(HASHES_NAME, json.dumps(self._used, sort_keys=True).encode())


def _open_descriptor(file: LandedFile) -> int:
    """Open the path part by part below the fixed root: a folder may have become a link since the
    listing."""
    *folders, last = file.name.split("/")
    inside = os.open(file.path.parents[len(folders)], OPEN_FOLDER_FLAGS)
    try:
        for folder in folders:
            below = os.open(folder, OPEN_FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=inside)
            os.close(inside)
            inside = below
        return os.open(
            last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside
        )
    finally:
        os.close(inside)


def _stat_identity(status: os.stat_result) -> tuple[int, int, int]:
    """What tells a file from a changed one: inode, size, and modification time in nanoseconds."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def _link_status(file: LandedFile) -> os.stat_result:
    """The status of the file itself, not of what a link points to. Raises StillChanging if it is
    gone."""
    try:
        return os.lstat(file.path)
    except FileNotFoundError:
        raise StillChanging(file.address) from None


def _opening_error(file: LandedFile, error: OSError) -> Exception:
    # ELOOP: it has become a link; ENXIO: a socket or FIFO. The next listing refuses both.
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
        return StillChanging(file.address)
    return LandingError(
        f"the landed file {printable_text(file.address)}",
        f"it cannot be opened ({error.strerror})",
        "Nothing of it was read",
        "Give this user the right to read it, then scan again",
    )


def _read_hashes(store: Place) -> dict[str, list[object]]:
    """The remembered hashes: size, modification time and SHA-256 by path; none where the file is
    absent or of another form."""
    try:
        found = store.read_json(HASHES_NAME)
        return {
            str(name): [int(size), int(moment), str(sha)]
            for name, (size, moment, sha) in found.items()
        }
    except (ValueError, TypeError):
        return {}
