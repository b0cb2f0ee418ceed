"""Another user of the same machine: reads nothing of a lake, and gets nowhere at the ports of its
server.

Tested here: what `nobody` can read, and what Spark's own ports answer to somebody without the
secret. Not tested here: the token of Spark Connect (`engines.test_session`). Needs the right to
become another user.
"""

import os
import shutil
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from backfill_assets.engines.server import server_status, stop_server
from backfill_assets.engines.supervisor import ServerFolder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.lakes import delivery, make_lake
from backfill_assets_tests.processes import run_python

pytestmark = [
    pytest.mark.long,
    pytest.mark.on_spark(
        "Spark has ports of its own and Sail none; of Sail and another user: engine.test_launch"
    ),
]
NOBODY = 65534
PATIENCE_SECONDS = 600.0
LOAD = """
import os, subprocess, sys
os.umask(0o022)
day = ["--from", "2024-03-01", "--to", "2024-03-01"]
for command in (["backfill", *day, "--tables", "raw"], ["report", "--html", sys.argv[2]]):
    subprocess.run([sys.executable, "-m", "backfill_assets", "--lake", sys.argv[1], *command], check=True)
"""
# The files that a user can read, by a process that becomes this user.
READABLE = """
import os, sys
root, user = sys.argv[1], int(sys.argv[2])
os.setgroups([]), os.setgid(user), os.setuid(user)
for folder, _, names in os.walk(root):
    for path in (os.path.join(folder, name) for name in names):
        if os.path.isfile(path) and os.access(path, os.R_OK):
            print(path)
"""


@pytest.fixture
def spark_server() -> Iterator[Lake]:
    """A loaded lake in a folder that everyone can enter; its server is stopped at the end."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    before = os.umask(0o022)
    rows = [
        delivery(1, "2024-03-01 10:00:00", None, "k1"),
        delivery(2, "2024-03-01 10:00:00", None, "bad", op="no"),
    ]
    lake = make_lake(
        folder / "lake", rows, "2024-03-01", spark={"engine": "embedded", "memory": "1g"}
    )
    os.umask(0o022)
    lake.root.chmod(0o755)
    (lake.root / "home").mkdir(mode=0o700)
    env = {"DAGSTER_HOME": str(lake.root / "home")}
    try:
        run_python(LOAD, lake.root, lake.root / "report.html", env=env, timeout=PATIENCE_SECONDS)
        yield lake
    finally:
        os.umask(before)
        stop_server(lake.root, force=True)
        shutil.rmtree(folder)


def test_another_user_reads_nothing_and_is_refused_at_every_port(spark_server: Lake) -> None:
    (spark_server.root / "home").rename(spark_server.root / ".home")
    theirs, ours = (
        run_python(READABLE, spark_server.root, str(user)).splitlines() for user in (NOBODY, 0)
    )
    provided = {str(p) for p in (spark_server.root / "landing").iterdir()} | {
        str(spark_server.root / "lake.toml")
    }
    assert set(theirs) <= provided
    written = {Path(p).relative_to(spark_server.root).parts[0] for p in ours}
    assert {"tables", ".stock", ".server", "report.html"} <= written
    open_to_all = {p for p in ours if p not in provided and Path(p).stat().st_mode & 0o077}
    assert {p for p in open_to_all if "/.server/" not in p and "/.home/" not in p} == set()
    status, record = server_status(spark_server.root), ServerFolder.of(spark_server.root).record()
    assert status is not None
    assert record is not None
    sockets = psutil.Process(status.pid).net_connections("inet")
    ports = {c.laddr.port for c in sockets if c.status == psutil.CONN_LISTEN} - {record.port}
    assert ports
    for port in ports:
        assert b"SaslMessage" in _answer(port)


def _answer(port: int) -> bytes:
    """What one of Spark's own ports says to a request (its frame: length, kind 3, number, body)
    without a secret."""
    body = b"no secret"
    frame = struct.pack(">bqi", 3, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(struct.pack(">q", len(frame) + 8) + frame)
        return line.recv(65536)
