"""The way into a Sail server: a socket that carries both ways. Does not test here: Sail itself (`test_launch`)."""

import asyncio
import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from backfill_assets.engine.sail_process import SOCKET, forward


def test_what_is_said_at_the_socket_of_the_owner_is_heard_behind_it_and_answered(
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
        thread = threading.Thread(target=lambda: asyncio.run(forward(inner.getsockname(), is_running)))
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
