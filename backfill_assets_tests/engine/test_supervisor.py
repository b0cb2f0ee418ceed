"""The process beside a server, with a harmless program instead of a JVM: starting, idling, and records.

Tested here: `engine.supervisor` in this process. Not tested here: real servers, and supervisors that are killed
(`test_server`).
"""

import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from backfill_assets.core.errors import EngineLost
from backfill_assets.engine.confs import SAIL, EngineSettings
from backfill_assets.engine.processes import Process
from backfill_assets.engine.server import ensure_server
from backfill_assets.engine.server_state import Record, ServerFolder, ServerRequest
from backfill_assets.engine.supervisor import supervise

SERVING = """
import socket
with socket.create_server(("127.0.0.1", 0)) as door:
    print(f"Spark Connect server started at: 127.0.0.1:{door.getsockname()[1]}", flush=True)
    input()
"""
# The end of such a program: it waits for its port to be recorded, and keeps or replaces the record.
AWAITED = """
    import json, os, time
    while json.load(open("endpoint.json"))["port"] == 0: time.sleep(0.01)
    {then}
    time.sleep(60)
""".strip()
RECORDED = AWAITED.format(then='os.link("endpoint.json", "seen")')
REPLACED = AWAITED.format(then='os.replace("newer", "endpoint.json")')


@pytest.fixture
def state(tmp_path: Path) -> Iterator[ServerFolder]:
    """A folder; what the supervisor did to this process's SIGTERM is undone."""
    found = ServerFolder.of(tmp_path)
    found.make()
    before = signal.getsignal(signal.SIGTERM)
    yield found
    signal.signal(signal.SIGTERM, before)


def request(state: ServerFolder, code: str, idle_seconds: float = 0.0) -> ServerRequest:
    """One for a server that is this program; its token's file lies there."""
    (state.folder / "spark.properties").write_text("spark.token hunter2")
    command = [sys.executable, "-c", code]
    return ServerRequest(command, {"memory": "1g"}, idle_seconds, "spark.properties", "hunter2")


def test_a_server_that_listens_is_recorded_and_ended_when_nobody_uses_it(state: ServerFolder, processes: None) -> None:
    recorded = SERVING.replace("input()", RECORDED)
    supervise(state, request(state, recorded, idle_seconds=2))
    assert json.loads((state.folder / "seen").read_text())["token"] == "hunter2"
    assert state.record() is None
    assert "server started at" in state.log.read_text()
    assert not (state.folder / "spark.properties").exists(), "the token is on disk no longer than it takes to read it"
    assert not state.scratch.exists()


def test_a_server_that_ends_before_it_listens_leaves_its_log_and_no_record(
    state: ServerFolder, processes: None
) -> None:
    state.log.write_text("of the last one")
    supervise(state, request(state, "print('no memory')"))
    assert state.record() is None
    assert state.log.read_text() == "no memory\n"
    assert state.log.with_suffix(".previous.log").read_text() == "of the last one"


def test_a_server_that_the_record_names_no_longer_is_ended_and_the_next_ones_record_stays(
    state: ServerFolder, processes: None
) -> None:
    newer = Record(Process.this(), Process.this(), 1, "newer", {})
    (state.folder / "newer").write_text(json.dumps(asdict(newer)))
    replaced = SERVING.replace("input()", REPLACED)
    supervise(state, request(state, replaced, idle_seconds=600))
    assert state.record() == newer


def test_a_start_that_failed_is_not_explained_by_the_log_of_an_earlier_server(
    state: ServerFolder, processes: None
) -> None:
    state.log.write_text("an earlier error\n")
    state.scratch.symlink_to(state.folder)  # nothing is made or deleted through a link
    with pytest.raises(EngineLost, match=r"did not start \(FileExistsError"):
        ensure_server(state.folder.parent, EngineSettings(SAIL))
