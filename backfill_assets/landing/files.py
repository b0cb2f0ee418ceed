"""The landing folder: which files may be read, which may not and why, and what exactly a file's content is.

Lives here: listing a glob without following links, the JVM-free question "is there anything new?", hashing a file that
must not change meanwhile, and waiting until a writer has let go of it. Does not live here: the meaning of a pattern
(`pattern`), what is in the files (`intake`), what was known before (`lake.ledger`), which of them get loaded
(`load.scan`).
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.core.clock import utc_now
from backfill_assets.core.errors import LandingError, SettingsError, TransientError
from backfill_assets.core.texts import plain
from backfill_assets.landing.intake_bytes import Limits
from backfill_assets.landing.pattern import Glob, bad_pattern, parse_pattern

EXTENSIONS = {
    "parquet": (".parquet",),
    "csv": (".csv", ".csv.gz"),
    "jsonl": (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz"),
}
TEMPORARY = (".tmp", ".part", ".partial", ".crdownload", ".inprogress", ".swp", "~")
COMPLETE_AFTER_SECONDS = 2.0  # a file whose size and time did not change for so long is taken as complete
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
READ_BYTES = 1 << 20  # large enough that Python costs nothing beside SHA-256, small enough to forget about


class StillChanging(LandingError, TransientError):
    """A landed file changed, moved or vanished while it was read: the next scan sees it again. `path` names it."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the landed file {plain(path)}", "it changed while it was being read", "Nothing of it was used",
            "Let its writer finish (best: write elsewhere, then rename), and scan again",
        )  # fmt: skip
        self.args = (path,)  # what pickle hands back to this constructor


@dataclass(frozen=True)
class LandedFile:
    """A regular file in the landing folder: its posix path below the fixed root, its size in bytes, its change time."""

    name: str
    path: Path
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class RefusedFile:
    """A file or folder (name ends in `/`) below the root that is not read. `name` is escaped for printing."""

    name: str
    reason: str


@dataclass(frozen=True)
class Listing:
    """What lies below the fixed root of a pattern, each part sorted by name. `root_missing`: no such folder."""

    files: tuple[LandedFile, ...] = ()
    refused: tuple[RefusedFile, ...] = ()
    root_missing: bool = False


def list_landing(pattern: str, base: Path, format: str) -> Listing:
    """The files that `pattern` (a glob below `base`, or absolute; `**` spans folders) offers for reading.

    Every other file below the glob's fixed root is listed as refused, with the reason; a folder that is hidden, a
    link, or deeper than the pattern reaches counts as one. A pattern without wildcard ignores the file's neighbours.
    The fixed root itself may be or lie behind a link: it is named by who writes `lake.toml`, not by who delivers.
    Opens nothing. Raises SettingsError where the pattern or the format cannot be meant.
    """
    glob, extensions = parse_pattern(pattern, base), _extensions(format)
    if not glob.root.exists():
        return Listing(root_missing=True)
    if not glob.root.is_dir() or (glob.only is not None and (glob.root / glob.only).is_dir()):
        raise bad_pattern(pattern, "it names a file as folder, or a folder as file")
    files: list[LandedFile] = []
    refused: list[RefusedFile] = []
    for name, entry in _walk(glob, lambda n, why: refused.append(RefusedFile(n, why))):
        found = _judge(name, entry, glob, extensions)
        if isinstance(found, LandedFile):
            files.append(found)
        elif found is not None:
            refused.append(found)
    return Listing(tuple(sorted(files, key=lambda f: f.name)), tuple(sorted(refused, key=lambda r: r.name)))


@contextmanager
def opened(file: LandedFile) -> Iterator[int]:
    """A descriptor to read the file from; raises StillChanging unless it is the listed file, before and after.

    Never follows a link below the fixed root, never waits on a FIFO. Raises LandingError where it may not be read.
    """
    try:
        descriptor = _descriptor(file)
    except OSError as error:
        raise _not_opened(file, error) from None
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode) or (before.st_size, before.st_mtime_ns) != (file.size, file.mtime_ns):
            raise StillChanging(str(file.path))
        yield descriptor
        if _identity(os.fstat(descriptor)) != _identity(before) or _identity(_lstat(file)) != _identity(before):
            raise StillChanging(str(file.path))
    finally:
        os.close(descriptor)


