"""The same deliveries give the same tables, whatever the machine: a server of Spark or a cluster,
east or west of UTC.

Lives here: lakes filled by programs of their own, each compared with one that was filled on the
tests' server, in UTC. Does not live here: orders, chunks and files (`test_invariance`), and the
other engine (`test_golden`).
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from backfill_assets.engines import standalone
from backfill_assets.engines.frame_files import stage_frame
from backfill_assets.engines.jvm import find_java, launch_options
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.server import stop_server
from backfill_assets.engines.session import drop_session
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.builders import STAGING
from backfill_assets_tests.end_to_end.test_invariance import ROWS, RULES, assert_same, made
from backfill_assets_tests.end_to_end.worlds import World, make_world, span
from backfill_assets_tests.engine_choice import FOR_SERVERS, DataFrame, java_of_theirs
from backfill_assets_tests.processes import free_port, run_python, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.on_spark("it is Spark's driver, its server and its cluster"),
]

BACKFILL = """
import sys
from pathlib import Path
from backfill_assets_tests.end_to_end.test_invariance import RULES
from backfill_assets_tests.end_to_end.worlds import World, span
World(Path(sys.argv[1])).backfill(span(RULES))
from backfill_assets.engines.session import drop_session
drop_session(Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def at_once(spark: object, tmp_path_factory: pytest.TempPathFactory) -> World:
    """On the server of the tests, in UTC."""
    world = made(tmp_path_factory.mktemp("at_once"), [ROWS])
    world.backfill(span(RULES))
    return world


@pytest.mark.slow
def test_an_embedded_server_far_east_of_utc_gives_the_same_tables(
    at_once: World, tmp_path: Path
) -> None:
    world = made(tmp_path, [ROWS], '[spark]\nmemory = "1g"\nidle_minutes = 0.05\n')
    run_python(BACKFILL, world.root, env={"TZ": "Pacific/Kiritimati"}, timeout=600, fresh=True)
    assert_same(world, at_once)


@pytest.mark.slow
def test_two_workers_west_of_utc_give_the_same_tables(
    at_once: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOR_SERVERS)  # the program has a driver of its own
    around = {"TZ": "America/New_York", **of_cluster()}
    with cluster(tmp_path / "cluster", around) as machines:
        machines.join()
        machines.join()
        world = made(tmp_path / "lake", [ROWS], spark_section(machines.master))
        run_python(BACKFILL, world.root, env=around, timeout=600, fresh=True)
    assert_same(world, at_once)


@pytest.mark.slow
def test_a_worker_that_sees_another_folder_is_named_at_once_or_by_its_first_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is a mount that no other process has."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mounts of a process's own here, so that no worker can be made blind")
    for name, value in of_cluster().items():
        monkeypatch.setenv(name, value)
    root, named = (
        tmp_path / "lake",
        r"its worker .* process \d+ sees another folder under this path",
    )
    with cluster(tmp_path / "cluster", {}) as machines:
        lake_session = LakeSession(
            open_lake(make_world(root, RULES, more=spark_section(machines.master)).root)
        )
        machines.join()
        rows = lake_session.spark().range(0, 400, 1, 4)
        frame = rows.selectExpr(
            "id AS event_key", "DATE '2024-03-01' + CAST(id % 4 AS INT) AS event_date"
        )
        stage_frame(lake_session.lake, STAGING, frame).drop()
        machines.join(
            "unshare", "-m", "sh", "-c", f'mount -t tmpfs none {root} && exec "$@"', "blind"
        )
        refusals: list[str] = []
        until(
            lambda: bool(refused(lake_session, frame, refusals)),
            machines.folder / "cluster.log",
            120,
        )
        assert re.search(named, refusals[0])
        assert not list((root / "tables").rglob("*.parquet"))
        drop_session(root)
        with pytest.raises(SettingsError, match=named):
            lake_session.spark()
    stop_server(root, force=True)


