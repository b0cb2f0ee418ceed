"""A lake in a bucket on a standalone cluster whose parts are killed in mid-work: the tables of a
lake in a folder.

Lives here: executor, worker, Connect server and driver, each killed (SIGKILL) while a proxy holds a
request of the work that it does. Does not live here: killed processes of the product
(`test_bucket_stops`, `test_killed`), and clusters in a folder (`test_machines`).
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import psutil
import pytest

from backfill_assets.engines.cache import present_jars, s3a_jars
from backfill_assets.engines.confs import s3a_confs
from backfill_assets.engines.jvm import find_java, launch_options
from backfill_assets.engines.server import stop_server
from backfill_assets.engines.session import drop_session
from backfill_assets.engines.supervisor import ServerFolder
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets_tests.end_to_end.test_bucket_elsewhere import DAYS, IN_PYTHON, QUICK, unseen
from backfill_assets_tests.end_to_end.test_bucket_lake import EARLY, LATE
from backfill_assets_tests.end_to_end.test_invariance import RULES, assert_same
from backfill_assets_tests.end_to_end.test_machines import Cluster, cluster, of_cluster
from backfill_assets_tests.end_to_end.worlds import World, encoded, land_bytes, make_world
from backfill_assets_tests.engines.test_session_theirs import spark_server
from backfill_assets_tests.faulty_store import (
    faulty,
    hold_request,
    is_request_held,
    release_request,
)
from backfill_assets_tests.processes import until
from backfill_assets_tests.stores import KEY, SECRET, StoreServer

THOROUGH = "BACKFILL_ASSETS_CLUSTER_DEATHS"
pytestmark = [
    pytest.mark.users_do,
    pytest.mark.slow,
    pytest.mark.on_spark("its cluster is Spark's own"),
    pytest.mark.skipif(THOROUGH not in os.environ, reason=f"takes minutes: ${THOROUGH} runs it"),
]
__all__ = ("unseen",)  # a fixture
EXECUTOR = "CoarseGrainedExecutorBackend"
QUICK_THERE = {name: value for name, value in QUICK.items() if name != "spark.master"}
SMALL = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
# A request of an executor alone: method, path, client.
TAKES_IN = r"^PUT /\w+/lake/\.stock/"
WRITES = r"^PUT /\w+/lake/tables/{}/writes/\S*_temporary\S*\.parquet"
COUNTS = r"^GET /\w+/lake/tables/{}/writes/\S*\.parquet.* Hadoop"


@dataclass
class Site:
    """A cluster on this machine, the way to its store, and the keys of both."""

    cluster: Cluster
    proxy: str
    confs: dict[str, str]

    def amid(self, request: str, kill: Callable[[], object], work: Callable[[], object]) -> None:
        """Do `work`, and `kill` something while a request of it is held."""
        killed = list[bool]()

        def watch() -> None:
            until(lambda: is_request_held(self.proxy), self.cluster.folder / "cluster.log", 300)
            kill()
            killed.append(True)
            release_request(self.proxy)

        hold_request(self.proxy, request)
        watcher = Thread(target=watch)
        watcher.start()
        try:
            work()
        finally:
            watcher.join()
        assert killed, f"no request was {request}"

    def kill_executor(self) -> None:
        """Kill the executors; their worker starts another."""
        for worker in self.cluster.started[1:]:
            for child in psutil.Process(worker.pid).children():
                if EXECUTOR in " ".join(child.cmdline()):
                    child.kill()

    def kill_worker(self) -> None:
        """Kill the workers with all that they started; another one joins."""
        for worker in self.cluster.started[1:]:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait(30)
        del self.cluster.started[1:]
        self.cluster.join()

    @contextmanager
    def server(self, port: int = 0) -> Iterator[int]:
        """A Connect server of others that computes on the cluster."""
        with spark_server(port, **self.confs) as found:
            yield found


@pytest.fixture(scope="module")
def site(moto_server: StoreServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One worker; skips where the jars of S3A are neither cached nor to be fetched."""
    try:
        jars = (*present_jars(), *s3a_jars(find_java().executable, launch_options()))
    except BackfillError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch, ExitStack() as started:
        proxy = started.enter_context(faulty(moto_server.endpoint, share=0))
        around = {**moto_server.environment, "AWS_ENDPOINT_URL": proxy, **of_cluster()}
        for name, value in around.items():
            patch.setenv(name, value)
        made = started.enter_context(cluster(tmp_path_factory.mktemp("site") / "cluster", around))
        made.join()
        keys = {"spark.hadoop.fs.s3a.access.key": KEY, "spark.hadoop.fs.s3a.secret.key": SECRET}
        confs = {**QUICK, **SMALL, **keys, **s3a_confs(around, ""), "spark.master": made.master}
        yield Site(made, proxy, {**confs, "spark.jars": ",".join(map(str, jars))})


