"""Sides of a reconciliation: a table of a lake, files, a query or a database, each as one SELECT of
DuckDB.

Not here: matching the rows of two sides (`reconcile`).
"""

import glob
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.addresses import SCHEMES
from backfill_assets.kernel.core.column_types import GREATEST_PRECISION
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.choice import bucket_prefix_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.embedded import delta_rows, is_delta, rows_query, sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.kept_snapshots import find_snapshot
from backfill_assets.reading.moments import Moment
from backfill_assets.reading.postgres import DATABASE, postgres_connection
from backfill_assets.reading.queries import (
    QUERY,
    named_tables,
    refuse_other_statements,
    refuse_writing,
    rows_as_published,
)
from backfill_assets.reading.reader import SnapshotReader
from backfill_assets.reading.sql import known_tables

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILES = re.compile(r"\.(parquet|csv|csv\.gz|tsv|txt)$")

LAKE = "lake:"
WRITE, SNAPSHOT = "write:", "snapshot:"
NOTHING_WAS_DONE = "Nothing was done"
ALL = "all"
CORRECT = "Correct the query; DuckDB answers it, over tables of the lake and files"
FORMS = (
    "Name a table of the lake, TABLE@VERSION, TABLE@TIME, TABLE@write:ID, TABLE@snapshot:NAME, "
    "lake:DIR#TABLE, a "
    "Parquet, CSV or Delta location, duckdb:SELECT …, or postgresql://…#TABLE"
)
FileStamps = tuple[tuple[str, int, int, int], ...]  # path, inode, bytes, modification time (ns)


@dataclass(frozen=True)
class Side:
    """One of the two sides that are reconciled."""

    name: str  # what it is, in words
    select: str
    contract: Contract | None = None  # of a table of this lake
    files: FileStamps = ()  # files that others may change, as they were before the reading
    setup: tuple[str, ...] = ()  # statements that make, by hand, the table that `select` reads

    def refuse_changed(self) -> None:
        """Raise BackfillError if a file of the side changed since the side was opened."""
        paths = [path for path, *_ in self.files]
        now = _file_stamps(paths)
        if now == self.files:
            return
        gone = {*paths} - {path for path, *_ in now}
        culprit = f"{min(gone)} is gone" if gone else "a file of it changed while it was read"
        raise _unreadable_side_error(self.name, culprit, "Compare again once nothing writes there")


def open_side(engine: "DuckDBPyConnection", lake: Lake, pipeline: Pipeline, text: str) -> Side:
    """Open the side that `text` names.

    A query or a database is read once, into a temporary table of `engine`. Raises BackfillError for
    a side that does not exist, cannot be read, or would write.
    """
    if text.startswith(QUERY):
        known = {**known_tables(lake, pipeline), **{c.name: c for c in pipeline.followers}}
        return _query_side(engine, text.removeprefix(QUERY).strip(), lake, known)
    if text.startswith(LAKE):
        root, _, rest = text.removeprefix(LAKE).partition("#")
        table, _, moment = rest.partition("@")
        other_lake = open_lake(root, is_further=True)
        return _foreign_table_side(engine, other_lake, table, moment)
    table, _, moment = text.partition("@")
    known = known_tables(lake, pipeline)
    if contract := known.get(table):
        return _table_side(lake, contract, moment)
    return open_outside_lake(engine, text, f"table ({', '.join(known)})")


def open_outside_lake(engine: "DuckDBPyConnection", text: str, no: str = "database") -> Side:
    """Open a Parquet, CSV or Delta location, a query of DuckDB's over files, or a PostgreSQL table
    or query, as `open_side` does; `no`: what `text` is not either where it is none of them."""
    if text.startswith(QUERY):
        return _query_side(engine, text.removeprefix(QUERY).strip())
    side = (
        _database_side(engine, text) if text.startswith(DATABASE) else _location_side(engine, text)
    )
    if side is None:
        raise _unreadable_side_error(
            text, f"it is no {no}, and {Path.cwd() / text} is no file or folder", FORMS
        )
    return side


def _table_side(lake: Lake, contract: Contract, moment: str) -> Side:
    """A table now (moment ""), at a version, a time, a write, or in a snapshot."""
    if moment.startswith(SNAPSHOT):
        return _snapshot_side(lake, contract.name, moment)
    version = _side_moment(lake, contract.name, moment).of(contract.name)
    files = lake.store.data_files(contract, version)
    return Side(
        f"{contract.name} version {version} of {lake.address}",
        rows_query(files, contract),
        contract,
    )


def _foreign_table_side(engine: "DuckDBPyConnection", lake: Lake, table: str, moment: str) -> Side:
    """A table of another lake, as its log describes it: the other lake's code does not run."""
    if moment.startswith(SNAPSHOT):
        return _snapshot_side(lake, table, moment)
    if not (table and lake.store.exists(table)):
        raise _unreadable_side_error(
            f"{LAKE}{lake.address}#{table}", "the lake has no such table", FORMS
        )
    version = _side_moment(lake, table, moment).of(table)
    return Side(
        f"{table} version {version} of {lake.address}",
        lake.store.logged_rows(engine, table, version),
    )


