"""Places of exports: files by day in a folder or a bucket, or a table in PostgreSQL, with notes of
what they hold.

A place keeps per table and day the rows, a mark of the content and the version that it holds. Not
here: which days are brought (`export`), and connections to PostgreSQL (`postgres`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from posixpath import normpath
from typing import Any

from backfill_assets.kernel.core.addresses import SCHEMES
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.readings import set_name
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.records import json_of, record_of
from backfill_assets.kernel.place.choice import bucket_prefix_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import Held, Place
from backfill_assets.kernel.tables.embedded import duckdb_cursor, rows_query, sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.folder import TABLES
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.postgres import DATABASE, postgres_connection, text_with_nul

# Beside a folder's days; readers of Parquet leave out names that begin with _.
NOTES = "_exported.json"
TABLE_OF_NOTES = "backfill_assets_exports"
CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE_OF_NOTES} (
target text, day date, version bigint, rows bigint,
fingerprint text, exported_at timestamptz DEFAULT now(), PRIMARY KEY (target, day))"""
# A temporary one: the types that the driver gives to columns.
TABLE_OF_COLUMNS = "backfill_assets_columns"
COLUMNS = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"""
WIDER = (("integer", "bigint"), ("integer[]", "bigint[]"))  # a DECIMAL of any precision is numeric
NOTE = (
    f"INSERT INTO {TABLE_OF_NOTES} (target, day, version, rows, fingerprint) VALUES ($1, "
    "$2::date, $3, $4, $5)"
)


@dataclass(frozen=True)
class ExportedDay:
    """A day as a place holds it."""

    version: int  # of the table that the rows are from
    rows: int
    # The scheme, the fingerprint, the columns' names (fingerprints leave them out), names with
    # types, and the table's id, which changes when the table is made anew.
    fingerprint: str

    @classmethod
    def of(
        cls, version: int, entry: DayEntry, columns: Mapping[str, str], table_id: str
    ) -> "ExportedDay":
        """The day of a table with these `columns` and types after its export."""
        typed = set_name(tuple(f"{name} {kind}" for name, kind in columns.items()))
        mark = f"{entry.scheme}:{entry.fingerprint}:{set_name(tuple(columns))}:{typed}:{table_id}"
        return cls(version, entry.rows, mark)

    def equals(self, other: "ExportedDay") -> bool:
        """Whether it is the same rows, whatever the version."""
        return (self.rows, self.fingerprint) == (other.rows, other.fingerprint)

    def is_newer_than(self, other: "ExportedDay") -> bool:
        """Whether it is of a later version of the same table."""
        own, others = (mark.split(":")[-1] for mark in (self.fingerprint, other.fingerprint))
        return self.version > other.version and own == others


@contextmanager
def sink_of(lake: Lake, contract: Contract, to: str) -> Iterator["Sink"]:
    """Open and lock the place that `to` names for a table: a folder (a relative one lies below the
    lake), a prefix in a bucket, or postgresql://…#TABLE.

    Raises BackfillError if it cannot be written, or another export of the table to it runs.
    """
    if not to.startswith(DATABASE):
        place = _place_of(lake, to).at(contract.name)
        if f"{place.uri()}/".startswith(f"{lake.place.uri(TABLES)}/"):
            raise _place_error(to, "it lies among the lake's own tables", "Name another folder")
        try:
            with place.lock(".lock", to, place.patience):
                yield FolderSink(lake, contract, place)
        except Held:
            raise _place_error(
                to, "another export of the table to it runs", "Wait for it, then do it again"
            ) from None
        return
    with postgres_connection(to, _place_error) as (name, connection, table):
        yield PostgresSink(
            lake, contract, name, connection, ".".join(map(quoted_name, table.split(".")))
        )


def _place_of(lake: Lake, to: str) -> Place:
    """Return the folder or prefix that `to` names: an address, a path of this machine, or a path
    relative to the lake. Raises BackfillError for one that no export goes to."""
    scheme, is_address, _ = to.partition("://")
    if is_address and scheme not in SCHEMES:
        raise _place_error(
            to,
            f"no export goes to {scheme}://",
            f"Write {', '.join(f'{s}://' for s in SCHEMES)} or a folder",
        )
    if is_address:
        return bucket_prefix_at(to)
    if Path(to).is_absolute() or not lake.place.is_store:
        return Folder(str(lake.root / to))
    if (below := normpath(to)).startswith(".."):
        raise _place_error(to, f"it leads out of {lake.address}", "Write the whole address")
    return lake.place.at(below)


@dataclass(frozen=True)
class FolderSink:
    """A folder or bucket: `DAY_COLUMN=YYYY-MM-DD/part-0.parquet` per day with rows, and notes of
    all days."""

    lake: Lake
    contract: Contract
    place: Place

    @property
    def name(self) -> str:
        """The folder or address."""
        return self.place.uri()

    def held(self) -> dict[date, ExportedDay]:
        """The noted days; without days whose file is gone."""
        notes = {
            date.fromisoformat(d): record_of(ExportedDay, h)
            for d, h in self.place.read_json(NOTES).items()
        }
        there = {*self.place.below()} if notes else set()
        return {d: h for d, h in notes.items() if not h.rows or self._file_of_day(d) in there}

    def replace(self, days: Mapping[date, ExportedDay], files: Sequence[str]) -> None:
        """Strike the `days` out of the notes, write their rows (in the data `files`) day by day,
        each file beside its place and renamed, then note them. Stopped in between, the next export
        writes these days again, whatever the lake holds by then."""
        others = {d: h for d, h in self.held().items() if d not in days}
        self._note(others)
        for day, held in days.items():
            self._write_day(day, held, files)
        self._note(others | dict(days))

    def _note(self, notes: Mapping[date, ExportedDay]) -> None:
        self.place.write_json(NOTES, json_of(dict(sorted(notes.items()))))
        self.place.sync(NOTES, "")

    def _write_day(self, day: date, held: ExportedDay, files: Sequence[str]) -> None:
        """Write the rows of a day from `files` as one Parquet file, in the order of the key; a day
        without rows has no file."""
        target = self._file_of_day(day)
        if not held.rows:
            self.place.delete(target)
            return
        folder, _, name = target.rpartition("/")
        part = self.place.prepared(folder) / f".{name}"
        column = quoted_name(self.contract.day_column)
        rows = f"{rows_query(files, self.contract)}"
        keys = ", ".join(map(quoted_name, self.contract.key)) or "ALL"
        with duckdb_cursor(self.lake) as engine:
            engine.execute(
                f"COPY (SELECT * EXCLUDE ({column}) FROM ({rows}) WHERE {column} = DATE '{day}' "
                f"ORDER BY {keys}) "
                f"TO {sql_literal(str(part))} (FORMAT parquet, COMPRESSION zstd)"
            )
        self.place.put(target, part)

    def _file_of_day(self, day: date) -> str:
        return f"{self.contract.day_column}={day}/part-0.parquet"


@dataclass
class PostgresSink:
    """A table in PostgreSQL, made at the first export, and the notes in a table of their own beside
    it."""

    lake: Lake
    contract: Contract
    name: str
    connection: Any
    table: str

    def held(self) -> dict[date, ExportedDay]:
        """The noted days; none where the table is gone."""
        with self.connection.cursor() as cursor:
            cursor.execute(CREATE)
            if not self._table_exists(cursor):
                cursor.execute(f"DELETE FROM {TABLE_OF_NOTES} WHERE target = $1", (self.table,))
            held_days = self._noted_days(cursor)
        self.connection.commit()
        return held_days

    def _noted_days(self, cursor: Any) -> dict[date, ExportedDay]:
        cursor.execute(
            f"SELECT day, version, rows, fingerprint FROM {TABLE_OF_NOTES} WHERE target = $1",
            (self.table,),
        )
        return {
            day: ExportedDay(version, rows, mark) for day, version, rows, mark in cursor.fetchall()
        }

    def _table_exists(self, cursor: Any) -> bool:
        cursor.execute("SELECT to_regclass($1) IS NOT NULL", (self.table,))
        return bool(cursor.fetchall()[0][0])

    def replace(self, days: Mapping[date, ExportedDay], files: Sequence[str]) -> None:
        """Replace the `days`, whose rows the data `files` hold, and their notes in one transaction;
        days that hold a newer version by then stay."""
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext($1))", (self.table,))
            noted = self._noted_days(cursor)
            older = {
                d: h for d, h in days.items() if d not in noted or not noted[d].is_newer_than(h)
            }
            listed = _day_literals(older)
            if self._table_exists(cursor):
                cursor.execute(
                    f"DELETE FROM {self.table} WHERE {quoted_name(self.contract.day_column)} IN "
                    f"({listed})"
                )
            with duckdb_cursor(self.lake) as engine:
                rows = f"SELECT * FROM ({rows_query(files, self.contract)})"
                rows += f" WHERE {quoted_name(self.contract.day_column)} IN ({listed})"
                if nul := text_with_nul(engine, rows, self.contract):
                    raise _place_error(
                        self.name, nul, "Take it out in select, and load the day again"
                    )
                if noted:
                    self._fit_columns(cursor, engine.sql(f"{rows} LIMIT 0").to_arrow_reader())
                schema, _, table = self.table.rpartition(".")
                named = {"db_schema_name": _unquoted_name(schema)} if schema else {}
                cursor.adbc_ingest(
                    _unquoted_name(table),
                    engine.sql(rows).to_arrow_reader(),
                    mode="create_append",
                    **named,
                )
            self._note(cursor, older)
        self.connection.commit()

    def _note(self, cursor: Any, days: Mapping[date, ExportedDay]) -> None:
        cursor.execute(
            f"DELETE FROM {TABLE_OF_NOTES} WHERE target = $1 AND day IN ({_day_literals(days)})",
            (self.table,),
        )
        for day, held in days.items():
            cursor.execute(NOTE, (self.table, str(day), held.version, held.rows, held.fingerprint))

    def _fit_columns(self, cursor: Any, rows: Any) -> None:
        """Give the table of earlier exports the columns that it lacks, and wider types, as `rows`
        (none) have them."""
        cursor.adbc_ingest(TABLE_OF_COLUMNS, rows, mode="create", temporary=True)
        cursor.execute(COLUMNS, (self.table,))
        present = dict(cursor.fetchall())
        cursor.execute(COLUMNS, (TABLE_OF_COLUMNS,))
        wanted = dict(cursor.fetchall())
        for name, kind in wanted.items():
            if name not in present:
                cursor.execute(f"ALTER TABLE {self.table} ADD COLUMN {quoted_name(name)} {kind}")
            elif (present[name], kind) in WIDER:
                cursor.execute(
                    f"ALTER TABLE {self.table} ALTER COLUMN {quoted_name(name)} TYPE {kind}"
                )
        cursor.execute(f"DROP TABLE {TABLE_OF_COLUMNS}")


Sink = FolderSink | PostgresSink


def _day_literals(days: Iterable[date]) -> str:
    return ", ".join(f"DATE '{d}'" for d in days) or "NULL"


def _unquoted_name(name: str) -> str:
    return name[1:-1].replace('""', '"')


def _place_error(to: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(
        f"the place {to}", culprit, "What is there holds whole days, old or new", fix
    )