@dataclass
class Pair:
    """A lake in a folder, and one in a bucket that is to equal it."""

    folder: World
    one: World

    def land(self, name: str, content: bytes) -> None:
        """Land a file for both; the one in the folder is loaded and built."""
        land_bytes(self.folder, name, content)
        place_at(self.one.root).write(f"landing/{name}", content)
        self.folder.backfill(DAYS)

    def compute_by(self, engine: str, confs: Mapping[str, str]) -> None:
        """Let the engine, configured so, compute the one in the bucket, and count every file."""
        drop_session(self.one.root)
        lines = "".join(f'\n"{name}" = "{value}"' for name, value in confs.items())
        text = (self.folder.root / FILE_NAME).read_text()
        text = text.replace("[spark]", f"[spark]\n{IN_PYTHON.format(engine)}{lines}")
        place_at(self.one.root).write(FILE_NAME, f"{text}\n[audit]\nengine_from_mib = 0\n".encode())

    def make(self, *tables: str) -> Callable[[], object]:
        """What makes tables of the one in the bucket."""
        return lambda: self.one.backfill(DAYS, *tables)


@pytest.fixture
def pair(moto_server: StoreServer, tmp_path: Path) -> Pair:
    bucket = World(local_root(f"{moto_server.new_bucket()}/lake"))
    return Pair(make_world(tmp_path / "folder", RULES, "csv"), bucket)


@pytest.mark.usefixtures("spark", "unseen")
def test_a_lake_in_a_bucket_is_a_folders_whatever_is_killed_of_its_cluster_and_its_server(
    site: Site, pair: Pair
) -> None:
    pair.land("early.csv", encoded("csv", EARLY))
    with site.server() as port:
        pair.compute_by(f"sc://127.0.0.1:{port}", {})
        site.amid(TAKES_IN, site.kill_executor, pair.make("raw"))
        site.amid(WRITES.format("staging"), site.kill_worker, pair.make("staging"))
        site.amid(COUNTS.format("features"), site.kill_executor, pair.make("features"))
        labels = pair.make("features_as_known", "labels")
        with pytest.raises(BackfillError):
            site.amid(WRITES.format("labels"), lambda: kill_server(port), labels)
    with site.server(port):
        pair.one.backfill(DAYS)
        assert_same(pair.one, pair.folder)
        drop_session(pair.one.root)


@pytest.mark.usefixtures("spark", "unseen")
def test_a_lake_in_a_bucket_is_a_folders_though_its_driver_on_a_cluster_was_killed(
    site: Site, pair: Pair
) -> None:
    pair.land("late.csv", encoded("csv", LATE))
    pair.compute_by(site.cluster.master, {**QUICK_THERE, **SMALL})
    try:
        pair.make("raw")()
        staging = pair.make("staging")
        with pytest.raises(BackfillError):
            site.amid(WRITES.format("staging"), lambda: kill_driver(pair.one), staging)
        pair.one.backfill(DAYS)
        assert_same(pair.one, pair.folder)
        assert pair.one.states() == pair.folder.states()
    finally:
        drop_session(pair.one.root)
        stop_server(pair.one.root, force=True)


def kill_server(port: int) -> None:
    """Kill the Connect server that listens on a port."""
    word = f"spark.connect.grpc.binding.port={port}"
    for process in psutil.process_iter(["cmdline"]):
        if word in (process.info["cmdline"] or ()):
            process.kill()


def kill_driver(world: World) -> None:
    """Kill the server of the lake's own."""
    record = ServerFolder.of(world.root).record()
    assert record is not None
    os.kill(record.process.pid, signal.SIGKILL)
