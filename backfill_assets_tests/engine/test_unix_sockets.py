"""Sockets below long paths: reached all the same. Lives here: the address. Does not live here: what is said there."""

import os
import socket
from pathlib import Path

import pytest

from backfill_assets.engine.unix_sockets import LONGEST_BYTES, UnixAddress, accepts


@pytest.mark.parametrize("name", ["short", "long" * 30])
def test_a_socket_is_reached_however_long_its_path_is(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("it.sock")
        listener.listen()
        assert accepts(folder / "it.sock", 2.0)
    with pytest.raises(OSError, match="refused"):
        accepts(folder / "it.sock", 2.0)


def test_an_address_lets_go_of_its_folder(tmp_path: Path) -> None:
    address = UnixAddress(tmp_path / ("x" * LONGEST_BYTES))
    descriptor = int(address.text.split("/")[4])
    os.fstat(descriptor)
    address.close()
    address.close()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)
