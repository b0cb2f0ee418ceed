"""The same deliveries give the same tables, whatever the machine: a server of Spark or a cluster, east or west of UTC.

Lives here: lakes filled by programs of their own, each compared with one that was filled on the tests' server, in UTC.
Does not live here: orders, chunks and files (`test_invariance`), and the other engine (`test_golden`).
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backfill_assets.engine.jvm import find_java, launch_options
from backfill_assets_tests.end_to_end.test_invariance import ROWS, RULES, assert_same, made
from backfill_assets_tests.end_to_end.worlds import World, span
from backfill_assets_tests.engines import FOR_SERVERS, java_of_theirs
from backfill_assets_tests.processes import run_python

pytestmark = pytest.mark.on_spark("it is Spark's driver, its server and its cluster")

BACKFILL = """
import sys
from pathlib import Path
from backfill_assets_tests.end_to_end.test_invariance import RULES
from backfill_assets_tests.end_to_end.worlds import World, span
World(Path(sys.argv[1])).backfill(span(RULES))
from backfill_assets.engine.session import drop_session
drop_session(Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def at_once(spark: object, tmp_path_factory: pytest.TempPathFactory) -> World:
    """On the server of the tests, in UTC."""
    world = made(tmp_path_factory.mktemp("at_once"), [ROWS])
    world.backfill(span(RULES))
    return world


@pytest.mark.slow
def test_an_embedded_server_far_east_of_utc_gives_the_same_tables(at_once: World, tmp_path: Path) -> None:
    world = made(tmp_path, [ROWS], '[spark]\nmemory = "1g"\nidle_minutes = 0.05\n')
    run_python(BACKFILL, world.root, env={"TZ": "Pacific/Kiritimati"}, timeout=600, fresh=True)
    assert_same(world, at_once)


@pytest.mark.slow
def test_two_workers_west_of_utc_give_the_same_tables(
    at_once: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOR_SERVERS)  # the program has a driver of its own
    settings = {
        "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.sql.shuffle.partitions": "4",
        "spark.databricks.delta.snapshotPartitions": "2",
    }  # fmt: skip
    java_home = java_of_theirs()
    around = {"TZ": "America/New_York", "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(java_home)}
    with cluster(tmp_path / "cluster", around) as master:
        confs = "".join(f"{json.dumps(k)} = {json.dumps(v)}\n" for k, v in settings.items())
        world = made(tmp_path / "lake", [ROWS], f'[spark]\nengine = "{master}"\nmemory = "1g"\n[spark.confs]\n{confs}')
        run_python(BACKFILL, world.root, env=around, timeout=600, fresh=True)
    assert_same(world, at_once)


@contextmanager
def cluster(folder: Path, env: dict[str, str]) -> Iterator[str]:
    """A standalone master and two workers on loopback, from pyspark's own jars; gives the master's URL."""
    from backfill_assets.engine.cache import spark_home

    folder.mkdir()
    log = (folder / "cluster.log").open("w")
    jars = f"{spark_home()}/jars/*"
    java = [str(find_java().executable), *launch_options(), "-Xmx256m", "-cp", jars]
    # Without the version, the workers look for the build folders of a source checkout.
    around = {**os.environ, **env, "SPARK_HOME": str(spark_home()), "SPARK_SCALA_VERSION": "2.13"}
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for n in range(2):
        place = ["--work-dir", str(folder / f"worker-{n}"), "--host", "127.0.0.1", "--webui-port", "0"]
        commands.append([f"{deploy}.worker.Worker", "--cores", "1", "--memory", "512m", *place, master])
    started = [
        subprocess.Popen([*java, *c], env=around, stdout=log, stderr=log, start_new_session=True) for c in commands
    ]
    try:
        yield master
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)
        log.close()
        shutil.rmtree(folder)


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
