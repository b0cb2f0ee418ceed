"""The process beside a lake's server: it starts the JVM, watches it, and stops it once it is idle.

Not here: the request (`server` writes it) and the clients (each holds a shared lock on `in_use`). Imports neither
pyspark nor Dagster: it stays resident, so it stays small. `server.ensure_server` starts it, never a person.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from backfill_assets.core.ownership import open_unlinked
from backfill_assets.engine.processes import Process, end, end_in
from backfill_assets.engine.server_state import Record, ServerFolder, ServerRequest, take

POLL_SECONDS = 0.25
START_TIMEOUT_SECONDS = 180.0  # 7 s on an idle machine, 30 s seen under load; beyond this it hangs
STOP_GRACE_SECONDS = 5.0
# One of these words is in the command line of every server.
PROGRAMS = frozenset({"org.apache.spark.sql.connect.service.SparkConnectServer", "backfill_assets.engine.sail_process"})
_LISTENING = re.compile(r"Spark Connect server started at: \S*?:(\d+)")


class StopAsked(Exception):
    """SIGTERM: the supervisor is to stop."""


@dataclass
class Supervisor:
    """Watches the JVM of `state` according to `request`; owns the record for as long as it holds its lock."""

    state: ServerFolder
    request: ServerRequest
    child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Adopt the recorded JVM or start one, and return when it is gone."""
        record = self._adopted() or self._started()
        if record is None:
            return
        try:
            with suppress(StopAsked):
                self._watch(record)
        finally:
            self._stop(record)

    def _adopted(self) -> Record | None:
        """Take over the JVM of a killed supervisor if it fits the request; else end it and return None."""
        record = self.state.record()
        if record is None:
            return None
        if record.usable and record.identity == self.request.identity:
            mine = replace(record, supervisor=Process.this())
            self.state.write_record(mine)
            return mine
        end(record.jvm, STOP_GRACE_SECONDS, PROGRAMS)
        self.state.remove_record()
        return None

    def _started(self) -> Record | None:
        """Start the JVM and wait until it listens; None if it does not within `START_TIMEOUT_SECONDS`."""
        end_in(self.state.folder, STOP_GRACE_SECONDS, PROGRAMS)  # of a killed supervisor that did not yet record it
        shutil.rmtree(self.state.scratch, ignore_errors=True)
        self.state.scratch.mkdir(mode=0o700)
        if self.state.log.exists():
            self.state.log.replace(self.state.log.with_suffix(".previous.log"))
        with os.fdopen(open_unlinked(self.state.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as log:
            self.child = subprocess.Popen(
                self.request.command, cwd=self.state.folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        jvm, request = Process.of(self.child.pid) or Process(self.child.pid, 0.0), self.request
        record = Record(jvm, Process.this(), 0, request.token, request.identity, request.socket)
        self.state.write_record(record)
        port = None
        with suppress(StopAsked):
            port = self._port(self.child)
        if request.properties:
            (self.state.folder / request.properties).unlink(missing_ok=True)  # read by now
        if port is None:
            self._stop(record)
            return None
        record = replace(record, port=port)
        self.state.write_record(record)
        return record

    def _port(self, child: subprocess.Popen[bytes]) -> int | None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and child.poll() is None:
            if found := _LISTENING.search(self.state.log.read_text(encoding="utf-8", errors="replace")):
                return int(found[1])
            time.sleep(POLL_SECONDS / 5)
        return None

    def _watch(self, record: Record) -> None:
        """Return when the JVM is gone, when the record names another one, or after `idle_seconds` without a client.

        In the last case this process holds the clients' lock until it ends, so that new clients wait for the stop.
        """
        file = self.state.open_in_use()
        free_since: float | None = None
        while self._running(record) and self.state.record() == record:
            if take(file):
                free_since = free_since or time.monotonic()
                if time.monotonic() - free_since >= self.request.idle_seconds:
                    return
                fcntl.flock(file, fcntl.LOCK_UN)
            else:
                free_since = None
            time.sleep(POLL_SECONDS)

    def _running(self, record: Record) -> bool:
        return self.child.poll() is None if self.child is not None else record.jvm.is_alive()

    def _stop(self, record: Record) -> None:
        """End the JVM, and remove its record unless that names another JVM by now."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        current = self.state.record()
        ours = current is not None and current.jvm == record.jvm
        if ours:
            with suppress(OSError):  # on a full disk too, the JVM is ended
                self.state.write_record(replace(record, port=0))
        end(record.jvm, STOP_GRACE_SECONDS)
        if self.child is not None:
            self.child.wait()
        if ours:
            self.state.remove_record()
        shutil.rmtree(self.state.scratch, ignore_errors=True)


def _on_terminate(_signal: int, _frame: FrameType | None) -> None:
    raise StopAsked


def main(lake: str) -> None:
    """Supervise the server of `lake` until it ends."""
    signal.signal(signal.SIGTERM, _on_terminate)
    state = ServerFolder.of(Path(lake))
    with suppress(StopAsked), state.supervising():
        Supervisor(state, state.request()).run()


if __name__ == "__main__":
    main(sys.argv[1])
