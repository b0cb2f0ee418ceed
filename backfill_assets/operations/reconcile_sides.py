"""Sides of a reconciliation: a table of a lake, files, a query or a database, each as one SELECT of DuckDB.

Not here: matching the rows of two sides (`reconcile`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from backfill_assets.core.column_types import GREATEST_PRECISION
from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.embedded import literal, selection
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.locations import data_files_at, delta_rows
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.compare import Moment
from backfill_assets.operations.reader import SnapshotReader
from backfill_assets.operations.snapshots import find_snapshot
from backfill_assets.operations.sql import known_tables, named_tables, refuse_others, refuse_writing

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

QUERY, LAKE, DATABASE = "duckdb:", "lake:", ("postgresql://", "postgres://")
WRITE, SNAPSHOT = "write:", "snapshot:"
NOTHING = "Nothing was compared"
FORMS = (
    "Name a table of the lake, TABLE@VERSION, TABLE@TIME, TABLE@write:ID, TABLE@snapshot:NAME, lake:DIR#TABLE, a "
    "Parquet, CSV or Delta location, duckdb:SELECT …, or postgresql://…#TABLE"
)
Opened = Callable[[Path], tuple[Lake, Pipeline]]
FileStamps = tuple[tuple[str, int, int], ...]  # path, bytes, modification time (ns)


@dataclass(frozen=True)
class Side:
    """A side: what it is in words, its SELECT, and, of a table of a lake, its contract.

    `files` are files that others may change, as they stood before they were read.
    """

    name: str
    select: str
    contract: Contract | None = None
    files: FileStamps = ()

    def refuse_changed(self) -> None:
        """Raise BackfillError if a file of the side changed since the side was opened."""
        now = _stamps(path for path, *_ in self.files)
        if now != self.files:
            gone = {path for path, *_ in self.files} - {path for path, *_ in now}
            culprit = f"{min(gone)} is gone" if gone else "a file of it changed while it was read"
            raise _refused(self.name, culprit, "Compare again once nothing writes there")


def open_side(
    engine: "DuckDBPyConnection", lake: Lake, pipeline: Pipeline, text: str, opened: Opened | None = None
) -> Side:
    """Open the side that `text` names; `opened` opens another lake.

    A query or a database is read once, into a temporary table of `engine`. Raises BackfillError for a side that does
    not exist, cannot be read, or would write.
    """
    if text.startswith(QUERY):
        return _query(engine, lake, pipeline, text.removeprefix(QUERY).strip())
    if text.startswith(DATABASE):
        return _database(engine, text)
    if text.startswith(LAKE) and opened is not None:
        root, _, text = text.removeprefix(LAKE).partition("#")
        lake, pipeline = opened(Path(root))
    table, _, moment = text.partition("@")
    known = known_tables(lake, pipeline)
    if contract := known.get(table):
        return _table(lake, contract, moment)
    if found := _location(engine, text):
        return found
    raise _refused(text, f"it is no table ({', '.join(known)}) and no file or folder", FORMS)


def _table(lake: Lake, contract: Contract, moment: str) -> Side:
    """A table now (moment ""), at a version, a time, a write, or in a snapshot."""
    name = f"{contract.name}@{moment}" if moment else contract.name
    if moment.startswith(SNAPSHOT):
        kept = SnapshotReader(lake, find_snapshot(lake, moment.removeprefix(SNAPSHOT))).table(contract.name).pinned()
        return Side(f"{name} of {lake.root}", selection(kept.files, kept.contract), kept.contract)
    version = _moment(lake, contract.name, moment).of(contract.name)
    files = lake.store.data_files(contract, version)
    return Side(f"{contract.name} version {version} of {lake.root}", selection(files, contract), contract)


def _moment(lake: Lake, table: str, text: str) -> Moment:
    if not text:
        return Moment(lake)
    if text.isdigit():
        return Moment(lake, int(text))
    if text.startswith(WRITE):
        wanted = text.removeprefix(WRITE)
        writes = (c for c in lake.store.commits(table) if c.receipt and c.receipt.write_id.startswith(wanted))
        if wanted and (found := next(writes, None)):
            return Moment(lake, found.version)
        raise _refused(f"{table}@{text}", "the table has no such write", f"`backfill-assets audit --table {table}`")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _refused(f"{table}@{text}", "what follows @ is no version, time, write or snapshot", FORMS) from None
    return Moment(lake, at=at if at.tzinfo else at.replace(tzinfo=UTC))


def _query(engine: "DuckDBPyConnection", lake: Lake, pipeline: Pipeline, query: str) -> Side:
    """The rows of a query over tables of the lake and files. The query is refused if it could write."""
    with unreadable(query):
        refuse_others(engine, query)
    named = named_tables(query)
    for name, contract in known_tables(lake, pipeline).items():
        if (named is None or name in named) and lake.store.exists(name):
            engine.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS {_table(lake, contract, "").select}')
    with unreadable(query):
        refuse_writing(engine, query)
        return Side(QUERY + query, _kept(engine, query))


def _kept(engine: "DuckDBPyConnection", query: str) -> str:
    """The SELECT over a temporary table that holds the rows of a query as they were once."""
    name = f"side_{engine.execute('SELECT count(*) FROM duckdb_tables()').fetchall()[0][0]}"
    engine.execute(f"CREATE TEMP TABLE {name} AS {query}")
    return f"SELECT * FROM {name}"


def _database(engine: "DuckDBPyConnection", text: str) -> Side:
    """The rows of a table, or of a SELECT, in PostgreSQL; the address keeps its password out of the side's name."""
    address, _, what = text.partition("#")
    query = what if what.lower().startswith(("select", "with")) else f"SELECT * FROM {what}"
    parts = urlsplit(address)
    name = f"{parts.scheme}://{parts.hostname or ''}{parts.path}#{what}"
    if not what:
        raise _refused(name, "it names no table", FORMS)
    try:
        dbapi = import_module("adbc_driver_postgresql.dbapi")  # no dependency: the extra `postgres`
    except ImportError:
        fix = "Run `pip install 'backfill-assets[postgres]'`"
        raise _refused(name, "the driver of PostgreSQL is not installed", fix) from None
    try:
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(query)
            batches = cursor.fetch_record_batch()
            engine.register("from_database", batches)
            kept = _kept(engine, "SELECT * FROM from_database")
            numbers = [f.name for f in batches.schema if getattr(f.type, "type_name", "") == "numeric"]
            return Side(name, _with_numbers(engine, kept, numbers))
    except dbapi.Error as error:
        raise _refused(name, " ".join(str(error).split()), "Check the address, the rights and the query") from error


