"""Quick storage of events in Dagster's sqlite files: kept connections, and events of days in bulk.

Lives here: what stands in for the storage's own connections and its way to store one event, while a block runs. Does
not live here: which events (`telling`, `standing`, `healing`). Storages of other kinds are left alone. Like
`dagster_private`, which knows the tables, this follows Dagster 1.13; tests hold both ways to equal rows.

Dagster makes a SQLAlchemy engine, a connection and a transaction for every statement group of every event, so that
nothing compiled is reused and every close checkpoints the file: 8 to 10 ms an event. Here the events that come per day
(plans, materializations, check evaluations) wait until another kind of event, any look at the storage or the end of the
block, and go in one transaction per file. What waits is lost with the process, as it would be a moment earlier: the
reconcile and healing tell it again from the receipts. `synchronous=NORMAL` with the write-ahead log may lose the last
events in a power cut, never break the file.
"""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa

from backfill_assets.orchestration.dagster_private import (
    ASSET_KEYED,
    CHECKS_TABLE,
    EVENTS_TABLE,
    INDEX_SHARD,
    check_row,
)
from backfill_assets.orchestration.event_text import EventTexts
from backfill_assets.orchestration.kept_files import is_made, keep, kept_engine, make, quick_runs

AT_ONCE = 500  # events that wait at most: 5 MB
PLANNED, EVALUATED = dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED, dg.DagsterEventType.ASSET_CHECK_EVALUATION
IN_BULK = {
    dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED, PLANNED, EVALUATED,
}  # fmt: skip
CHECK_IDENTITY = ("asset_key", "check_name", "run_id", "partition")


@contextlib.contextmanager
def quick_events(instance: dg.DagsterInstance, at_once: int = AT_ONCE) -> Iterator[None]:
    """Let Dagster's sqlite event storage keep its connections and take events of days in bulk while the block runs.

    At most `at_once` events wait. Blocks may lie within each other; the outermost counts. At the end of it everything
    is stored.
    """
    storage: Any = instance.event_log_storage
    if not hasattr(storage, "conn_string_for_shard") or "store_event" in vars(storage):
        yield
        return
    quick = _QuickStorage(storage, at_once)
    storage._connect, storage.store_event = quick.connect, quick.store
    try:
        with quick_runs(instance):
            yield
    finally:
        try:
            quick.flush()
        finally:
            del storage._connect, storage.store_event
            quick.dispose()


