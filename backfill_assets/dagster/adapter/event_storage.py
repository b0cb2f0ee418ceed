"""Dagster's SQLite event storage with kept connections and batched writes: `event_log_storage` in
`dagster.yaml`.

Here: the class and the rows it writes in bulk, which follow Dagster 1.13 (a test holds them equal
to the rows of Dagster's own class). Not here: which events a run reports (`assets`). On Postgres
use Dagster's own class.

Dagster's class opens an engine, a connection and a transaction for each event, 8 to 12 ms. Here a
step's events of single days (plans and materializations) are buffered until another kind of event
or any read, at most 500, and written in one transaction per file. A process that dies loses its
buffer: the next run reports those days again from their receipts (`reconcile`). An interrupt is
raised when the transaction is over: one in its midst would leave it open, and the next event would
wait for its lock. `synchronous=NORMAL` with the write-ahead log may lose the last events in a power
cut, never the file.
"""

import contextlib
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import dagster as dg
import sqlalchemy as sa

from backfill_assets.dagster.adapter.dagster_private import (
    INDEX_SHARD_NAME,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
)
from backfill_assets.kernel.core.interrupts import hold_interrupts, is_interrupt_held

BUFFERED_EVENTS = 500  # about 5 MB
OPEN_FILES = 8  # one file per run, and the index of all runs; a web server reads hundreds of runs
BUSY_TIMEOUT_SECONDS = 60  # as in Dagster's class
BUSY_WAIT_SECONDS = 0.5  # in SQLite, where no signal ends a wait
BATCHED = (
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
)
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY)
T = TypeVar("T")


class _Cursor(sqlite3.Cursor):
    def execute(self, *args: Any) -> Self:
        return _retry_while_locked(lambda: super(_Cursor, self).execute(*args))

    def executemany(self, *args: Any) -> Self:
        return _retry_while_locked(lambda: super(_Cursor, self).executemany(*args))


class _Connection(sqlite3.Connection):
    """A connection that waits for another process' lock in Python, where an interrupt ends the
    wait. SQLite takes the lock with a transaction's first write: a statement that meets a lock has
    written nothing and may be repeated."""

    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)

    def close(self) -> None:
        """End the transaction, too: else the file stays locked while a cursor lives, as in the
        traceback of an interrupt, which SQLAlchemy answers with this call."""
        with contextlib.suppress(sqlite3.Error):
            self.rollback()
        super().close()


