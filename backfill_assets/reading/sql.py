"""Queries over all tables of a lake by their names, and over its ledgers: read only, without a JVM.

A query is one SELECT of DuckDB's SQL over versions of one state of the lake. Arrow opens the files,
because a path that DuckDB may read is one that `COPY … TO` may write. Not here: drawing the answer
(`cli.sql_command`).
"""

import re
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.loss import failing_alone
from backfill_assets.intake.too_late import too_late_contract
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.texts import known_names_advice
from backfill_assets.kernel.tables.columns import arrow_type
from backfill_assets.kernel.tables.embedded import SPILL, new_engine, sql_literal
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import versions_seen
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.fitness import unfit_days_now, unfit_text
from backfill_assets.reading.kept_snapshots import find_snapshot
from backfill_assets.reading.moments import Moment
from backfill_assets.reading.queries import (
    named_tables,
    refuse_other_statements,
    refuse_writing,
    refused_query,
    with_system_tables,
)
from backfill_assets.reading.readable import readable_tables
from backfill_assets.reading.reader import SnapshotReader
from backfill_assets.reading.rejected import ledgers_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_BYTES = 2 << 30  # of an answer
LACKING = re.compile(r"Table with name (\S+) does not exist")


@dataclass(frozen=True)
class Answer:
    """The rows as a `pyarrow.Table`, and the unfit days of each table in the query, in words."""

    rows: Any
    unfit: Mapping[str, str]


def answer_query(
    lake: Lake,
    pipeline: Pipeline,
    query: str,
    at: datetime | int | None = None,
    snapshot: str = "",
    newest: bool = False,
) -> Answer:
    """Answer a query over tables as the newest lake version has them, `at` an aware instant or the
    number of a lake version, in a `snapshot`, or (`newest`) each at its own newest version; and
    over `system.NAME` (`system_tables`), of the same look at the lake, though not of the past.

    Raises BackfillError for anything but a single SELECT, and for errors of the engine.
    """
    import duckdb

    with own_engine(lake) as engine:
        try:
            refuse_other_statements(engine, query)
            is_past = at is not None or bool(snapshot)
            known = pipeline if is_past else _readable(lake, pipeline, named_tables(query))
            states = None if is_past else _states_now(lake, known, newest)
            if "system" in query.lower():
                query = _with_system_tables(engine, lake, known, query, states)
            tables, unfit = _tables_of_query(
                lake, known, named_tables(query), states, snapshot or at
            )
            for contract, files in tables:
                engine.register(contract.name, arrow_dataset(files, contract))
            engine.execute("SET enable_external_access = false")
            refuse_writing(engine, query)
            return Answer(bounded_table(engine.sql(query).to_arrow_reader()), unfit)
        except duckdb.Error as error:
            raise _query_error(error, known_tables(lake, pipeline)) from None


def _readable(lake: Lake, pipeline: Pipeline, named: frozenset[str] | None) -> Pipeline:
    """Return the pipeline without the tables that cannot be read; raises the BackfillError of the
    first of them that is `named` (None: it may be any)."""
    known, unread = readable_tables(lake, pipeline)
    for name, error in unread.items():
        if named is None or name in named:
            raise error
    return known


def _query_error(error: Exception, names: Collection[str]) -> BackfillError:
    """Return DuckDB's error about a query over the tables `names` as one of ours."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lacking := LACKING.search(lines[0]):  # DuckDB would name a table of its own as near
        return refused_query(
            f"there is no table {lacking[1]}", known_names_advice(lacking[1], names)
        )
    return refused_query(" ".join(lines[:2]), f"Its tables are {', '.join(names)}")


def bounded_table(batches: Any, most_bytes: int = MOST_BYTES) -> Any:
    """The rows of an Arrow reader as a table. Raises BackfillError for more than so many bytes:
    DuckDB keeps to its memory, and what it answers is this process's own."""
    import pyarrow as pa

    kept, size = [], 0
    for batch in batches:
        size += batch.nbytes
        if size > most_bytes:
            fix = "Ask for fewer rows (LIMIT) or columns; `export` writes whole tables"
            raise refused_query(f"its answer has more than {most_bytes >> 20:,} MiB", fix)
        kept.append(batch)
    return pa.Table.from_batches(kept, batches.schema)


@contextmanager
def own_engine(lake: Lake) -> "Iterator[DuckDBPyConnection]":
    """Open an engine for one query, with a folder of its own to spill into: DuckDB may write
    there."""
    spill = lake.root / SPILL.with_name(f"{SPILL.name}-{uuid.uuid4().hex}")
    try:
        with suppress(OSError):  # who may not write there cannot spill
            spill.parent.mkdir(parents=True, exist_ok=True)  # which DuckDB does not
        with new_engine(lake.root) as engine:
            engine.execute(f"SET temp_directory = {sql_literal(str(spill))}")
            yield engine
    finally:
        shutil.rmtree(spill, ignore_errors=True)