class _QuickStorage:
    """The two methods that stand in for those of `storage`."""

    def __init__(self, storage: Any, at_once: int) -> None:
        self._storage, self._at_once = storage, at_once
        self._slow_connect, self._store_one = storage._connect, storage.store_event
        self._engines: dict[str, sa.Engine] = {}
        self._open: dict[str, sa.Connection] = {}  # of a flush under way
        self._waiting: list[dg.EventLogEntry] = []
        self._texts = EventTexts()
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def connect(self, shard: str) -> Iterator[sa.Connection]:
        """A connection in a transaction; whoever looks sees what waited."""
        with self._lock:
            if shard in self._open:
                yield self._open[shard]
                return
            self.flush()
            with self._transaction(shard) as connection:
                yield connection

    def store(self, event: dg.EventLogEntry) -> None:
        """Store the event, or let it wait."""
        with self._lock:
            if event.dagster_event is None or event.dagster_event_type not in IN_BULK:
                self._store_one(event)  # which connects, so that what waited goes first
                return
            self._waiting.append(event)
            if len(self._waiting) >= self._at_once:
                self.flush()

    def flush(self) -> None:
        """Store what waits: a transaction in the run's file, then one in the index of all runs, as Dagster does."""
        with self._lock:
            events, self._waiting = self._waiting, []
            if not events:
                return
            rows = [self._row(event) for event in events]
            by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for row in rows:
                by_run[row["run_id"]].append(row)
            for run_id, of_run in by_run.items():
                with self._transaction(run_id) as connection:
                    connection.execute(EVENTS_TABLE.insert(), of_run)
            with self._transaction(INDEX_SHARD) as connection:
                self._open[INDEX_SHARD] = connection
                try:
                    self._index(connection, events, rows)
                finally:
                    del self._open[INDEX_SHARD]

    def _row(self, event: dg.EventLogEntry) -> dict[str, Any]:
        """As the storage's `_event_to_row`, which writes out each event from its first sign to the last."""
        told = event.get_dagster_event()
        return {
            "run_id": event.run_id,
            "event": self._texts.text(event),
            "dagster_event_type": told.event_type_value,
            "timestamp": self._storage._event_insert_timestamp(event),
            "step_key": told.step_key,
            "asset_key": key.to_string() if (key := told.asset_key) else None,
            "partition": told.partition or None,
        }

    def dispose(self) -> None:
        """Close every file."""
        for engine in self._engines.values():
            engine.dispose()

    @contextlib.contextmanager
    def _transaction(self, shard: str) -> Iterator[sa.Connection]:
        if shard not in self._engines:
            self._make(shard)
            self._engines[shard] = kept_engine(self._storage.conn_string_for_shard(shard), durable=False)
        with self._storage._db_lock, self._engines[shard].connect() as connection, connection.begin():
            yield connection

    def _make(self, shard: str) -> None:
        """See that the file has its tables."""
        file = Path(self._storage.path_for_shard(shard))
        is_new = not file.exists()
        if make(file) if is_new else is_made(file):
            self._storage._initialized_dbs.add(shard)
            return
        with self._slow_connect(shard):  # makes them
            pass
        if is_new and shard != INDEX_SHARD:
            keep(file)

    def _index(self, connection: sa.Connection, events: Sequence[dg.EventLogEntry], rows: list[dict[str, Any]]) -> None:
        # The first takes the file's lock, so that the numbers after its own are free: to ask each for its number costs
        # more than to write it.
        first = connection.execute(EVENTS_TABLE.insert().returning(EVENTS_TABLE.c.id), rows[0]).scalar_one()
        ids = range(first, first + len(rows))
        if others := [{**row, "id": i} for i, row in zip(ids[1:], rows[1:], strict=True)]:
            connection.execute(EVENTS_TABLE.insert(), others)
        of_kind: dict[Any, list[tuple[dg.EventLogEntry, int]]] = defaultdict(list)
        for event, number in zip(events, ids, strict=True):
            of_kind[event.dagster_event_type].append((event, number))
        keyed = [pair for kind in ASSET_KEYED for pair in of_kind[kind]]
        self._storage._store_asset_event_tags(connection, [e for e, _ in keyed], [n for _, n in keyed])
        # Of each asset the newest of each kind, in their order: what came before it would be overwritten.
        newest = {(e.dagster_event_type, row_key(e)): (e, n) for e, n in keyed}
        for event, number in sorted(newest.values(), key=lambda pair: pair[1]):
            self._storage._store_asset_event(connection, event, number)
        for event, number in of_kind[PLANNED]:
            self._storage._store_asset_check_evaluation_planned(event, number)
        self._evaluate(connection, of_kind[EVALUATED], dict(zip(ids, rows, strict=True)))

    def _evaluate(
        self, connection: sa.Connection, evaluated: Sequence[tuple[dg.EventLogEntry, int]], rows: dict[int, Any]
    ) -> None:
        """The verdict of each check: in the row that its run planned, else in a new one."""
        given: dict[tuple[Any, ...], dict[str, Any]] = {}
        for event, number in evaluated:
            row = check_row(event, number, rows[number])
            if row["run_id"] and row["partition"] is not None:
                given[tuple(row[name] for name in CHECK_IDENTITY)] = row
            else:
                self._storage.store_asset_check_event(event, number)
        columns = [CHECKS_TABLE.c[name] for name in CHECK_IDENTITY]
        planned = set[tuple[Any, ...]]()
        for whose in {identity[:3] for identity in given}:
            same = sa.and_(*(c == value for c, value in zip(columns, whose, strict=False)))
            planned |= {tuple(found) for found in connection.execute(sa.select(*columns).where(same))}
        again = [{f"of_{k}": v for k, v in row.items()} for identity, row in given.items() if identity in planned]
        new = [row for identity, row in given.items() if identity not in planned]
        if again:
            same = sa.and_(*(c == sa.bindparam(f"of_{c.name}") for c in columns))
            values: dict[str, Any] = {
                c: sa.bindparam(f"of_{c}") for c in next(iter(given.values())) if c not in CHECK_IDENTITY
            }
            connection.execute(CHECKS_TABLE.update().where(same).values(values), again)
        if new:
            connection.execute(CHECKS_TABLE.insert(), new)


def row_key(event: dg.EventLogEntry) -> dg.AssetKey | None:
    """The asset of an event, if it has one."""
    return event.dagster_event.asset_key if event.dagster_event else None