def _snapshot_side(lake: Lake, table: str, moment: str) -> Side:
    """Return a table as a snapshot keeps it; `moment` is `snapshot:NAME`."""
    snapshot = find_snapshot(lake, moment.removeprefix(SNAPSHOT))
    kept = SnapshotReader(lake, snapshot).table(table).pinned()
    rows = rows_query(kept.files, kept.contract)
    return Side(f"{table}@{moment} of {lake.address}", rows, kept.contract)


def _side_moment(lake: Lake, table: str, text: str) -> Moment:
    """Return the moment that follows `@` in the name of a side: nothing (now), a version,
    `write:ID`, or a time (UTC if it says no zone)."""
    if not text:
        return Moment(lake)
    if text.isdigit():
        return Moment(lake, int(text))
    if text.startswith(WRITE):
        return Moment.after_write(lake, table, text.removeprefix(WRITE))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _unreadable_side_error(
            f"{table}@{text}", "what follows @ is no version, time, write or snapshot", FORMS
        ) from None
    return Moment(lake, at=at if at.tzinfo else at.replace(tzinfo=UTC))


def _query_side(
    engine: "DuckDBPyConnection",
    query: str,
    lake: Lake | None = None,
    known: Mapping[str, Contract] | None = None,
) -> Side:
    """The rows of a query over `known` tables of the lake and files, under a candidate as they will
    be published. The query is refused if it could write."""
    with translated_side_errors(query, CORRECT):
        refuse_other_statements(engine, query)
    tables = {} if lake is None else _queried_tables(query, lake, known or {})
    setup = [f"CREATE TEMP VIEW {quoted_name(name)} AS {rows}" for name, rows in tables.items()]
    with translated_side_errors(query, "`backfill-assets verify` names damaged files"):
        for statement in setup:
            engine.execute(statement)
    with translated_side_errors(query, CORRECT):
        refuse_writing(engine, query)
        name, keeping = _materialize_query(engine, query.rstrip().rstrip(";"))
    # Their names are free for the other side's.
    cleanup = [f"DROP VIEW {quoted_name(table)}" for table in tables]
    for statement in cleanup:
        engine.execute(statement)
    title = QUERY + " ".join(query.split())
    return Side(title, f"SELECT * FROM {name}", setup=(*setup, keeping, *cleanup))


def _queried_tables(query: str, lake: Lake, known: Mapping[str, Contract]) -> dict[str, str]:
    """The rows, as a SELECT, of each of the `known` tables that a query may read and that the lake,
    or the lake that it is a candidate of, has."""
    named = named_tables(query)
    lakes = [lake] if lake.base_lake is None else [lake, lake.base_lake]
    tables = dict[str, str]()
    for name, contract in known.items():
        may_be_read = named is None or name in named
        if may_be_read and any(of.store.exists(contract.name) for of in lakes):
            tables[contract.name] = rows_as_published(lake, contract)
    return tables


def _materialize_query(engine: "DuckDBPyConnection", query: str) -> tuple[str, str]:
    """Keep the rows of a query as they are now; returns the temporary table and the statement that
    made it."""
    [(count,)] = engine.execute("SELECT count(*) FROM duckdb_tables()").fetchall()
    name = f"side_{count}"
    statement = f"CREATE TEMP TABLE {name} AS {query}\n"  # the line ends a comment of the query's
    engine.execute(statement)
    return name, statement


def _database_side(engine: "DuckDBPyConnection", text: str) -> Side:
    """The rows of a table, or of a SELECT, in PostgreSQL; the address keeps its password out of the
    side's name."""
    with (
        postgres_connection(text, _unreadable_side_error) as (name, connection, what),
        translated_side_errors(name),
        connection.cursor() as cursor,
    ):
        query = (
            what if re.match(r"(select|with)\b", what, re.IGNORECASE) else f"SELECT * FROM {what}"
        )
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(query)
        batches = cursor.fetch_record_batch()
        engine.register("from_database", batches)
        table, _ = _materialize_query(engine, "SELECT * FROM from_database")
        numbers = [f.name for f in batches.schema if getattr(f.type, "type_name", "") == "numeric"]
        by_hand = _csv_statement(engine, table, f"psql {name.partition('#')[0]} -c", query)
        return Side(
            name, _with_decimals(engine, f"SELECT * FROM {table}", numbers), setup=(by_hand,)
        )


def _with_decimals(engine: "DuckDBPyConnection", select: str, numbers: Collection[str]) -> str:
    """The SELECT with these texts as decimals: ADBC gives PostgreSQL's NUMERIC, which has no bound,
    as text."""
    casts = []
    for column in map(quoted_name, numbers):
        digits = f"SELECT coalesce(max(strlen(split_part({column}, '.', 2))), 0) FROM ({select})"
        [(scale,)] = engine.execute(digits).fetchall()
        casts.append(f"CAST({column} AS DECIMAL({GREATEST_PRECISION}, {scale})) AS {column}")
    return f"SELECT * REPLACE ({', '.join(casts)}) FROM ({select})" if casts else select


