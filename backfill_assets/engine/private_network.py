"""A network that this process has for itself: its loopback is another one than everybody else's on the machine.

Lives here: entering it (Linux: a network namespace, in a user namespace of its own where that needs one), and asking
whether the machine allows it. Does not live here: what listens there (`sail_process`). Standard library only, and run
as a program it only tries: `python private_network.py`.
"""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # CLONE_NEWUSER, CLONE_NEWNET of linux/sched.h
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
_REQUEST = "16sh14x"  # struct ifreq with its flags
_TRY_TIMEOUT_SECONDS = 30.0


def enter() -> None:
    """Leave the machine's network for one of this process's own, with nothing but a loopback; raises OSError.

    The process must have one thread only. Files and their owners stay what they are.
    """
    user, group = os.getuid(), os.getgid()
    try:
        _unshare(_NEW_NETWORK)  # a process that may keeps all its rights
    except OSError:
        _unshare(_NEW_USER | _NEW_NETWORK)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack(_REQUEST, b"lo", 0)
        _, flags = struct.unpack(_REQUEST, fcntl.ioctl(any_socket, _GET_FLAGS, asked))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack(_REQUEST, b"lo", flags | _UP))


def _unshare(what: int) -> None:
    try:
        unshare = ctypes.CDLL(None, use_errno=True).unshare
    except AttributeError:
        raise OSError("this system has no network namespaces") from None
    if unshare(what) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def why_not(program: str = __file__) -> str:
    """Why this user cannot have a private network on this machine; empty where it can. Tried in a process apart."""
    command = [sys.executable, "-I", program]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=_TRY_TIMEOUT_SECONDS, check=False)
    lines = tried.stderr.strip().splitlines()
    return "" if tried.returncode == 0 else lines[-1] if lines else "it could not be tried"


if __name__ == "__main__":
    enter()
