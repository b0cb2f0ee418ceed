"""What is known of a server between processes: a private folder, a record that may be damaged, locks of the kernel.

Tested here: `engine.server_state` with harmless processes. Not tested here: servers (`test_server`).
"""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.engine.processes import Process, end
from backfill_assets.engine.server import server_status
from backfill_assets.engine.server_state import Record, ServerFolder, ServerRequest, take
from backfill_assets_tests.engine.test_processes import step_the_clock


@pytest.fixture
def folder(tmp_path: Path) -> ServerFolder:
    found = ServerFolder.of(tmp_path)
    found.make()
    return found


@pytest.fixture
def sleeper() -> Iterator[Process]:
    """A process that waits for its end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = Process.of(process.pid)
        assert found is not None
        yield found
        process.kill()


def me() -> Process:
    found = Process.of(os.getpid())
    assert found is not None
    return found


def test_the_folder_and_its_files_are_their_owners_alone(folder: ServerFolder) -> None:
    folder.write_private(folder.folder / "token", "secret")
    assert stat.S_IMODE(folder.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder.folder / "token").stat().st_mode) == 0o600
    assert [p.name for p in folder.folder.iterdir()] == ["token"]


def test_a_record_is_read_as_it_was_written_and_shows_no_token(folder: ServerFolder) -> None:
    record = Record(me(), me(), 7, "hunter2", {"memory": "1g"})
    assert folder.record() is None
    folder.write_record(record)
    assert folder.record() == record
    assert "hunter2" not in repr(record)
    folder.close_record(record)
    assert folder.record() == replace(record, port=0)
    assert not replace(record, port=0).usable
    folder.remove_record()
    assert folder.record() is None


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_step_of_the_clock_changes_nothing_about_a_server(
    folder: ServerFolder, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        folder.write_record(Record(me(), me(), door.getsockname()[1], "hunter2", {}))
        step_the_clock(seconds, monkeypatch)
        record = folder.record()
        assert record is not None
        assert (record.usable, record.jvm == me()) == (True, True)
        assert server_status(folder.folder.parent) is not None


def test_what_a_supervisor_is_told_survives_and_shows_neither_token_nor_command(folder: ServerFolder) -> None:
    request = ServerRequest(["java", "-Dsecret"], "server-1.properties", "hunter2", {}, 600.0)
    folder.write_request(request)
    assert folder.request() == request
    assert "hunter2" not in repr(request)
    assert "-Dsecret" not in repr(request)


def test_a_process_of_the_same_number_that_began_at_another_time_is_another_one() -> None:
    assert me().is_alive()
    assert not replace(me(), created=me().created - 60).is_alive()


@pytest.mark.usefixtures("processes")
def test_a_process_is_ended_and_ending_it_again_does_nothing(sleeper: Process) -> None:
    end(sleeper, 10)
    assert not sleeper.is_alive()
    end(sleeper, 10)


def test_the_clients_lock_can_be_taken_only_while_nobody_shares_it(folder: ServerFolder) -> None:
    import fcntl

    client, other = folder.open_in_use(), folder.open_in_use()
    try:
        fcntl.flock(client, fcntl.LOCK_SH)
        assert not take(other)
        fcntl.flock(client, fcntl.LOCK_UN)
        assert take(other)
    finally:
        os.close(client)
        os.close(other)