@pytest.mark.slow
def test_a_cluster_whose_workers_are_too_small_is_refused_with_what_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in of_cluster().items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "lake"
    with cluster(tmp_path / "cluster", {}) as machines:
        machines.join()
        asked = {
            "spark.executor.memory": "600m",
            standalone.PAGE_PORT_CONF: str(machines.page),
            standalone.PATIENCE_CONF: "3s",
        }
        more = spark_section(machines.master, **asked)
        lake_session = LakeSession(open_lake(make_world(root, RULES, more=more).root))

        def is_joined() -> bool:
            offer = standalone.read_offer(lake_session.engine, "")
            return offer is not None and bool(offer.workers)

        until(is_joined, machines.folder / "cluster.log", 120)
        named = r"asks for 600m of memory and 1 cores; its workers are .* \(1 cores and 512 MiB"
        with pytest.raises(SettingsError, match=named):
            lake_session.spark()
        with pytest.raises(SettingsError, match=named):  # of the driver that lives on
            lake_session.for_reading()
    stop_server(root, force=True)


def refused(lake_session: LakeSession, frame: DataFrame, refusals: list[str]) -> list[str]:
    """Why rows were not staged; empty where they were."""
    try:
        stage_frame(lake_session.lake, STAGING, frame).drop()
    except SettingsError as refusal:
        refusals.append(str(refusal))
    return refusals


def spark_section(master: str, **more: str) -> str:
    """The settings of a lake whose queries run on a cluster of small workers; `more`: further
    configuration of Spark."""
    confs = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "4",
        "spark.databricks.delta.snapshotPartitions": "2",
        **more,
    }
    lines = "".join(f"{json.dumps(k)} = {json.dumps(v)}\n" for k, v in confs.items())
    return f'[spark]\nengine = "{master}"\nmemory = "1g"\n[spark.confs]\n{lines}'


def of_cluster() -> dict[str, str]:
    """The environment of programs on loopback that drive a cluster; skips where there is only the
    Java of PyPI."""
    return {"SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(java_of_theirs())}


@dataclass
class Cluster:
    """A standalone master on loopback and its workers, from pyspark's own jars."""

    folder: Path
    env: dict[str, str]
    log: IO[str]
    port: int = field(default_factory=free_port)
    page: int = field(default_factory=free_port)  # of the master, which shows its workers
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def master(self) -> str:
        """The master's URL."""
        return f"spark://127.0.0.1:{self.port}"

    def start(self, what: str, *words: str, before: Sequence[str] = ()) -> None:
        """Start a program of the cluster by another one, if any."""
        from backfill_assets.engines.cache import spark_home

        java = [
            str(find_java().executable),
            *launch_options(),
            "-Xmx256m",
            "-cp",
            f"{spark_home()}/jars/*",
        ]
        # Without the version, the workers look for the build folders of a source checkout.
        around = {
            **os.environ,
            **self.env,
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.13",
        }
        places = ["--host", "127.0.0.1", "--webui-port", "0"]
        command = [*before, *java, f"org.apache.spark.deploy.{what}", *places, *words]
        self.started.append(
            subprocess.Popen(
                command, env=around, stdout=self.log, stderr=self.log, start_new_session=True
            )
        )

    def join(self, *before: str) -> None:
        """Start a worker, which may take a while to be at work; by another program, if any."""
        place = str(self.folder / f"worker-{len(self.started)}")
        words = ["--cores", "1", "--memory", "512m", "--work-dir", place, self.master]
        self.start("worker.Worker", *words, before=before)


@contextmanager
def cluster(folder: Path, env: dict[str, str]) -> Iterator[Cluster]:
    """A cluster without a worker, in a new folder; all of it ends with the block."""
    folder.mkdir()
    with (folder / "cluster.log").open("w") as log:
        made = Cluster(folder, env, log)
        try:
            ports = ("--port", str(made.port), "--webui-port", str(made.page))
            made.start("master.Master", *ports)
            yield made
        finally:
            for process in reversed(made.started):
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(30)
            shutil.rmtree(folder)