def known_tables(lake: Lake, pipeline: Pipeline) -> dict[str, Contract]:
    """Return the contracts of the lake's tables and of its ledgers, by name; a ledger has no rows
    before its first."""
    contracts = pipeline.contracts
    late = {c.source: too_late_contract(c) for c in reversed(contracts) if c.is_landed}.values()
    return {c.name: c for c in (*contracts, *ledgers_of(contracts), *late)}


def _states_now(lake: Lake, pipeline: Pipeline, newest: bool) -> States:
    return pipeline.states(
        read_view(lake, pipeline.contracts, None if newest else versions_seen(lake))
    )


def _with_system_tables(
    engine: "DuckDBPyConnection", lake: Lake, pipeline: Pipeline, query: str, states: States | None
) -> str:
    """Make the system tables of a query known to the engine; return the query with the names that
    they have there. Raises BackfillError for one without `states`, of the past."""
    from backfill_assets.reading.system_tables import LakeLook, system_table, system_tables

    query, names = with_system_tables(query, system_tables())
    if not names:
        return query
    if states is None:
        raise refused_query(
            "system tables are of now, not of the past", "Leave --at and --snapshot out"
        )
    engine.execute("CREATE SCHEMA memory.system")
    for name in names:
        engine.register(f"system_{name}", system_table(LakeLook(lake, pipeline, states), name))
        engine.execute(f"CREATE VIEW memory.system.{name} AS FROM system_{name}")
    return query


def _tables_of_query(
    lake: Lake,
    pipeline: Pipeline,
    named: frozenset[str] | None,
    states: States | None,
    past: datetime | int | str | None,
) -> tuple[list[tuple[Contract, Sequence[str]]], dict[str, str]]:
    """Return the tables of a query with their files, and their unfit days.

    Without `states` of now they are of the `past`, the name of a snapshot or a moment, which has no
    unfit days.
    """
    if isinstance(past, str) and past:
        kept = SnapshotReader(lake, find_snapshot(lake, past))
        pinned = [kept.table(n).pinned() for n in kept.tables if named is None or n in named]
        return [(p.contract, p.files) for p in pinned], {}
    known = known_tables(lake, pipeline)
    if named is not None:
        known = {name: contract for name, contract in known.items() if name in named}
    if states is None:
        moment = Moment(lake, at=past if not isinstance(past, str) else None)
        return [(c, _files_then(lake, c, moment)) for c in known.values()], {}
    tables: list[tuple[Contract, Sequence[str]]] = []
    unfit: dict[str, str] = {}
    for name, contract in known.items():
        with failing_alone(f"the table {name}"):
            tables.append((contract, _files_now(lake, contract, states)))
        if name in states.contracts and (words := _unfit_days(states, name)):
            unfit[name] = words
    return tables, unfit


def _files_then(lake: Lake, contract: Contract, moment: Moment) -> Sequence[str]:
    """Return the files of a table at a moment; what was never written had no rows then."""
    if not lake.store.exists(contract.name):
        return []
    return lake.store.data_files(contract, moment.of(contract.name))


def _files_now(lake: Lake, contract: Contract, states: States) -> Sequence[str]:
    """Return the files of a table in the version that the `states` are of; of the ledger `files`,
    which they leave out, in its newest."""
    name = contract.name
    version = states.view.tables[name].version if name in states.view.tables else None
    if version == -1 or not lake.store.exists(name):
        return []
    return lake.store.data_files(contract, version)


def _unfit_days(states: States, table: str) -> str:
    """Return the unfit days of a table among those that hold rows, in words."""
    latest = states.view.table(table).latest.items()
    days = [day for day, receipt in latest if receipt.entry.built is not Built.PENDING]
    return unfit_text(unfit_days_now(states, table, days))


def arrow_dataset(files: Sequence[str], contract: Contract) -> Any:
    """Return the files as an Arrow dataset in the contract's columns and types: a column that a
    file lacks is NULL, and a column that the contract lacks is left out."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    schema = pa.schema([(c.name, arrow_type(c.kind)) for c in contract.columns])
    if not files:
        return schema.empty_table()
    column = contract.partition_column
    layout = ds.partitioning(pa.schema([schema.field(column)]), flavor="hive") if column else None
    return ds.dataset(list(files), schema=schema, format="parquet", partitioning=layout)
