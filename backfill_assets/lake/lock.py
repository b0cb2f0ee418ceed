"""Locks: one writer at a time per table, one load at a time per lake. Kernel locks, freed when the holder dies.

Lives here: the table lock with the record of the JVM that may still be committing after its Python side was killed,
and the load lock. Does not live here: deciding what may be committed under a lock (`lake.replace`).
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from backfill_assets.core.errors import TransientError

LOCK_TIMEOUT_SECONDS = 3600.0  # a first load of years of data holds the load lock for minutes
ORPHAN_WAIT_SECONDS = 60.0  # a JVM whose Python side was killed ended within 3 s when measured; 60 is generous
POLL_SECONDS = 0.1
CLOCK_SLACK_SECONDS = 2.0  # start times follow from the boot time, which moves when the clock is adjusted


@dataclass(frozen=True)
class Committer:
    """The process that commits for a writer: a driver JVM, known by pid and start time (a pid alone is reused)."""

    pid: int
    started: float
    shared: bool  # the lake's embedded server: all its commits are in one JVM, so nobody need wait for its death


def this_committer(shared_pid: int | None) -> Committer:
    """The JVM that commits for this process: the lake's server if given, else the Java child of this process."""
    if shared_pid is not None:
        return Committer(shared_pid, _started(shared_pid) or 0.0, shared=True)
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.name().startswith("java"):
                return Committer(child.pid, child.create_time(), shared=False)
    return Committer(os.getpid(), psutil.Process().create_time(), shared=False)


@contextlib.contextmanager
def table_lock(locks: Path, table: str, committer: Committer) -> Iterator[None]:
    """Hold the write lock of a table. Raises TransientError when it is held for an hour.

    Delta on a local file system is safe within one JVM only, and a driver JVM outlives a killed Python side by
    seconds: the record beside the lock names the JVM of a holder that never released, and we wait for its end.
    """
    record = locks / f"{table}.committer.json"
    with _held(locks / f"{table}.lock", f"the table {table}"):
        _wait_for_orphan(record, committer, table)
        record.write_text(json.dumps([committer.pid, committer.started, committer.shared]))
        try:
            yield
        finally:
            record.unlink(missing_ok=True)


@contextlib.contextmanager
def load_lock(locks: Path) -> Iterator[None]:
    """Hold the lake-wide lock of loading raw and its ledger, from the first read to the last commit."""
    with _held(locks / "load.lock", "the load of raw"):
        yield


@contextlib.contextmanager
def _held(path: Path, what: str) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=LOCK_TIMEOUT_SECONDS):
            yield
    except Timeout:
        raise TransientError(
            what,
            f"another process has held its lock for {LOCK_TIMEOUT_SECONDS:.0f} s",
            "Nothing was written",
            f"Find it with `fuser {path}`, then run again",
        ) from None


def _wait_for_orphan(record: Path, committer: Committer, table: str) -> None:
    try:
        orphan = Committer(*json.loads(record.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return
    same = orphan.pid == committer.pid and abs(orphan.started - committer.started) < CLOCK_SLACK_SECONDS
    deadline = time.monotonic() + ORPHAN_WAIT_SECONDS
    while not same and _is_running(orphan):
        if time.monotonic() > deadline:
            fix = "Run `backfill-assets server stop`" if orphan.shared else f"End the process {orphan.pid}"
            raise TransientError(
                f"the table {table}",
                f"process {orphan.pid} may still be committing for a writer that was killed",
                "Nothing was written",
                f"{fix}, then run again",
            )
        time.sleep(POLL_SECONDS)


def _is_running(process: Committer) -> bool:
    started = _started(process.pid)
    return started is not None and abs(started - process.started) < CLOCK_SLACK_SECONDS


def _started(pid: int) -> float | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None