def _csv_statement(engine: "DuckDBPyConnection", table: str, psql: str, query: str) -> str:
    """The statement that reads, by hand, the rows of a database from a file that its own client
    writes first."""
    kinds = engine.execute(f"DESCRIBE {table}").fetchall()
    columns = ", ".join(f"{sql_literal(name)}: {sql_literal(kind)}" for name, kind, *_ in kinds)
    line = " ".join(query.split())
    return (
        f"-- first: {psql} \"\\copy ({line}) TO '{table}.csv' CSV HEADER\"\nCREATE TEMP TABLE "
        f"{table} AS "
        f"SELECT * FROM read_csv('{table}.csv', header = true, allow_quoted_nulls = false, "
        f"columns = {{{columns}}})"
    )


def _location_side(engine: "DuckDBPyConnection", text: str) -> Side | None:
    """The rows of a Delta table, or of files of one kind; None if nothing lies there. In a bucket
    of a table alone."""
    place = bucket_prefix_at(text) if text.partition("://")[0] in SCHEMES else Folder(text)
    if is_delta(place):
        version, select = delta_rows(engine, place)
        return Side(f"{text} version {version}", select)
    if place.is_store:
        raise _unreadable_side_error(
            text, "no Delta table lies there", "Copy files out of the bucket, and name their folder"
        )
    files = data_files_at(str(Path(text).absolute()))  # the kept SQL runs anywhere
    if not files:
        return None
    listed = f"[{', '.join(map(sql_literal, files))}]"
    if all(f.endswith(".parquet") for f in files):
        rows = f"read_parquet({listed}, can_have_nan = true, union_by_name = true)"
    else:
        rows = f"read_csv({listed}, union_by_name = true)"
    return Side(name=text, select=f"SELECT * FROM {rows}", contract=None, files=_file_stamps(files))


def totals_by_grain(
    engine: "DuckDBPyConnection", side: Side, grain: str, columns: Collection[str]
) -> Side:
    """Return totals of a side, by the first day of their `day` or `month`, or of `all`; NULL totals
    are left out. A day is a date or text that begins with one, a month also `2024-03`."""
    wanted = [*columns] if grain == ALL else [*columns, grain]
    refuse_lacking_columns(side, wanted, side_columns(engine, side), "of the total")
    any_value = " OR ".join(f"{quoted_name(c)} IS NOT NULL" for c in columns)
    first = f"CAST(rpad(CAST({quoted_name(grain)} AS VARCHAR), 10, '-01') AS DATE)"
    cells = {
        ALL: f"1 AS {quoted_name(ALL)}, *",
        "month": f"* REPLACE (CAST(date_trunc('month', {first}) AS DATE) AS month)",
    }
    chosen = cells.get(grain, f"* REPLACE ({first} AS {quoted_name(grain)})")
    return replace(side, select=f"SELECT {chosen} FROM ({side.select}) WHERE {any_value}")


def _file_stamps(files: Iterable[str]) -> FileStamps:
    stats = ((f, Path(f).stat()) for f in files if Path(f).exists())
    return tuple((f, stat.st_ino, stat.st_size, stat.st_mtime_ns) for f, stat in stats)


@contextmanager
def translated_side_errors(name: str, fix: str = FORMS) -> Iterator[None]:
    """Turn errors of DuckDB inside the block into BackfillError that names the side."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        text = str(error).partition("Please try installing")[0]
        lines = [line.strip() for line in text.splitlines()]
        first = next(line for line in lines if line)
        if "extension" in first:
            fix = "DuckDB fetches no extension here: convert it to Parquet or CSV first"
        raise _unreadable_side_error(name, first.rstrip(".! "), fix) from error


def side_columns(engine: "DuckDBPyConnection", side: Side) -> dict[str, str]:
    """The types of the side's columns by name, as DuckDB writes them."""
    with translated_side_errors(side.name):
        described = engine.execute(f"DESCRIBE {side.select}").fetchall()
    return {name: kind for name, kind, *_ in described}


def refuse_lacking_columns(
    side: Side, wanted: Collection[str], known: Collection[str], what: str
) -> None:
    """Raise BackfillError if the side lacks a column that the request names."""
    if lacking := sorted(set(wanted) - set(known)):
        raise _unreadable_side_error(
            side.name,
            f"it has no column {', '.join(lacking)} ({what})",
            f"Its columns: {', '.join(known)}",
        )


def _unreadable_side_error(side: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"the side {side}", culprit, NOTHING_WAS_DONE, fix)


def data_files_at(place: str) -> list[str]:
    """The Parquet and CSV files that a path, a pattern or a folder names, sorted."""
    pattern = f"{place.rstrip('/')}/**/*" if Path(place).is_dir() else place
    paths = glob.iglob(pattern, recursive=True)  # noqa: PTH207  # a pattern may be absolute
    return sorted(f for f in paths if FILES.search(f))
