"""Java's class-data archive for a suite on a fresh checkout, made before its first server and not beside the others.

Lives here: making it once, from the classes that a load of all tables needs. Does not live here: what an archive is
(`engine.archive`). Left to the suite's own servers it comes late or never: each begins one when it idles and is stopped
with its test, and until there is one each reads and notes every class anew, ten processor seconds a server.
"""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from backfill_assets.engine.archiving import CLASSES, Archiving
from backfill_assets.engine.confs import EngineSettings
from backfill_assets.engine.java import find_java
from backfill_assets.engine.jvm import prepare
from backfill_assets.engine.server import stop_server
from backfill_assets.engine.server_state import ServerFolder
from backfill_assets_tests.end_to_end.typed import EMBEDDED, answer, days_lake

PATIENCE_SECONDS = 180.0  # 20 on an idle machine; one that has less to spare does without


def make_archive(folder: Path) -> None:
    """Make the archive with a lake below `folder`; nothing where there is one, or somebody makes it just now."""
    state = ServerFolder.of(folder)
    state.make()
    asked = prepare(state, EngineSettings(EMBEDDED["engine"], EMBEDDED["memory"]), find_java())
    if not asked.archive or Path(asked.archive).exists():
        return
    lake = days_lake(folder, 2)
    try:
        answer(lake, "backfill", "--from", "2024-03-01", "--to", "2024-03-02")
        making = Archiving(Path(asked.archive), asked.making, ServerFolder.of(lake.root).scratch / CLASSES)
        making.look(is_idle=True)
        if making.child is not None:
            with suppress(PermissionError):  # its lowest priority is for those whom nobody waits for
                os.setpriority(os.PRIO_PROCESS, making.child.pid, os.getpriority(os.PRIO_PROCESS, 0))
            with suppress(subprocess.TimeoutExpired):
                making.child.wait(PATIENCE_SECONDS)
            making.look(is_idle=False)
            making.end()
    finally:
        stop_server(lake.root, force=True)
