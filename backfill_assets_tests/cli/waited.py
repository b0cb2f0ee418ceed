"""A lake that seems to have a server, so that a process waits beside it and commands are forks of that.

Lives here: the lake, its own table module that tells who runs it and may hold a command up, and commands on it. Does
not live here: fixtures and tests (`test_waiting`, `test_front`).
"""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.cli.waiting import begin
from backfill_assets.engine.processes import Process
from backfill_assets.engine.server_state import Record, ServerFolder
from backfill_assets.engine.waiting_place import WaitingPlace
from backfill_assets_tests.operations.synthetic import synthetic_lake
from backfill_assets_tests.processes import OF_TESTS, as_a_user, as_in_a_terminal, until

HELD = "BACKFILL_ASSETS_TEST_HELD"
OPEN = "BACKFILL_ASSETS_TEST_OPEN"
# Tells its process and that one's parent, and waits where a file says so.
OWN = """
import os, sys, time
print("own tables of", os.getpid(), os.getppid(), file=sys.stderr, flush=True)
if os.environ.get("BACKFILL_ASSETS_TEST_HELD"):
    while True:  # a signal that comes just before a sleep does not end it
        time.sleep(0.1)
if os.environ.get("BACKFILL_ASSETS_TEST_OPEN"):
    os.write(int(os.environ["BACKFILL_ASSETS_TEST_OPEN"]), b"written")
from backfill_assets import tables
"""
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class WaitedLake:
    """A lake and what is typed for it."""

    root: Path

    @property
    def place(self) -> WaitingPlace:
        return WaitingPlace.of(self.root)

    def has_server(self) -> None:
        """This process stands in for the server and its supervisor."""
        state = ServerFolder.of(self.root)
        state.make()
        state.write_record(Record(Process.this(), Process.this(), 1, "", {}))

    def wait(self) -> int:
        """See that a process waits; gives it."""
        if self.place.pid() is None:  # one that was killed leaves its socket
            self.place.socket.unlink(missing_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            for name in OF_TESTS:
                patch.delenv(name, raising=False)
            begin(self.root)
        until(self.place.socket.exists, self.root / "lake.toml", PATIENCE_SECONDS)
        pid = self.place.pid()
        assert pid is not None
        return pid

    def end(self) -> None:
        """The server is gone; so is who waits beside it."""
        ServerFolder.of(self.root).remove_record()
        until(lambda: self.place.pid() is None, self.root / "lake.toml", PATIENCE_SECONDS)

    def start(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> "subprocess.Popen[str]":
        """A command on the lake, begun as a person begins it."""
        inherited = as_a_user()
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        command = [sys.executable, "-m", "backfill_assets", "--lake", str(self.root), *words]
        with as_in_a_terminal():
            return subprocess.Popen(command, env={**inherited, **(env or {})}, text=True, **streams)

    def run(self, *words: str, **more: Any) -> "subprocess.CompletedProcess[str]":
        """The same, ended."""
        with self.start(*words, **more) as process:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def held(self, env: Mapping[str, str] | None = None) -> tuple["subprocess.Popen[str]", int, int]:
        """A command that does not end by itself, the process in which it works, and that one's parent."""
        process = self.start("status", env={HELD: "1", **(env or {})})
        return process, *told(process.stderr.readline() if process.stderr else "")


def told(stderr: str) -> tuple[int, int]:
    """The process that imported the own tables, and its parent."""
    *_, own, parent = next(line for line in stderr.splitlines() if line.startswith("own tables of")).split()
    return int(own), int(parent)


def waited_lake(root: Path) -> WaitedLake:
    """A lake of three days with a table module of its own, and a server that is none."""
    synthetic_lake(root, 3)
    (root / "own.py").write_text(OWN)
    with (root / "lake.toml").open("a") as settings:
        settings.write('\n[pipeline]\ntables = "own.py:tables"\n')
    made = WaitedLake(root)
    made.has_server()
    return made
