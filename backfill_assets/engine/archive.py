"""Java's class-data archive of a server: where it lies, what it must agree with, and the flags that use it.

Lives here: naming an archive by all that it depends on, whether it may be used, and the command that makes one. Does
not live here: making it (`archiving`, in the background of a server that idles). An archive holds the classes of Spark
and Delta as the JVM keeps them, read and verified: a server starts with half the processor seconds. It is code, so only
one that this user alone could have written is used; users who share a cache folder do not share archives.
"""

import hashlib
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.engine.archiving import CLASSES, FAILED
from backfill_assets.engine.cache import cache_folder
from backfill_assets.engine.java import Java

_LARGE_HEAP_MB = 30 * 1024  # above it pointers of Java are longer, in the archive too
_MAKERS_HEAP = "-Xmx1g"  # what it takes does not depend on the server's heap
_MEMORY = re.compile(r"(\d+)([mg])", re.IGNORECASE)


@dataclass(frozen=True)
class Archive:
    """The archive of servers of one Java, one list of flags and one class path; `making` makes it, told from what and
    where to (`archiving`)."""

    file: Path
    making: tuple[str, ...]

    @classmethod
    def of(cls, java: Java, flags: Sequence[str], class_path: str, memory: str) -> "Archive | None":
        """The one for servers started so; None where there can be none. Makes no file.

        The JVM itself refuses an archive of another Java, of other jars or in another order; these are part of the
        name so that such an archive is replaced by a fitting one, and not refused at every start.
        """
        if _megabytes(memory) >= _LARGE_HEAP_MB:
            return None
        try:
            agreed = [(java.home / "release").read_text("utf-8"), str(java.home.resolve()), flags, _jars(class_path)]
        except (OSError, UnicodeDecodeError):
            return None
        name = hashlib.sha256(repr(agreed).encode()).hexdigest()[:16]
        # Objects of Java's heap get into an archive under this collector only; servers under another one use them.
        options = ("-Xshare:dump", "-XX:+UseG1GC", _MAKERS_HEAP, *flags, "-cp", class_path)
        return cls(cache_folder() / "classes" / f"{name}.jsa", (str(java.executable), *options))

    @property
    def is_there(self) -> bool:
        """Whether it was made, and nobody else could have written it."""
        return all(_is_ours(path) for path in (self.file.parent, self.file))

    @property
    def is_wanted(self) -> bool:
        """Whether it is not there and may be made: its folder is this user's own, and nobody failed before."""
        folder = self.file.parent
        if self.file.exists() or self.file.with_suffix(FAILED).exists():
            return False
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _is_ours(folder) and os.access(folder, os.W_OK | os.X_OK)

    def flags(self, scratch: Path) -> tuple[str, ...]:
        """What a JVM is told: to use it, else to note its classes below `scratch`, else nothing."""
        if self.is_there:
            with suppress(OSError):
                os.utime(self.file)  # used: `archiving` takes away what nobody used for long
            # A damaged or foreign one costs the time it would save, and no word in the log.
            return f"-XX:SharedArchiveFile={self.file}", "-XX:+VerifySharedSpaces", "-Xshare:auto", "-Xlog:cds*=off"
        return (f"-XX:DumpLoadedClassList={scratch / CLASSES}",) if self.is_wanted else ()


def _megabytes(memory: str) -> int:
    told = _MEMORY.fullmatch(memory)
    return int(told[1]) * (1024 if told[2].lower() == "g" else 1) if told else _LARGE_HEAP_MB


def _jars(class_path: str) -> list[tuple[str, int, int]]:
    """Every jar in the order in which Java finds it: that of the folder, where a folder is named by a star."""
    found = []
    for entry in class_path.split(":"):
        folder, name = os.path.split(entry)
        names = [n for n in os.listdir(folder) if n.endswith((".jar", ".JAR"))] if name == "*" else [name]  # noqa: PTH208
        found += [Path(folder) / n for n in names]
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in found]


def _is_ours(path: Path) -> bool:
    """Whether it is this user's, no link, and writable by nobody else."""
    try:
        found = path.lstat()
    except OSError:
        return False
    writable = stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and not writable
