"""A lake's Sail server as a process: found, shared, stopped as Spark's is, without Java, and closed
to other users. Not here: the life that both kinds of server share (`test_server`), and what a lake
holds afterwards (`end_to_end.test_sail`)."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.sail import no_isolation_reason
from backfill_assets.engines.server import ensure_server, server_status, stop_server
from backfill_assets.engines.supervisor import ServerFolder
from backfill_assets.kernel.core.engines import SAIL
from backfill_assets_tests.processes import run_python

SETTINGS = EngineSettings(SAIL, memory="512m", cores=1, idle_minutes=5)
NO_JAVA = {"JAVA_HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
COUNT = """
import sys
from pathlib import Path
from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.session import open_session
import backfill_assets.engines.jvm as java
java._find_java = None  # whoever looks for Java fails
session = open_session(Path(sys.argv[1]), EngineSettings("sail", memory="512m", cores=1, idle_minutes=5))
print(session.range(1000).selectExpr("sum(id)").collect()[0][0], session.conf.get("spark.sql.session.timeZone"))
"""
KNOCK = """
import ctypes, os, socket, sys, tempfile
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
path, pid, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def by_path(path):
    with tempfile.TemporaryDirectory() as folder:
        short = os.path.join(folder, "s")  # an address has room for some hundred letters
        os.symlink(path, short)
        socket.socket(socket.AF_UNIX).connect(short)
def by_namespace(kind):
    inside = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)  # as nsenter does
    if ctypes.CDLL(None, use_errno=True).setns(inside, 0):
        raise OSError(ctypes.get_errno(), "setns")
    socket.create_connection(("127.0.0.1", port), timeout=2)
doors = {
    "socket": lambda: by_path(path), "root": lambda: by_path(f"/proc/{pid}/root{path}"),
    "folder": lambda: by_path(f"/proc/{pid}/cwd/{os.path.basename(path)}"),
    "network": lambda: by_namespace("net"), "user": lambda: by_namespace("user"),
    "files": lambda: os.listdir(f"/proc/{pid}/fd"), "memory": lambda: open(f"/proc/{pid}/mem"),
}
for name, door in doors.items():
    try:
        door()
        print(name, "open")
    except Exception as error:
        print(name, type(error).__name__)
"""


@pytest.fixture
def lake(tmp_path: Path, processes: None) -> Iterator[Path]:
    """A folder for a server that is stopped at the end."""
    if why := no_isolation_reason():
        pytest.skip(why)
    yield tmp_path
    stop_server(tmp_path, force=True)


def test_a_server_answers_without_java_and_is_shared_and_stopped(lake: Path) -> None:
    assert run_python(COUNT, lake, env=NO_JAVA).split() == ["499500", "UTC"]
    status = server_status(lake)
    assert status is not None
    assert (status.version, status.in_use) == ("pysail 0.7.2", False)
    assert ensure_server(lake, SETTINGS).process.pid == status.pid, (
        "the second user got another server"
    )
    assert stop_server(lake)
    assert server_status(lake) is None
    assert not psutil.pid_exists(status.pid)


def test_a_package_that_lies_in_the_servers_folder_is_not_run(lake: Path) -> None:
    state = ServerFolder.of(lake)
    state.make()
    for name in ("backfill_assets", "json", "pysail"):
        (state.folder / name).mkdir()
        (state.folder / name / "__init__.py").write_text(f"open({str(lake / 'ran')!r}, 'w')")
    assert (
        run_python(COUNT, lake, env=NO_JAVA | {"PYTHONPATH": os.pathsep.join(["", "."])}).split()[0]
        == "499500"
    )
    assert not (lake / "ran").exists()


def test_the_logs_of_a_server_are_not_written_through_links(lake: Path) -> None:
    state = ServerFolder.of(lake)
    state.make()
    (lake / "theirs").write_text("theirs")
    (state.folder / "supervisor.log").symlink_to(lake / "theirs")
    with pytest.raises(OSError, match=r"supervisor\.log"):
        ensure_server(lake, SETTINGS)
    assert (lake / "theirs").read_text() == "theirs"


def test_nobody_else_gets_in(lake: Path) -> None:
    record = ensure_server(lake, SETTINGS)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", record.port), timeout=2)
    if os.geteuid():
        pytest.skip("only root can become another user")
    for folder in lake.parents[:3]:
        folder.chmod(0o755)
    lake.chmod(0o755)
    (inside,) = [p for p in _family(record.process.pid) if _network(p) != _network("self")]
    told = run_python(
        KNOCK, str(ServerFolder.of(lake).folder / record.socket), inside, str(record.port)
    ).splitlines()
    doors = ("socket", "root", "folder", "network", "user", "files", "memory")
    assert told == [f"{door} PermissionError" for door in doors]


def _family(pid: int) -> list[str]:
    """A process and those that it started, by their numbers."""
    return [
        str(p.pid) for p in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))
    ]


def _network(pid: str) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())
