"""Delta's jars: fetched once per user by name and version, then used by path without any network.

Lives here: the per-user cache folder and the one call of Ivy. Does not live here: which versions are pinned (the
installed `pyspark` and `delta-spark` packages say) and the flags of the engine (`confs`).
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from backfill_assets.core.errors import BackfillError, unusable
from backfill_assets.core.ownership import refuse_shared
from backfill_assets.engine.java_trust import trust_store
from backfill_assets.engine.pins import is_complete, prove

CACHE_VARIABLE = "BACKFILL_ASSETS_CACHE"
SCALA = "2.13"
FILES_COORDINATE = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"  # the class `confs.NAKED_FILES`; 9 kB
_FETCH_TIMEOUT_SECONDS = 600.0  # 13 MB; a slow line needs minutes, a dead one should not hang a run for ever
_SHIPPED_WITH_SPARK = (
    "org.apache.*:*", "com.fasterxml.*:*", "com.github.luben:*", "com.google.*:*", "commons-*:*", "io.airlift:*",
    "javax.*:*", "org.roaringbitmap:*", "org.slf4j:*", "org.xerial.*:*", "org.locationtech.*:*", "org.scala-lang:*",
)  # fmt: skip  # what Delta names but Spark already has, in newer versions: 75 of 88 MB


def cache_folder() -> Path:
    """The per-user folder for jars: $BACKFILL_ASSETS_CACHE, else under $XDG_CACHE_HOME, else under ~/.cache.

    Raises SettingsError where another user could put programs there.
    """
    named, base = os.environ.get(CACHE_VARIABLE), os.environ.get("XDG_CACHE_HOME")
    if named:
        folder = Path(named).expanduser().resolve()
    else:
        folder = (Path(base) if base else Path.home() / ".cache") / "backfill-assets"
    refuse_shared(folder, CACHE_VARIABLE)
    return folder


@cache
def spark_home() -> Path:
    """The folder of the installed `pyspark`, found without importing it. Raises BackfillError if it is missing."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise _not_installed("pyspark")
    return Path(spec.origin).parent


@cache
def package_version(name: str) -> str:
    """The version of an installed package. Raises BackfillError if it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        raise _not_installed(name) from None


def _not_installed(name: str) -> BackfillError:
    return BackfillError(
        f"the package {name}", "it is not installed in this Python environment", "Spark was not started",
        "Install the package backfill-assets again, with its dependencies",
    )  # fmt: skip


def delta_coordinate() -> str:
    """Delta's Maven coordinate for the installed versions, e.g. `io.delta:delta-spark_4.2_2.13:4.4.0`."""
    spark = ".".join(package_version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_{SCALA}:{package_version('delta-spark')}"


def jars_folder() -> Path:
    """The folder of exactly these versions' jars: other versions of this package may use the same cache."""
    names = (delta_coordinate(), FILES_COORDINATE.partition(":")[2])
    return cache_folder() / "jars" / "+".join(names).replace(":", "_")


def present_jars() -> tuple[Path, ...]:
    """Delta's jars in the cache, sorted; empty if they were not fetched yet. No network."""
    return tuple(sorted(jars_folder().glob("*.jar")))


def delta_jars(java: Path, options: Sequence[str]) -> tuple[Path, ...]:
    """Delta's jars, fetched with Spark's Ivy if the cache lacks them; `java` is the program that runs it.

    Concurrent callers fetch once. Raises BackfillError, with Ivy's reason, when they cannot be fetched, and where one
    of them is not what this package was made with.
    """
    if not _has_all():
        try:
            _fetch_once(jars_folder(), java, options)
        except OSError as error:
            raise unusable(error, f"Name a folder that you can write to in ${CACHE_VARIABLE}") from None
    jars = present_jars()
    prove(delta_coordinate(), jars)
    return jars


def _has_all() -> bool:
    jars = present_jars()
    return bool(jars) and is_complete(delta_coordinate(), jars)


def _fetch_once(folder: Path, java: Path, options: Sequence[str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not _has_all():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
                fetched = _fetched(java, options, Path(scratch))
                # One rename publishes all jars or none: a reader never sees half of them.
                shutil.rmtree(folder, ignore_errors=True)
                fetched.rename(folder)


def _fetched(java: Path, options: Sequence[str], scratch: Path) -> Path:
    """The folder of the fetched jars; tried again with the machine's certificates where Java's own do not do."""
    found, said = _fetch(java, options, scratch)
    if found is None and (store := trust_store(java, scratch)):
        found, said = _fetch(java, [*options, f"-Djavax.net.ssl.trustStore={store}"], scratch)
    if found is None:
        raise BackfillError(
            f"Delta's jars ({delta_coordinate()})", f"they could not be fetched ({_reason(said)})",
            "Spark was not started",
            "Allow the network for this first start (behind a proxy: JAVA_TOOL_OPTIONS), or copy "
            f"{jars_folder()} from a machine that has it",
        )  # fmt: skip
    return found


def _fetch(java: Path, options: Sequence[str], scratch: Path) -> tuple[Path | None, str]:
    """The folder of the jars, or None, and the output of Ivy."""
    coordinate = f"{delta_coordinate()},{FILES_COORDINATE}"
    command = [
        str(java), *options, "-cp", f"{spark_home()}/jars/*", "org.apache.spark.deploy.SparkSubmit",
        "--packages", coordinate, "--conf", f"spark.jars.ivy={scratch}",
        "--conf", f"spark.jars.excludes={','.join(_SHIPPED_WITH_SPARK)}",
        # Any main class would do, Ivy's own prints its version and ends: only the fetching before it matters.
        "--class", "org.apache.ivy.Main", "spark-internal", "-version",
    ]  # fmt: skip
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    try:
        done = subprocess.run(
            command,
            cwd=scratch,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_FETCH_TIMEOUT_SECONDS,
            check=False,
        )
        said = done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        said = f"no answer within {_FETCH_TIMEOUT_SECONDS:.0f} s"
    except OSError as error:
        said = str(error)
    jars = scratch / "jars"
    complete = any(jars.glob("io.delta_delta-spark*.jar")) and any(jars.glob("io.delta_delta-storage*.jar"))
    return (jars if complete else None), said


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "not found" in line or "refused" in line or "rror" in line or "answer" in line]
    return (telling or lines or ["no output"])[-1][:200]
