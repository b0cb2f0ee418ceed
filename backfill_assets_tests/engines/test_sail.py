"""What starts a Sail server: its size, its identity, and the refusals. Does not test here: its life
(`test_launch`)."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from backfill_assets.engines import sail
from backfill_assets.engines.confs import EngineSettings
from backfill_assets.engines.sail import OPEN_PORT, SOCKET, forward_socket
from backfill_assets.engines.supervisor import ServerFolder
from backfill_assets.kernel.core.engines import SAIL
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.process import environment_with_package

SETTINGS = EngineSettings(SAIL, memory="1g", cores=3, idle_minutes=2)
LISTEN = """
import socket, sys
from backfill_assets.engines.sail import start_loopback
start_loopback()
inside = socket.create_server(("127.0.0.1", 0))
socket.create_connection(inside.getsockname()).close()
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2)
    print("the machine's network is still there")
except OSError:
    print("apart")
"""


def test_a_machine_without_private_networks_gets_no_open_server_unless_it_is_allowed(
    tmp_path: Path,
) -> None:
    state, engine = ServerFolder.of(tmp_path), sail.Sail(lambda: "Operation not permitted")
    with pytest.raises(
        SettingsError, match=r"Operation not permitted.*every user of the machine.*open_port = true"
    ):
        engine.request(state, SETTINGS)
    allowed = EngineSettings(SAIL, open_port=True)
    assert OPEN_PORT in engine.request(state, allowed).command


def test_what_is_not_installed_is_named_with_the_way_to_install_it() -> None:
    with pytest.raises(
        SettingsError, match=r"not installed.*pip install 'backfill-assets\[sail\]'"
    ):
        sail.refuse_absent("pysail_of_no_machine")


def test_sparks_configuration_is_refused_and_not_ignored() -> None:
    with pytest.raises(SettingsError, match=r"spark\.sql\.shuffle\.partitions.*does not heed"):
        sail.Sail().identity(EngineSettings(SAIL, confs={"spark.sql.shuffle.partitions": "3"}))


@pytest.mark.usefixtures("processes")
def test_the_command_runs_in_a_network_whose_loopback_works_and_is_no_other_programs() -> None:
    command, why = sail.isolation_command()
    if why:
        pytest.skip(why)
    with socket.create_server(("127.0.0.1", 0)) as outside:
        words = [*command, sys.executable, "-c", LISTEN, str(outside.getsockname()[1])]
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            env=environment_with_package(os.environ),
        )
    assert done.stdout.strip() == "apart", done.stderr


@pytest.mark.usefixtures("processes")
def test_a_machine_that_refuses_says_why_and_the_next_way_is_tried() -> None:
    refusing = ("sh", "-c", "echo Operation not permitted >&2; exit 1")
    assert sail.isolation_command([refusing]) == ((), "Operation not permitted")
    assert sail.isolation_command([refusing, ("env",)]) == (("env",), "")
    assert sail.isolation_command([("no_such_program",)]) == (
        (),
        "the program no_such_program is not installed",
    )


@pytest.mark.slow
def test_what_is_said_at_the_owners_socket_is_heard_and_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(SOCKET).touch()  # of a server that was killed
    running, listens = threading.Event(), threading.Event()
    running.set()

    def is_running() -> bool:
        listens.set()
        return running.is_set()

    before = os.umask(0)
    with socket.create_server(("127.0.0.1", 0)) as inner:
        thread = threading.Thread(
            target=lambda: asyncio.run(forward_socket(inner.getsockname(), is_running))
        )
        thread.start()
        listens.wait()
        os.umask(before)
        assert stat.S_IMODE(Path(SOCKET).stat().st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(SOCKET)
            client.sendall(b"asked")
            heard, _ = inner.accept()
            with heard:
                assert heard.recv(5) == b"asked"
                heard.sendall(b"answered")
            assert client.recv(8) == b"answered"
            assert client.recv(1) == b"", "the end of one side is the end of the other"
        running.clear()
        thread.join()
