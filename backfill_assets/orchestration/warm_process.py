"""The process that has imported what a run imports, and forks one that goes on as each run: `python -m` this.

Lives here: what is imported before, and how a fork becomes a run. Does not live here: who begins this process and asks
it for runs (`warm_starts`). It reads no lake and imports nothing of a user's: tables, settings and secrets are read by
each run anew. It has one thread, opens no connection, and ends when nobody can ask any more and its runs have ended.
"""

import atexit
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
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

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
    "_RJEM_MALLOC_CONF": "background_thread:false",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
NUMBER = struct.Struct("i")  # a process's, then how it ended as `waitpid` tells it
ASK, GO = b"ask", b"go"
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def serve(door: socket.socket) -> tuple[dict[str, Any], socket.socket]:
    """Fork for each request that comes through the door: a line, and a file of what is asked, which may be of any size.

    On the line the process is told, and its end. Returns in forks alone: what was asked, and the line, on which the
    fork waits for leave to go on.
    """
    lines: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor that tells of its end: a process, its line
    asking = True
    while asking or lines:
        for found in select.select([*([door.fileno()] if asking else []), *lines], [], [])[0]:
            if found in lines:
                pid, line = lines.pop(found)
                _tell(line, os.waitpid(pid, 0)[1])
                line.close()
                os.close(found)
                continue
            _, descriptors, _, _ = socket.recv_fds(door, len(ASK), 2)
            if not descriptors:
                asking = False
                continue
            line, asked = socket.socket(fileno=descriptors[0]), descriptors[1]
            signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)  # of a fork that could not answer them yet
            pid = os.fork()
            if not pid:
                _close(door, lines)
                with os.fdopen(asked, encoding="utf-8") as words:
                    return json.load(words), line
            os.close(asked)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
            lines[os.pidfd_open(pid)] = pid, line
            _tell(line, pid)
    os._exit(0)


def _tell(line: socket.socket, number: int) -> None:
    with suppress(OSError):  # who asked is gone
        line.send(NUMBER.pack(number))


def _close(door: socket.socket, lines: dict[int, tuple[int, socket.socket]]) -> None:
    """Let go in a fork of what belongs to the process that serves."""
    door.close()
    for told, (_, line) in lines.items():
        os.close(told)
        line.close()


def _become(asked: dict[str, Any]) -> None:
    """Take on what a new interpreter has from who starts it."""
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv[:] = ["dagster", *asked["words"]]
    random.seed()
    if numpy := sys.modules.get("numpy.random"):
        numpy.seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _import_all() -> None:
    """What runs import, so that it is shared by all of them; refuses threads, which forks would not have."""
    from backfill_assets.core.garbage import collect_seldom

    collect_seldom()
    for room in ROOMS:
        found = importlib.import_module(f"backfill_assets.{room}")
        for module in pkgutil.iter_modules(found.__path__, f"{found.__name__}."):
            importlib.import_module(module.name)
    from backfill_assets.orchestration.dagster_private_launch import IMPORTED_BY_RUNS

    for name in (*LIBRARIES, *IMPORTED_BY_RUNS):
        importlib.import_module(name)
    threads = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    if len(threads) > 1:
        sys.exit(f"An import began threads, which forks do not have: {threads}. Runs are started one by one.")
    gc.collect()
    gc.freeze()


def main() -> None:
    """Import, then serve; a fork goes on here as `python -m dagster` with the words that were asked for."""
    code = [1]  # of an exception that nobody catches: the interpreter prints it, then calls what is registered
    atexit.register(_leave, code)  # before anything else is, and so the last
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, whose end of the door closes, too
    door = socket.socket(fileno=int(sys.argv[1]))
    _import_all()
    from backfill_assets.orchestration.dagster_private_launch import held_back

    asked, line = serve(door)
    _become(asked)
    with held_back():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        if line.recv(len(GO)) != GO:
            os._exit(0)  # nobody knows of this process: the run was given to another one, or is not any more
        line.close()
        try:
            runpy.run_module("dagster", run_name="__main__", alter_sys=True)
            code[0] = 0
        except SystemExit as end:
            code[0] = end.code if isinstance(end.code, int) else bool(end.code)
            raise


def _leave(code: list[int]) -> NoReturn:
    """The end of a run, when its threads have ended and all else that is registered was called: nothing is taken apart,
    which costs more than a step."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code[0])


if __name__ == "__main__":
    main()
