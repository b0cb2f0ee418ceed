"""Java's class-data archive for a suite on a fresh checkout, made before its first server and not beside the others.

Lives here: making it once, by a server that loads a day of all tables and writes down its classes as it ends. Does not
live here: what an archive is (`engine.archive`), and how servers of users make theirs (`engine.archiving`): in a JVM of
its own that reads every class anew, for a smaller start and twice the processor seconds. Left to the suite's own
servers it comes late or never: each begins one when it idles and is stopped with its test, and until there is one each
reads and notes every class anew, ten processor seconds a server.
"""

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from backfill_assets.engine.confs import EMBEDDED, EngineSettings
from backfill_assets.engine.java import find_java
from backfill_assets.engine.jvm import prepare, server_environ
from backfill_assets.engine.server_state import ServerFolder, ServerRequest, take
from backfill_assets_tests.end_to_end.typed import days_lake
from backfill_assets_tests.engines import OF_LAKES
from backfill_assets_tests.processes import run_python, start, until

PATIENCE_SECONDS = 600.0  # for each of three steps; 10 on an idle machine
NOTED = "-XX:DumpLoadedClassList="  # of a server that has no archive and may have one
JAVAS_OWN = "lib/server/classes.jsa"  # ours lies on top of it; the Java from PyPI has none
LOAD = """
import sys
from pathlib import Path
from backfill_assets.lake.home import open_lake
from backfill_assets_tests.lakes import backfill
backfill(open_lake(Path(sys.argv[1])), "2024-03-01", "2024-03-01")
"""


def make_archive(folder: Path) -> None:
    """Make the archive with a lake below `folder`; nothing where there is one, or somebody makes it just now."""
    lake, java = days_lake(folder, 1), find_java()
    state = ServerFolder.of(lake.root)
    state.make()
    asked = prepare(state, EngineSettings(memory=lake.settings.spark.memory), java)
    if not any(word.startswith(NOTED) for word in asked.command) or not (java.home / JAVAS_OWN).exists():
        return
    lock = os.open(Path(asked.archive).parent / "making.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if take(lock):
            _make(state, asked)
    finally:
        os.close(lock)


def _make(state: ServerFolder, asked: ServerRequest) -> None:
    """Begin the lake's server so that it archives its classes at its end, load the lake by it, and end it."""
    part = Path(asked.archive).with_suffix(".part")
    command = [f"-XX:ArchiveClassesAtExit={part}" if word.startswith(NOTED) else word for word in asked.command]
    state.write_request(replace(asked, command=command, archive=""))
    root, words = state.folder.parent, ("-m", "backfill_assets.engine.supervisor")
    with start(*words, root, env=server_environ(state), fresh=True) as supervisor:
        try:
            until(lambda: (found := state.record()) is not None and found.usable, state.log, PATIENCE_SECONDS)
            run_python(LOAD, root, env={OF_LAKES: EMBEDDED}, timeout=PATIENCE_SECONDS)
            if record := state.record():
                os.kill(record.jvm.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                supervisor.wait(PATIENCE_SECONDS)
        finally:
            supervisor.terminate()
    if part.exists():
        part.chmod(0o600)
        part.replace(asked.archive)
