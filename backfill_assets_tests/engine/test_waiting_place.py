"""Where a process waits for commands: one at a time, known to others, and none where that was switched off.

Tested here: `engine.waiting_place`. Not tested here: the process (`cli.test_waiting`).
"""

import fcntl
import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from backfill_assets.engine.waiting_place import OFF, WaitingPlace, is_own, is_possible

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are forks on Linux only")


def test_only_one_waits_and_others_know_which(tmp_path: Path) -> None:
    place = WaitingPlace.of(tmp_path)
    assert place.pid() is None
    place.folder.mkdir()
    file = place.take()
    assert file is not None
    assert place.take() is None
    assert place.pid() == os.getpid()
    os.close(file)
    assert place.pid() is None


def test_who_only_asks_for_the_pid_keeps_nobody_from_waiting(tmp_path: Path) -> None:
    place = WaitingPlace.of(tmp_path)
    place.folder.mkdir()
    asking = os.open(place.folder / "commands.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(asking, fcntl.LOCK_SH)
    done = threading.Timer(0.02, os.close, [asking])
    done.start()
    file = place.take()
    done.join()
    assert file is not None
    os.close(file)


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OFF, "off")
    assert not is_possible()
    monkeypatch.delenv(OFF)
    assert is_possible()


def test_a_line_to_this_user_is_own_and_one_to_another_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert is_own(ours)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert not is_own(ours)
