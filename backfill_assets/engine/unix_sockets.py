"""Unix sockets below a lake's folder, whatever the length of its path: the system takes 107 bytes of one.

Lives here: the address by which one is reached, and whether anybody answers there. Does not live here: who listens
(`sail_process`) and what is said (`channel`).
"""

import os
import socket
from pathlib import Path

LONGEST_BYTES = 100  # of an address; Linux takes 107, macOS 103


class UnixAddress:
    """The address of the socket at `path`; of a long path it goes through an open folder, for as long as this lives."""

    def __init__(self, path: Path) -> None:
        self._folder = -1
        self.text = str(path)
        if len(os.fsencode(path)) > LONGEST_BYTES:
            self._folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self.text = f"/proc/self/fd/{self._folder}/{path.name}"

    def close(self) -> None:
        """Let go of the folder. Harmless when repeated."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


def accepts(path: Path, timeout_seconds: float) -> bool:
    """Whether somebody accepts connections at the socket; raises OSError where nobody does."""
    address = UnixAddress(path)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(timeout_seconds)
            probe.connect(address.text)
            return True
    finally:
        address.close()
