"""The process that has imported what a run imports, and forks one that goes on as each run: `python -m` this.

Lives here: what is imported before, forking, and how a fork becomes a run; most of it serves the process that waits for
commands, too (`cli.waiting`). Does not live here: who begins this process and asks it for runs (`warm_starts`). It
reads no lake and imports nothing of a user's: tables, settings and secrets are read by each run anew. It has one
thread, opens no connection, and ends when nobody can ask any more and its runs have ended.
"""

import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backfill_assets.core.garbage import ALLOCATORS, collect_seldom
from backfill_assets.engine.waiting_place import ASK, GO, NUMBER
from backfill_assets.orchestration.leaving import ends_at_once

# Rooms of this package, all of their modules. Not `definitions`, which reads the lake and the tables of its owner.
ROOMS = ("core", "engine", "landing", "lake", "load", "operations", "orchestration", "pipeline", "pipeline.transforms")
LIBRARIES = (  # what those modules import when they work
    "deltalake",
    "duckdb",
    "grpc._channel",
    "pandas",
    "pyspark.sql.connect.session",
    "sqlglot.generators.duckdb",
    "sqlglot.parsers.duckdb",
    "upath.implementations.local",
)
# A fork has one thread: libraries that begin some when they are imported are told not to.
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    **ALLOCATORS,
}
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Forks:
    """The processes that were forked here and live: by the descriptor that tells of its end, a process and its line."""

    lines: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    apart: bool = False  # each in a process group of its own

    def begin(self, line: socket.socket) -> bool:
        """Fork. True in the fork, which hears no interrupts yet; on the line its number is told, with a descriptor of
        it, and later how it ended."""
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)  # of a fork that could not answer them yet
        pid = os.fork()
        if self.apart:
            with suppress(ProcessLookupError):
                os.setpgid(pid, pid)
        if not pid:
            for told, (_, other) in self.lines.items():
                os.close(told)
                other.close()
            return True
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        told = os.pidfd_open(pid)
        self.lines[told] = pid, line
        with suppress(OSError):  # who asked is gone
            socket.send_fds(line, [NUMBER.pack(pid)], [told])
        return False

    def end(self, told: int) -> None:
        """Tell how a process has ended, of which this descriptor told."""
        pid, line = self.lines.pop(told)
        ended = os.waitpid(pid, 0)[1]
        with line, suppress(OSError):
            line.send(NUMBER.pack(ended))
        os.close(told)


def serve(door: socket.socket) -> tuple[dict[str, Any], socket.socket]:
    """Fork for each request that comes through the door: a line, and a file of what is asked, which may be of any size.

    On the line the process is told, and its end. Returns in forks alone: what was asked, and the line, on which the
    fork waits for leave to go on.
    """
    forks, asking = Forks(), True
    while asking or forks.lines:
        for found in select.select([*([door.fileno()] if asking else []), *forks.lines], [], [])[0]:
            if found in forks.lines:
                forks.end(found)
                continue
            _, descriptors, _, _ = socket.recv_fds(door, len(ASK), 2)
            if not descriptors:
                asking = False
                continue
            line, asked = socket.socket(fileno=descriptors[0]), descriptors[1]
            if forks.begin(line):
                door.close()
                return read_asked(asked), line
            os.close(asked)
    os._exit(0)


def read_asked(descriptor: int) -> dict[str, Any]:
    """What a file without a name says that came with a request; it is closed."""
    with os.fdopen(descriptor, encoding="utf-8") as words:
        asked: dict[str, Any] = json.load(words)
        return asked


def become(asked: dict[str, Any], words: list[str]) -> None:
    """Take on what a new interpreter has from who starts it, with these words as its own."""
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv[:] = words
    random.seed()
    if numpy := sys.modules.get("numpy.random"):
        numpy.seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def go_on(line: socket.socket) -> bool:
    """Whether leave came to go on; else nobody knows of this process: what was asked is done by another, or by none."""
    return line.recv(len(GO)) == GO


def import_all(rooms: Sequence[str] = ROOMS) -> None:
    """What forks import, and read of the package's code, so that it is shared by all of them; refuses threads, which
    forks would not have."""
    collect_seldom()
    for room in rooms:
        found = importlib.import_module(f"backfill_assets.{room}")
        for module in pkgutil.iter_modules(found.__path__, f"{found.__name__}."):
            importlib.import_module(module.name)
    from backfill_assets.orchestration.dagster_private_launch import IMPORTED_BY_RUNS

    for name in (*LIBRARIES, *IMPORTED_BY_RUNS):
        importlib.import_module(name)
    threads = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    if len(threads) > 1:
        sys.exit(f"An import began threads, which forks do not have: {threads}. Forks of it are no good.")
    gc.collect()
    gc.freeze()


def main() -> None:
    """Import, then serve; a fork goes on here as `python -m dagster` with the words that were asked for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, whose end of the door closes, too
    door = socket.socket(fileno=int(sys.argv[1]))
    import_all()
    from backfill_assets.orchestration.dagster_private_launch import held_back

    asked, line = serve(door)
    become(asked, ["dagster", *asked["words"]])
    with held_back():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        if not go_on(line):
            os._exit(0)
        line.close()
        runpy.run_module("dagster", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    with ends_at_once():
        main()