class BatchedEventLogStorage(SqliteEventLogStorage):
    """Dagster's SQLite event storage, with the same files and rows. Set either `base_dir`, as for
    Dagster's class, or `home`: Dagster's home, with the files in `history/runs` below it."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        self._engines: dict[str, sa.Engine] = {}  # by file, the newest ones that were asked for
        # By file, the transaction under way: one at a time.
        self._open: dict[str, sa.Connection] = {}
        self._tables: set[str] = set()  # of the index that are known to exist
        self._buffer: list[dg.EventLogEntry] = []  # events that are not written yet
        # Of the transaction in which the base writes, too.
        self._indexing: sa.Connection | None = None
        # Reads within a transaction nest, which the lock of the base does not allow.
        self._lock = threading.RLock()
        super().__init__(base_dir, inst_data)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> Self:
        """Make the storage that `dagster.yaml` names; the base names its own class here."""
        base_dir = config_value.get("base_dir") or str(
            Path(config_value["home"], "history", "runs")
        )
        return cls(base_dir, inst_data)

    @classmethod
    def config_type(cls) -> Any:
        """The settings that `dagster.yaml` may name."""
        return {name: dg.Field(dg.StringSource, is_required=False) for name in ("base_dir", "home")}

    @contextlib.contextmanager
    def _connect(self, shard: str) -> Iterator[sa.Connection]:
        """Give a connection in a transaction. Buffered events are written first."""
        with self._lock, hold_interrupts():
            # The base asks for it while `_write_index` writes in that transaction.
            if self._indexing is not None and shard == INDEX_SHARD_NAME:
                yield self._indexing
                return
            self.flush()
            with self._shard_transaction(shard) as connection:
                yield connection

    def has_table(self, table_name: str) -> bool:
        """Whether the index has a table; asked for each tag of each materialization, in its
        transaction."""
        with self._lock:
            if table_name not in self._tables:
                own = self._open.get(INDEX_SHARD_NAME)
                with contextlib.nullcontext(own) if own else self.index_connection() as connection:
                    if not sa.inspect(connection).has_table(table_name):
                        return False
                self._tables.add(table_name)
            return True

    def store_event(self, event: dg.EventLogEntry) -> None:
        """Write the event, or buffer it. An interrupt is raised afterwards: an event is in both
        files or in neither."""
        with self._lock, hold_interrupts():
            if not _is_batched(event):
                super().store_event(event)
                return
            self._buffer.append(event)
            if len(self._buffer) >= BUFFERED_EVENTS:
                self.flush()

    def flush(self) -> None:
        """Write the buffered events: a transaction per run's file, then one in the index, as
        Dagster's class does."""
        with self._lock, hold_interrupts():
            events, self._buffer = self._buffer, []
            if not events:
                return
            rows = [self._event_to_row(event) for event in events]
            by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for row in rows:
                by_run[row["run_id"]].append(row)
            for run_id, of_run in by_run.items():
                with self._shard_transaction(run_id) as connection:
                    connection.execute(SqlEventLogStorageTable.insert(), of_run)
            try:
                with self._shard_transaction(INDEX_SHARD_NAME) as self._indexing:
                    self._write_index(self._indexing, events, rows)
            finally:
                self._indexing = None

    def dispose(self) -> None:
        """Write what is buffered and close all files."""
        self.flush()
        for engine in self._engines.values():
            engine.dispose()
        super().dispose()

    @contextlib.contextmanager
    def _shard_transaction(self, shard: str) -> Iterator[sa.Connection]:
        """A transaction in a run's file, or in the index; no other one is open beside it."""
        self._drop_transactions()
        self._open[shard] = connection = self._engine_of(shard).connect()
        try:
            with connection.begin():
                yield connection
            connection.close()
        finally:
            _end_transaction(connection)
            # Python may end this generator late, when another transaction is under way.
            if self._open.get(shard) is connection:
                self._open.pop(shard)

    def _drop_transactions(self) -> None:
        """Close a transaction that an exception left open: it would keep its file locked against
        this process."""
        for shard, connection in list(self._open.items()):
            _end_transaction(connection)
            self._open.pop(shard, None)

    def _engine_of(self, shard: str) -> sa.Engine:
        """The engine of a run's file, or of the index, made with its tables when it is first asked
        for; of `OPEN_FILES` the oldest that is not in use gives way."""
        if shard not in self._engines:
            if len(self._engines) >= OPEN_FILES:
                unused = next(name for name in self._engines if name not in self._open)
                self._engines.pop(unused).dispose()
            engine = sa.create_engine(
                self.conn_string_for_shard(shard),
                poolclass=sa.QueuePool,
                pool_size=1,
                max_overflow=-1,
                connect_args={"timeout": BUSY_WAIT_SECONDS, "factory": _Connection},
            )
            sa.event.listen(
                engine, "connect", lambda opened, _: opened.execute("PRAGMA synchronous=NORMAL")
            )
            # Pages that show a run watch its file, which a checkpoint changes.
            if shard != INDEX_SHARD_NAME:
                sa.event.listen(
                    engine,
                    "connect",
                    lambda opened, _: opened.execute("PRAGMA wal_autocheckpoint=1"),
                )
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            self._engines[shard] = engine
        return self._engines[shard]

    def _write_index(
        self, index: sa.Connection, events: Sequence[dg.EventLogEntry], rows: list[dict[str, Any]]
    ) -> None:
        """Write the rows of events to the index, with the tags and the newest state of their
        assets, within the transaction `index`."""
        # The first insert takes the file's lock, so the ids after its own are free: asking for each
        # one costs more.
        table = SqlEventLogStorageTable
        key: Any = index.execute(table.insert(), rows[0]).inserted_primary_key
        first = key[0]
        ids = range(first, first + len(rows))
        if further := [{**row, "id": i} for row, i in zip(rows[1:], ids[1:], strict=True)]:
            index.execute(table.insert(), further)
        self.store_asset_event_tags(list(events), list(ids))
        # Each event overwrites its asset's row: only the newest of each kind counts.
        numbered = zip(events, ids, strict=True)
        newest = {
            (e.dagster_event_type, e.get_dagster_event().asset_key): (e, n) for e, n in numbered
        }
        for event, number in sorted(newest.values(), key=lambda pair: pair[1]):
            self.store_asset_event(event, number)


def _end_transaction(connection: sa.Connection) -> None:
    if not connection.closed and not connection.invalidated:
        connection.invalidate()


def _retry_while_locked(statement: Callable[[], T]) -> T:
    """Run a statement again while another process holds the file's lock, for
    `BUSY_TIMEOUT_SECONDS`, or until an interrupt is held back."""
    until = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            return statement()
        except sqlite3.OperationalError as error:
            waits = error.sqlite_errorcode in LOCKED and time.monotonic() < until
            if not waits or is_interrupt_held():
                raise
            time.sleep(0.01)  # SQLite does not wait for the other process that recovers the file


def _is_batched(event: dg.EventLogEntry) -> bool:
    """Whether it is a step's event about a day: other events of its process follow and flush the
    buffer."""
    step_event = event.dagster_event
    return bool(
        step_event and step_event.event_type in BATCHED and event.run_id and step_event.step_key
    )
