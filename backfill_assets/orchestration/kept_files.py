"""Dagster's sqlite files opened seldom: one engine per file kept, tables of a new file copied instead of made.

Lives here: what `quick_events` opens files with, and the same for the file of runs. Does not live here: events. Like
`quick_events`, this follows Dagster 1.13, and leaves alone storages of other kinds.

Dagster makes an engine for every look at its runs, so that nothing compiled is reused, and reads its 75 migrations
anew whenever it meets a file, to see that a file with a revision needs none, or to stamp one that it has just made.
"""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa

BUSY_TIMEOUT_SECONDS = 60  # what Dagster itself waits for a locked file


@contextlib.contextmanager
def quick_runs(instance: dg.DagsterInstance) -> Iterator[None]:
    """Let Dagster's sqlite storage of runs keep its engine while the block runs. Blocks may lie within each other."""
    storage: Any = instance.run_storage
    if not hasattr(storage, "_conn_string") or "connect" in vars(storage):
        yield
        return
    engine = kept_engine(storage._conn_string, durable=True)
    storage.connect = engine.begin
    try:
        yield
    finally:
        del storage.connect
        engine.dispose()


def kept_engine(url: str, durable: bool) -> sa.Engine:
    """An engine that keeps a connection. Not `durable`: the last transactions may be lost in a power cut."""
    engine = sa.create_engine(url, poolclass=sa.QueuePool, pool_size=1, connect_args={"timeout": BUSY_TIMEOUT_SECONDS})
    if not durable:

        @sa.event.listens_for(engine, "connect")
        def on_connect(connection: Any, _record: Any) -> None:
            """With the write-ahead log: never breaks the file."""
            connection.execute("PRAGMA synchronous=NORMAL")

    return engine


def is_made(file: Path) -> bool:
    """Whether a file has Dagster's tables and the revision of their layout."""
    try:
        with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)) as opened:
            return opened.execute("SELECT 1 FROM alembic_version").fetchone() is not None
    except sqlite3.Error:
        return False  # not there, or empty: Dagster knows what to do


def make(file: Path) -> bool:
    """Make the file of a run, which is not there, as a copy of the one that was kept; False where none was kept."""
    kept = _kept(file)
    if not is_made(kept):
        return False
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        shutil.copyfile(kept, part)
        with contextlib.suppress(FileExistsError):  # another process was quicker
            os.link(part, file)
    except OSError:
        return False  # a file system without links: Dagster makes it
    finally:
        part.unlink(missing_ok=True)
    return is_made(file)


def keep(file: Path) -> None:
    """Keep what Dagster has just made, for the next run; of each version of Dagster its own."""
    kept = _kept(file)
    part = kept.with_name(f"{kept.name}.{os.getpid()}.part")
    with contextlib.closing(sqlite3.connect(file)) as made, contextlib.closing(sqlite3.connect(part)) as copied:
        made.backup(copied)
        copied.execute("PRAGMA journal_mode=WAL")
    part.replace(kept)


def _kept(file: Path) -> Path:
    return file.with_name(f"empty-{dg.__version__}.template")  # no `.db`: those are runs to Dagster
