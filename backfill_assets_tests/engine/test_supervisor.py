"""The process beside a server, with a harmless program instead of a JVM: adopting, starting, idling, and records.

Tested here: `engine.supervisor` in this process. Not tested here: real servers, and supervisors that are killed
(`test_server`).
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.engine.processes import Process
from backfill_assets.engine.server_state import Record, ServerFolder, ServerRequest
from backfill_assets.engine.supervisor import PROGRAMS, Supervisor

IDENTITY = {"memory": "1g"}
NOBODY = Process(2**22 + 1, 0.0)  # beyond the greatest number that Linux gives
SERVING = """
import socket
with socket.create_server(("127.0.0.1", 0)) as door:
    print(f"Spark Connect server started at: 127.0.0.1:{door.getsockname()[1]}", flush=True)
    input()
"""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[ServerFolder]:
    """A folder; what the supervisor did to this process's SIGTERM is undone."""
    found = ServerFolder.of(tmp_path)
    found.make()
    before = signal.getsignal(signal.SIGTERM)
    yield found
    signal.signal(signal.SIGTERM, before)


def supervisor(state: ServerFolder, code: str, idle_seconds: float = 0.0) -> Supervisor:
    """One whose server is this program; its token's file lies there."""
    (state.folder / "spark.properties").write_text("spark.token hunter2")
    command = [sys.executable, "-c", code]
    return Supervisor(state, ServerRequest(command, "spark.properties", "hunter2", IDENTITY, idle_seconds))


def test_a_server_that_listens_is_recorded_and_ended_when_nobody_uses_it(state: ServerFolder, processes: None) -> None:
    made = supervisor(state, SERVING.replace("input()", "import time; time.sleep(60)"))
    made.run()
    assert made.child is not None
    assert made.child.returncode == -signal.SIGTERM
    assert state.record() is None
    assert "server started at" in state.log.read_text()
    assert not (state.folder / "spark.properties").exists(), "the token is on disk no longer than it takes to read it"
    assert not state.scratch.exists()


def test_a_server_that_ends_before_it_listens_leaves_its_log_and_no_record(
    state: ServerFolder, processes: None
) -> None:
    state.log.write_text("of the last one")
    made = supervisor(state, "print('no memory')")
    made.run()
    assert state.record() is None
    assert state.log.read_text() == "no memory\n"
    assert state.log.with_suffix(".previous.log").read_text() == "of the last one"


def test_a_server_that_lives_and_answers_is_adopted_and_one_of_other_settings_is_not(state: ServerFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        mine = supervisor(state, "")
        assert mine._adopted() is None, "nothing is recorded"
        state.write_record(Record(Process.this(), NOBODY, port, "hunter2", IDENTITY))
        adopted = mine._adopted()
        assert adopted is not None
        assert (adopted.jvm, adopted.supervisor, adopted.port) == (Process.this(), Process.this(), port)
        assert state.record() == adopted
        state.write_record(Record(NOBODY, NOBODY, port, "hunter2", {"memory": "2g"}))
        assert mine._adopted() is None
        assert state.record() is None, "it is ended, and forgotten"


def test_a_server_that_the_record_names_no_longer_is_left_alone_by_the_record_of_the_next(
    state: ServerFolder,
) -> None:
    newer = Record(Process.this(), Process.this(), 1, "hunter2", IDENTITY)
    state.write_record(newer)
    supervisor(state, "")._watch(Record(Process.this(), NOBODY, 2, "older", IDENTITY))  # returns at once
    supervisor(state, "")._stop(Record(NOBODY, NOBODY, 2, "older", IDENTITY))
    assert state.record() == newer
    assert os.getpid() == newer.jvm.pid


def test_a_server_of_the_lake_that_no_record_names_is_ended_before_another_is_started(
    state: ServerFolder, tmp_path: Path, processes: None
) -> None:
    sleeping, word = (sys.executable, "-c", "import time; time.sleep(60)"), min(PROGRAMS)
    lost, of_another_lake, no_server = began = [
        subprocess.Popen((*sleeping, *words), cwd=folder)
        for words, folder in (((word,), state.folder), ((word,), tmp_path), ((), state.folder))
    ]
    try:
        supervisor(state, "print('no memory')").run()
        assert lost.poll() == -signal.SIGTERM
        assert (of_another_lake.poll(), no_server.poll()) == (None, None)
    finally:
        for process in began:
            process.kill()
            process.wait()
