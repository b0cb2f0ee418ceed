"""The process that has imported what commands import, and forks one that goes on as each command
that tests start.

Lives here: what is imported before, and how a fork becomes the command: environment, folder, words,
streams. Does not live here: who asks (`starting`), which starts it as `python -m` this, once in
each process of pytest. A command begins with all that it imports, two seconds of a processor, and
ends without taking it apart, which is one more; besides it is as one that an interpreter was
started for, but that all forks put sets in one order, another one in each run.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

# Not `backfill_assets.definitions`, which reads the lake that the environment names.
IMPORTED = (
    "backfill_assets.cli.app",
    "backfill_assets.cli.dagster_home",
    "backfill_assets.cli.runner",
    "backfill_assets.engines.lake_session",
    "backfill_assets.plans.run",
    "backfill_assets.dagster.adapter.assemble",
    "dagster_graphql",
    "deltalake",
    "duckdb",
    "pandas",
    "pyspark.sql.connect.session",
)
# A fork has one thread: libraries that begin some when they are imported are told not to.
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "_RJEM_MALLOC_CONF": "background_thread:false",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
STATUS = struct.Struct("i")
MOST_BYTES = 1 << 20
MOST_OPEN = 1024
ROOM_FOR_WORDS = 4096  # of a command line, as `ps` shows it


def serve(door: socket.socket) -> Callable[[], None]:
    """Fork for each request that comes through the door, and report each pid and, later, how it
    ended.

    Returns in forks alone, with what the fork has to do; ends the process when nobody can ask any
    more.
    """
    reports: dict[
        int, tuple[int, int]
    ] = {}  # by the descriptor that tells of its end: a process and who hears of it
    while True:
        try:
            ready, _, _ = select.select([door.fileno(), *reports], [], [])
        except KeyboardInterrupt:  # of a terminal: it is meant for who asks, too
            os._exit(-signal.SIGINT)
        for told in ready:
            if told in reports:
                pid, report = reports.pop(told)
                _say(report, os.waitpid(pid, 0)[1])
                os.close(report)
                os.close(told)
                continue
            message, descriptors, _, _ = socket.recv_fds(door, MOST_BYTES, 4)
            if not message:
                os._exit(0)
            *streams, report = descriptors
            pid = os.fork()
            if not pid:
                door.detach()
                return _become(json.loads(message), streams)
            for stream in streams:
                os.close(stream)
            _say(report, pid)
            reports[os.pidfd_open(pid)] = pid, report


def _say(report: int, number: int) -> None:
    with suppress(BrokenPipeError):
        os.write(report, STATUS.pack(number))


def _become(asked: dict[str, Any], streams: list[int]) -> Callable[[], None]:
    """Take on what a new interpreter has from who starts it; gives what it does then."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, MOST_OPEN)
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    os.umask(asked["umask"])
    if asked["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _, kind, what, *words = asked["args"]
    named = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:0] = ["" if kind == "-c" else asked["cwd"], *named]
    sys.argv[:] = [kind, *words]
    sys.orig_argv[:] = asked["args"]
    _show(asked["args"])
    return partial(_run_module if kind == "-m" else _run_code, what)


def _show(words: list[str]) -> None:
    """Write the command over the command line of this process, where others look for it."""
    first, last = (
        int(word) for word in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47]
    )
    text = b"".join(os.fsencode(word) + b"\0" for word in words)[: last - first - 1]
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(first)
        memory.write(text.ljust(last - first, b"\0"))


def _run_module(name: str) -> None:
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_code(code: str) -> None:
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    exec(compile(code, "<string>", "exec"), module.__dict__)  # noqa: S102  # what `python -c` does


def main() -> None:
    """Import, then serve; a fork goes on here, and ends as an interpreter does."""
    code = [
        1
    ]  # of an exception that nobody catches: the interpreter prints it, then calls what is registered
    atexit.register(_leave, code)  # before anything else is, and so the last
    door = socket.socket(fileno=int(sys.argv[1]))
    before = list(sys.path)
    for name in IMPORTED:
        importlib.import_module(name)
    assert sys.path == before, "an import changed where modules are looked for"
    threads = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    assert len(threads) == 1, f"an import began threads, which a fork does not have: {threads}"
    del sys.path[0]
    gc.freeze()
    run = serve(door)
    try:
        run()
        code[0] = 0
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        code[0] = end.code or 0
    except KeyboardInterrupt:
        code[0] = -signal.SIGINT
        raise


def _leave(code: list[int]) -> None:
    """The end of a fork, when its threads have ended and all else that is registered was called."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if code[0] == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code[0])


if __name__ == "__main__":
    main()
