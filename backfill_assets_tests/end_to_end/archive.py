"""Java's class-data archive for a suite on a fresh checkout, written before its other servers start.

Here: one server that loads a day of all tables, idles, and so ends and archives its classes (`engine.archive`). Not
here: servers of tests, which are stopped before they idle and so never write one.
"""

from pathlib import Path

from backfill_assets.engine.archive import class_archive
from backfill_assets.engine.cache import delta_jars, spark_home
from backfill_assets.engine.confs import EMBEDDED
from backfill_assets.engine.java import find_java, launch_options
from backfill_assets.engine.server_state import ServerFolder
from backfill_assets_tests.end_to_end.typed import days_lake
from backfill_assets_tests.engines import OF_LAKES
from backfill_assets_tests.processes import run_python, until

PATIENCE_SECONDS = 600.0
LOAD = """
import sys
from pathlib import Path
from backfill_assets.lake.home import open_lake
from backfill_assets_tests.lakes import backfill
backfill(open_lake(Path(sys.argv[1])), "2024-03-01", "2024-03-01")
"""


def make_archive(folder: Path) -> None:
    """Write the archive by a lake below `folder`; does nothing where there is one."""
    java = find_java()
    jars = [*sorted((spark_home() / "jars").glob("*.jar")), *delta_jars(java.executable, launch_options())]
    archive = class_archive(java, launch_options(), jars)
    if archive.exists():
        return
    lake = days_lake(folder, 1)
    settings = lake.root / "lake.toml"
    settings.write_text(settings.read_text().replace("[spark]\n", "[spark]\nidle_minutes = 0.05\n"))
    run_python(LOAD, lake.root, env={OF_LAKES: EMBEDDED}, timeout=PATIENCE_SECONDS)
    state = ServerFolder.of(lake.root)
    until(lambda: state.record() is None, state.log, PATIENCE_SECONDS)