def _with_numbers(engine: "DuckDBPyConnection", select: str, numbers: Collection[str]) -> str:
    """The SELECT with these texts as decimals: ADBC gives PostgreSQL's NUMERIC, which has no bound, as text."""
    casts = []
    for column in map(quoted, numbers):
        digits = f"SELECT coalesce(max(strlen(split_part({column}, '.', 2))), 0) FROM ({select})"
        [(scale,)] = engine.execute(digits).fetchall()
        casts.append(f"CAST({column} AS DECIMAL({GREATEST_PRECISION}, {scale})) AS {column}")
    return f"SELECT * REPLACE ({', '.join(casts)}) FROM ({select})" if casts else select


def _location(engine: "DuckDBPyConnection", text: str) -> Side | None:
    """The rows of a Delta table's folder, or of files of one kind; None if nothing lies there."""
    if (delta := delta_rows(text)) is not None:
        engine.register(view := f"delta_{abs(hash(text))}", delta[1])
        return Side(f"{text} version {delta[0]}", f"SELECT * FROM {view}")
    if not (files := data_files_at(text)):
        return None
    listed = f"[{', '.join(map(literal, files))}]"
    is_parquet = all(f.endswith(".parquet") for f in files)
    read = "read_parquet({}, union_by_name = true)" if is_parquet else "read_csv({}, union_by_name = true)"
    return Side(text, f"SELECT * FROM {read.format(listed)}", None, _stamps(files))


def _stamps(files: Iterable[str]) -> FileStamps:
    there = ((f, Path(f)) for f in files)
    return tuple((f, path.stat().st_size, path.stat().st_mtime_ns) for f, path in there if path.exists())


@contextmanager
def unreadable(name: str) -> Iterator[None]:
    """Turn errors of DuckDB inside the block into BackfillError that names the side."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise _refused(name, " ".join(lines[:2]), FORMS) from error


def columns_of(engine: "DuckDBPyConnection", side: Side) -> dict[str, str]:
    """The types of the side's columns by name, as DuckDB writes them."""
    with unreadable(side.name):
        return {name: kind for name, kind, *_ in engine.execute(f"DESCRIBE {side.select}").fetchall()}


def refuse_lacking(side: Side, wanted: Collection[str], there: Collection[str], what: str) -> None:
    """Raise BackfillError if the side lacks a column that the request names."""
    if lacking := sorted(set(wanted) - set(there)):
        raise _refused(side.name, f"it has no column {', '.join(lacking)} ({what})", f"Its columns: {', '.join(there)}")


def _refused(side: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"the side {side}", culprit, NOTHING, fix)
