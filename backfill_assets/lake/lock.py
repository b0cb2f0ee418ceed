"""Locks: one writer at a time per table, one load at a time per source. Kernel locks, freed when the holder dies.

Lives here: the table lock and the load lock. Does not live here: deciding what may be committed under a lock
(`lake.replace`).
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from backfill_assets.core.errors import TransientError

LOCK_TIMEOUT_SECONDS = 3600.0  # a first load of years of data holds the load lock for minutes


@contextlib.contextmanager
def table_lock(locks: Path, table: str) -> Iterator[None]:
    """Hold the write lock of a table. Raises TransientError when it is held for an hour.

    Who commits is this process (`committer`), so that the kernel frees the lock when it dies and nothing of it can
    still be committing.
    """
    with _held(locks / f"{table}.lock", f"the table {table}"):
        yield


@contextlib.contextmanager
def load_lock(locks: Path, source: str = "") -> Iterator[None]:
    """Hold the lock of loading a source's raw and its ledger, from the first read to the last commit."""
    name, what = (
        (f"load.{source}.lock", f"the load of the source {source}") if source else ("load.lock", "the load of raw")
    )
    with _held(locks / name, what):
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
