"""The process beside a server, with a harmless program instead of a JVM: starting, idling, and
records. Not here: real servers, and supervisors that are killed (`test_server`)."""

import fcntl
import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from backfill_assets.engines.supervisor import (
    RECORD_FILE,
    Record,
    ServerFolder,
    ServerRequest,
    supervise_server,
    take_lock,
)
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.processes import Process
from backfill_assets_tests.strangers import give_away

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


def test_a_server_that_listens_is_recorded_and_ended_when_nobody_uses_it(
    state: ServerFolder, processes: None
) -> None:
    recorded = SERVING.replace("input()", RECORDED)
    supervise_server(state, request(state, recorded, idle_seconds=2))
    assert json.loads((state.folder / "seen").read_text())["token"] == "hunter2"
    assert state.record() is None
    assert "server started at" in state.log.read_text()
    assert not (state.folder / "spark.properties").exists(), (
        "the token is on disk no longer than it takes to read it"
    )
    assert not state.scratch.exists()


def test_a_server_that_ends_before_it_listens_leaves_a_log_and_no_record(
    state: ServerFolder, processes: None
) -> None:
    state.log.write_text("of the last one")
    supervise_server(state, request(state, "print('no memory')"))
    assert state.record() is None
    assert state.log.read_text() == "no memory\n"
    assert state.log.with_suffix(".previous.log").read_text() == "of the last one"


def test_a_server_that_the_record_names_no_longer_is_ended_not_the_record(
    state: ServerFolder, processes: None
) -> None:
    newer = Record(Process.this(), Process.this(), 1, "newer", {})
    (state.folder / "newer").write_text(json.dumps(asdict(newer)))
    replaced = SERVING.replace("input()", REPLACED)
    supervise_server(state, request(state, replaced, idle_seconds=600))
    assert state.record() == newer


MINE = Record(Process.this(), Process.this(), 7, "hunter2", {"memory": "1g"})


def test_a_record_is_read_as_it_was_written_and_shows_no_token(state: ServerFolder) -> None:
    assert state.record() is None
    state.write_record(MINE)
    assert state.record() == MINE
    assert "hunter2" not in repr(MINE)
    assert not replace(MINE, port=0).usable
    state.remove_record()
    assert state.record() is None


def test_neither_the_clients_lock_nor_the_folder_is_opened_through_a_link(
    state: ServerFolder, tmp_path: Path
) -> None:
    (theirs := tmp_path / "theirs").mkdir()
    theirs.chmod(0o755)
    (theirs / "file").write_text("theirs")
    for target in ("file", "absent"):
        (state.folder / "in_use").unlink(missing_ok=True)
        (state.folder / "in_use").symlink_to(theirs / target)
        with pytest.raises(OSError, match="in_use"):
            state.open_in_use()
    assert {p.name: p.read_text() for p in theirs.iterdir()} == {"file": "theirs"}
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / ".server").symlink_to(theirs)
    with pytest.raises(SettingsError, match=r"\.server: it is a link"):
        ServerFolder.of(tmp_path / "lake").make()
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o755


def test_folders_and_records_of_another_user_are_not_used(
    state: ServerFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.write_record(MINE)
    give_away(state.folder / RECORD_FILE, monkeypatch)
    assert state.record() is None
    give_away(state.folder, monkeypatch)
    with pytest.raises(SettingsError, match="whose server it is"):
        state.make()


def test_the_clients_lock_can_be_taken_only_while_nobody_shares_it(state: ServerFolder) -> None:
    client, other = state.open_in_use(), state.open_in_use()
    try:
        fcntl.flock(client, fcntl.LOCK_SH)
        assert not take_lock(other)
        fcntl.flock(client, fcntl.LOCK_UN)
        assert take_lock(other)
    finally:
        os.close(client)
        os.close(other)