def sha256_of(file: LandedFile) -> str:
    """The SHA-256 of the file's bytes as 64 hexadecimal digits; raises StillChanging if it changes meanwhile."""
    digest = hashlib.sha256()
    with opened(file) as descriptor:
        while block := os.read(descriptor, READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def is_complete(file: LandedFile, now: float) -> bool:
    """Whether a look at `now` (seconds since 1970) may take the file as complete: it did not change just now.

    A time stamp in the future proves nothing, and waiting for it to pass could take for ever: such a file counts as
    complete here, and the scan watches it before it reads (see `settle`).
    """
    age = now - file.mtime_ns / 1e9
    return age < 0 or age >= COMPLETE_AFTER_SECONDS


def settle(file: LandedFile, quiet_seconds: float = 1.0, patience_seconds: float = 5.0) -> bool:
    """Wait until nobody has written to the file for `quiet_seconds`; False if that takes longer than the patience.

    Its last change must be that old, or (for clocks that run ahead) it must not have changed while we watched that
    long. A file that is gone has not settled. Returns at once for old files.
    """
    started = watched = time.monotonic()
    try:
        last = _identity(_lstat(file))
        while True:
            if utc_now().timestamp() - last[2] / 1e9 >= quiet_seconds or time.monotonic() - watched >= quiet_seconds:
                return _identity(_lstat(file)) == last
            if time.monotonic() - started >= max(patience_seconds, quiet_seconds):
                return False
            time.sleep(min(0.1, quiet_seconds / 4))
            if (now := _identity(_lstat(file))) != last:
                last, watched = now, time.monotonic()
    except StillChanging:
        return False


def _descriptor(file: LandedFile) -> int:
    """Opened part by part below the fixed root: a folder may have become a link since the listing."""
    *folders, last = file.name.split("/")
    inside = os.open(file.path.parents[len(folders)], FOLDER)
    try:
        for folder in folders:
            outside, inside = inside, os.open(folder, FOLDER | os.O_NOFOLLOW, dir_fd=inside)
            os.close(outside)
        return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
    finally:
        os.close(inside)


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _lstat(file: LandedFile) -> os.stat_result:
    try:
        return os.lstat(file.path)
    except FileNotFoundError:
        raise StillChanging(str(file.path)) from None


def _not_opened(file: LandedFile, error: OSError) -> Exception:
    # ELOOP: it has become a link; ENXIO: a socket or FIFO. The next listing refuses both.
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
        return StillChanging(str(file.path))
    return LandingError(
        f"the landed file {plain(str(file.path))}",
        f"it cannot be opened ({error.strerror})", "Nothing of it was read",
        "Give this user the right to read it, then scan again",
    )  # fmt: skip


def _extensions(format: str) -> tuple[str, ...]:
    if format not in EXTENSIONS:
        raise SettingsError(
            f"[source] format = {format!r}", "there is no such format", "The landing folder was not looked at",
            f"Use one of {', '.join(EXTENSIONS)}",
        )  # fmt: skip
    return EXTENSIONS[format]


def _walk(glob: Glob, refuse: Callable[[str, str], None]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry below the root that is no folder; folders that are not entered are refused."""
    pending: list[tuple[str, Path, int]] = [("", glob.root, 0)]
    while pending:
        prefix, folder, depth = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError as error:
            refuse(plain(prefix) or "./", f"the folder cannot be listed ({error.strerror})")
            continue
        if glob.depth is not None and depth > glob.depth:
            if entries:
                refuse(plain(prefix), "a folder that the pattern does not reach into")
            continue
        for entry in entries:
            if glob.only is not None and entry.name != glob.only:
                continue
            name = prefix + entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield name, entry
            elif why := _bad_name(entry.name):
                refuse(plain(name) + "/", why)
            else:
                pending.append((name + "/", Path(entry.path), depth + 1))


def _bad_name(name: str) -> str | None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in name):
        return "its name has control characters"
    return "hidden: its name starts with . or _" if name.startswith((".", "_")) else None


def _judge(
    name: str, entry: os.DirEntry[str], glob: Glob, extensions: tuple[str, ...]
) -> LandedFile | RefusedFile | None:
    """The file if it may be read, else why not; None if it vanished since the folder was listed."""
    try:
        found = os.lstat(entry.path)
    except FileNotFoundError:
        return None
    why = _bad_name(entry.name) or _unfit(name, entry.path, found, glob, extensions)
    if why:
        return RefusedFile(plain(name), why)
    return LandedFile(name, Path(entry.path), found.st_size, found.st_mtime_ns)


def _unfit(name: str, path: str, found: os.stat_result, glob: Glob, extensions: tuple[str, ...]) -> str | None:
    lower = name.lower()
    if stat.S_ISLNK(found.st_mode):
        return "a symbolic link, which is never followed"
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file"
    if lower.endswith(TEMPORARY):
        return "temporary: its name says that it is still being written"
    if not glob.matches(name):
        return "does not match the pattern"
    if not lower.endswith(extensions):
        return f"its name does not end in {' or '.join(extensions)}"
    if found.st_size > Limits.max_bytes:
        return f"it has {found.st_size} bytes, more than the limit of {Limits.max_bytes}"
    if found.st_size == 0 and lower.endswith(".gz"):
        return "a gzip file of 0 bytes: it was cut off"
    return None if os.access(path, os.R_OK) else "this user may not read it"
