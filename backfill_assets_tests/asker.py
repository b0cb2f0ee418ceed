"""The program that stands for `backfill-assets` in a shell whose commands are forks: it asks the
starter for one with its own words, streams, folder and environment, and ends as that one ends.

Lives here: the program, which imports what takes milliseconds, and its file on a PATH. Does not
live here: the forks (`starter`) and how a test starts one itself (`starting`). A signal that it
gets reaches no fork: steps that kill a command start real ones.
"""

import json
import os
import shlex
import socket
import struct
import sys
from pathlib import Path

STATUS = struct.Struct("i")  # as in `starter`, of which this program knows nothing else
KILLED_BY = 128  # and the signal: how a shell tells it


def put_on_path(folder: Path, door: int) -> Path:
    """The folder, made, with the program `backfill-assets`, which asks through this descriptor."""
    folder.mkdir()
    program = folder / "backfill-assets"
    words = shlex.join([sys.executable, "-I", "-S", __file__, str(door)])
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    return folder


def ask(door: int, words: list[str]) -> int:
    """The exit code of the command with these words, as a shell tells it."""
    heard, report = os.pipe()
    os.umask(umask := os.umask(0o077))
    asked = {
        "args": [sys.executable, "-m", "backfill_assets", *words],
        "cwd": os.fspath(Path.cwd()),
        "env": dict(os.environ),
        "session": False,
        "umask": umask,
    }
    starter = socket.socket(fileno=door)
    socket.send_fds(starter, [json.dumps(asked).encode()], [0, 1, 2, report])
    os.close(report)
    for descriptor in (0, 1):  # a pipe ends with the fork, not with this process
        os.close(descriptor)
    told = os.read(heard, STATUS.size), os.read(heard, STATUS.size)  # its pid, then how it ended
    code = os.waitstatus_to_exitcode(STATUS.unpack(told[1])[0])
    return code if code >= 0 else KILLED_BY - code


if __name__ == "__main__":
    sys.exit(ask(int(sys.argv[1]), sys.argv[2:]))
