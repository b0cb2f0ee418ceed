"""A driver of our own for a master URL (`local[4]`, `spark://…`, `yarn`, `k8s://…`): the classic Spark session.

Not here: Spark Connect (`session`, `server`). Spark allows one driver per process, with one configuration for life.
"""

import os
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.errors import SettingsError
from backfill_assets.engine.cache import cache_folder, delta_jars, spark_home
from backfill_assets.engine.confs import LOOPBACK, EngineSettings, launch_confs, properties_text
from backfill_assets.engine.java import find_java, launch_options, spark_java_home
from backfill_assets.engine.processes import Process
from backfill_assets.engine.server_state import ServerFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_launching = threading.RLock()
_launched: list[EngineSettings] = []  # the settings of this process's one driver; empty before its launch


def open_classic(lake: Path, settings: EngineSettings) -> "SparkSession":
    """This process's classic session, launched at the first call; lakes with equal settings share it.

    Raises SettingsError if the process already has a driver with other settings, or a Spark Connect session.
    """
    from pyspark.sql import SparkSession

    with _launching:
        if os.environ.get("SPARK_CONNECT_MODE_ENABLED") or _launched not in ([], [settings]):
            raise SettingsError(
                f"the engine {settings!r}",
                f"this process already uses another one ({_launched[0] if _launched else 'Spark Connect'})",
                "Nothing was started", "Use one engine per process: start a new one for this lake",
            )  # fmt: skip
        state = ServerFolder.of(lake)
        state.make()
        scratch = _scratch(state)
        properties = state.folder / f"classic-{os.getpid()}.properties"
        state.write_private(properties, properties_text(_confs(settings, state, scratch)))
        try:
            with _launch_environment(properties, settings):
                # All configuration is in the properties file: what the builder is given ends in a command line.
                session: SparkSession = SparkSession.builder.getOrCreate()
        finally:
            properties.unlink(missing_ok=True)
        session.sparkContext.setLogLevel("WARN")
        _launched[:] = [settings]
        return session


def _confs(settings: EngineSettings, state: ServerFolder, scratch: Path) -> dict[str, str]:
    confs = launch_confs(settings, state.folder)
    jars = [j.as_uri().replace(",", "%2C") for j in delta_jars(find_java().executable, launch_options())]
    options = [f"-Dderby.system.home={scratch}", "-XX:-UsePerfData", "-Xss4m"]
    if "," not in str(scratch):  # Spark splits both values at commas; such a lake's driver uses the system's folder
        options.append(f"-Djava.io.tmpdir={scratch}")
        confs["spark.local.dir"] = str(scratch)
    confs.setdefault("spark.jars.ivy", str(cache_folder() / "ivy"))
    theirs = confs.get("spark.driver.extraJavaOptions", "")
    return confs | {
        "spark.jars": ",".join([*jars, *filter(None, [confs.get("spark.jars")])]),
        "spark.driver.extraJavaOptions": f"{shlex.join(options)} {theirs}".strip(),
        "spark.ui.showConsoleProgress": "false",
    }


def _scratch(state: ServerFolder) -> Path:
    """A folder for this process's temporary files; those of dead processes are removed."""
    for old in state.folder.glob("classic-*/"):
        number = old.name.removeprefix("classic-")
        if number.isdigit() and Process.of(int(number)) is None:
            shutil.rmtree(old, ignore_errors=True)
    scratch = state.folder / f"classic-{os.getpid()}"
    scratch.mkdir(mode=0o700, exist_ok=True)
    return scratch


@contextmanager
def _launch_environment(properties: Path, settings: EngineSettings) -> Iterator[None]:
    """The environment Spark's start script reads, for as long as it starts; pyspark offers no other way in."""
    wanted = {
        "JAVA_HOME": str(spark_java_home(find_java())),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {shlex.quote(str(properties))} pyspark-shell",
        "LC_ALL": "C.UTF-8",
        # Else Spark forks whichever `python3` is first on PATH, and fails where that is another minor version.
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
        **({"SPARK_LOCAL_IP": LOOPBACK} if settings.is_local else {}),
    }
    unwanted = {"SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "MASTER", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS"}
    saved = {name: os.environ.get(name) for name in wanted.keys() | unwanted}
    for name in unwanted:
        os.environ.pop(name, None)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in saved.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
