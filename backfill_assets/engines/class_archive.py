"""Java's archive of the classes that a server loads: with it, the next server of these versions
starts with a third less processor time.

Lives here: where it lies, the flags that use it or list the classes for it, and the program that
makes it, once, after a server has ended. Not here: the server's command (`jvm`), and the end of a
server (`supervisor`).
"""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from backfill_assets.kernel.core.process import python_command

LIST_FILE = "classes.lst"  # in the server's folder: what it has loaded so far
# A server that lived for less has not loaded much, and its list would be the archive for good.
LEAST_SECONDS = 20.0
_UNUSED_SECONDS = 30 * 86_400.0
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
_QUICK = ("-XX:TieredStopAtLevel=1",)
# With these, Java archives no classes, or the user has said what it shall do.
_OTHER_MEANS = ("-Xshare", "-javaagent", "-XX:SharedArchiveFile", "-XX:DumpLoadedClassList")
_PROGRAM = "backfill_assets.engines.class_archive"


def archive_place(folder: Path, java_home: Path, class_path: Sequence[str]) -> Path:
    """The archive of this Java and class path in the cache `folder`: named by Java's file
    `release`, and by name, size and time of every jar, which are what Java compares."""
    named = hashlib.sha256()
    with suppress(OSError):
        named.update((java_home / "release").read_bytes())
    for entry in class_path:
        jars = Path(entry).parent.glob("*.jar") if entry.endswith("*") else [Path(entry)]
        for jar in sorted(jars):
            if jar.is_file():
                status = jar.stat()
                named.update(f"{jar}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return folder / "classes" / f"{named.hexdigest()[:24]}.jsa"


def archive_flags(archive: Path, options: Sequence[str]) -> list[str]:
    """The flags by which a server uses its archive, or lists its classes where there is none;
    nothing where the user's own `options` say otherwise. Marks the archive as used."""
    if any(option.startswith(_OTHER_MEANS) for option in options):
        return []
    try:
        os.utime(archive)
    except FileNotFoundError:
        return [f"-XX:DumpLoadedClassList={LIST_FILE}"]
    except OSError:  # not ours to touch: nothing is used
        return []
    return [f"-XX:SharedArchiveFile={archive}", *_SILENT]


def dump_command(java: Path, archive: Path, class_path: str) -> list[str]:
    """The command that makes the archive out of a list of classes; the program appends the names
    of both files."""
    # G1 alone archives objects beside classes; a server with another collector loads them, too.
    return [
        str(java),
        "-Xshare:dump",
        "-XX:+UseG1GC",
        *_QUICK,
        *_SILENT,
        "-cp",
        class_path,
        str(archive),
    ]


def begin_archive(command: Sequence[str], listed: Path) -> None:
    """Start the program that makes an archive out of the list of an ended server, and do not wait
    for it. Does nothing where the archive is there or cannot be put there."""
    archive = Path(command[-1])
    with suppress(OSError):
        archive.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if archive.exists():
            return
        taken = archive.with_suffix(f".{os.getpid()}.lst")
        listed.replace(taken)
        subprocess.Popen(
            python_command(_PROGRAM, str(taken), *command),
            cwd=archive.parent,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def make_archive(command: Sequence[str], listed: Path) -> bool:
    """Make the archive, unless it is there or somebody else makes it, and remove the list, and
    what was not used for 30 days; tells whether it was made. It appears whole or not at all."""
    archive = Path(command[-1])
    try:
        with FileLock(archive.parent / "lock", timeout=0):
            return not archive.exists() and _was_made(command, listed, archive)
    except Timeout:
        return False
    finally:
        listed.unlink(missing_ok=True)


def _was_made(command: Sequence[str], listed: Path, archive: Path) -> bool:
    unfinished = archive.with_suffix(".making")
    files = f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={unfinished}"
    made = subprocess.run([command[0], *files, *command[1:-1]], check=False)
    is_whole = made.returncode == 0 and unfinished.exists()
    if is_whole:
        unfinished.replace(archive)
    unfinished.unlink(missing_ok=True)
    _remove_unused(archive.parent)
    return is_whole


def _remove_unused(folder: Path) -> None:
    """Delete what no server has used, and no program has made, for 30 days."""
    for path in folder.glob("*.*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _UNUSED_SECONDS:
                path.unlink()


if __name__ == "__main__":
    os.nice(10)
    make_archive(sys.argv[2:], Path(sys.argv[1]))
