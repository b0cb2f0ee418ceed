"""The process beside a lake's server: it starts the server, watches it, and stops it once it is idle.

Not here: the request (`server` sends it) and the clients (each holds a shared lock on `in_use`). Imports neither
pyspark nor Dagster: it stays resident, so it stays small. `server.ensure_server` starts it, never a person.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from backfill_assets.core.ownership import open_unlinked
from backfill_assets.engine.processes import Process
from backfill_assets.engine.server_state import Record, ServerFolder, ServerRequest, take

POLL_SECONDS = 0.25
START_TIMEOUT_SECONDS = 180.0  # 7 s on an idle machine, 30 s seen under load; beyond this it hangs
STOP_GRACE_SECONDS = 5.0
# One of these words is in the command line of every server.
PROGRAMS = frozenset({"org.apache.spark.sql.connect.service.SparkConnectServer", "backfill_assets.engine.sail_process"})
_LISTENING = re.compile(r"Spark Connect server started at: \S*?:(\d+)")


class StopAsked(Exception):
    """SIGTERM: the supervisor is to stop."""


def supervise(state: ServerFolder, request: ServerRequest) -> None:
    """Start the server, and return once it is gone: it died, or it was idle, or the record no longer names it.

    When it was idle, this process holds the clients' lock until it ends, so that new clients wait for the stop.
    """
    child = _started(state, request)
    process = Process.of(child.pid) or Process(child.pid, 0.0)
    record = Record(process, Process.this(), 0, request.token, request.identity, request.socket)
    try:
        with suppress(StopAsked):
            state.write_record(record)
            if port := _port(state, request, child):
                record = replace(record, port=port)
                state.write_record(record)
                _watch(state, record, child, request.idle_seconds)
    finally:
        _stop(state, record, child)


def _started(state: ServerFolder, request: ServerRequest) -> "subprocess.Popen[bytes]":
    shutil.rmtree(state.scratch, ignore_errors=True)
    state.scratch.mkdir(mode=0o700)
    if state.log.exists():
        state.log.replace(state.log.with_suffix(".previous.log"))
    with os.fdopen(open_unlinked(state.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as log:
        return subprocess.Popen(
            request.command, cwd=state.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )


def _port(state: ServerFolder, request: ServerRequest, child: "subprocess.Popen[bytes]") -> int | None:
    """The port at which the server listens, None if it does not within `START_TIMEOUT_SECONDS`; the file with its token
    is gone afterwards."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    try:
        while time.monotonic() < deadline and child.poll() is None:
            if found := _LISTENING.search(state.log.read_text(encoding="utf-8", errors="replace")):
                return int(found[1])
            time.sleep(POLL_SECONDS / 5)
        return None
    finally:
        if request.properties:
            (state.folder / request.properties).unlink(missing_ok=True)


def _watch(state: ServerFolder, record: Record, child: "subprocess.Popen[bytes]", idle_seconds: float) -> None:
    file = state.open_in_use()
    free_since: float | None = None
    while child.poll() is None and state.record() == record:
        if take(file):
            free_since = free_since or time.monotonic()
            if time.monotonic() - free_since >= idle_seconds:
                return
            fcntl.flock(file, fcntl.LOCK_UN)
        else:
            free_since = None
        time.sleep(POLL_SECONDS)


def _stop(state: ServerFolder, record: Record, child: "subprocess.Popen[bytes]") -> None:
    """End the server, and remove its record unless that names another one by now."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child.terminate()
    try:
        child.wait(STOP_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    shutil.rmtree(state.scratch, ignore_errors=True)
    current = state.record()
    if current is not None and current.process == record.process:
        state.remove_record()


def _on_terminate(_signal: int, _frame: FrameType | None) -> None:
    raise StopAsked


def main(lake: str) -> None:
    """Supervise the server of `lake` that standard input describes, until it ends."""
    signal.signal(signal.SIGTERM, _on_terminate)
    supervise(ServerFolder.of(Path(lake)), ServerRequest(**json.load(sys.stdin)))


if __name__ == "__main__":
    main(sys.argv[1])
