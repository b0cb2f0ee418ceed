"""The places of an export: a folder of Parquet files by day, and a table in PostgreSQL. Each replaces days as a whole.

Not here: which days (`export`). A folder is read by day: while days are replaced, a reader sees each old or new. In
PostgreSQL a batch of days is one transaction.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import DayEntry
from backfill_assets.lake.embedded import connection, literal, selection
from backfill_assets.lake.files import delete, publish, read_json, write_json
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.operations.postgres import DATABASE, connected

NOTES = "_exported.json"  # beside a folder's days; readers of Parquet leave out names that begin with _
TABLE_OF_NOTES = "backfill_assets_exports"
CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE_OF_NOTES} (target text, day date, version bigint, rows bigint,
fingerprint text, exported_at timestamptz DEFAULT now(), PRIMARY KEY (target, day))"""
NOTE = f"INSERT INTO {TABLE_OF_NOTES} (target, day, version, rows, fingerprint) VALUES ($1, $2::date, $3, $4, $5)"


@dataclass(frozen=True)
class HeldDay:
    """What a place holds of a day: rows and fingerprint, of which version of the table."""

    version: int
    rows: int
    fingerprint: str

    @classmethod
    def of(cls, version: int, entry: DayEntry) -> "HeldDay":
        """What it holds once a day of the table is there."""
        return cls(version, entry.rows, f"{entry.scheme}:{entry.fingerprint}")

    def equals(self, other: "HeldDay") -> bool:
        """Whether it is the same rows, whatever the version."""
        return (self.rows, self.fingerprint) == (other.rows, other.fingerprint)


@dataclass(frozen=True)
class DayBatch:
    """Days to replace, each with what is then held of it, and the addresses of the data files that hold their rows."""

    days: Mapping[date, HeldDay]
    files: Sequence[str]


class Sink(Protocol):
    """A place of one table, open and locked."""

    @property
    def name(self) -> str:
        """The place in words."""

    def held(self) -> dict[date, HeldDay]:
        """What it holds, by day."""

    def replace(self, batch: DayBatch) -> None:
        """Replace the days, rows and notes together."""


@contextmanager
def sink_of(lake: Lake, contract: Contract, to: str) -> Iterator[Sink]:
    """Open the place that `to` names for a table: a folder, or postgresql://…#TABLE.

    Raises BackfillError if it cannot be written, or another export of the table to it runs.
    """
    if not to.startswith(DATABASE):
        folder = Path(to) if Path(to).is_absolute() else lake.root / to
        folder = folder / contract.name
        if lake.tables in folder.parents or folder == lake.tables:
            raise _refused(to, "it lies among the lake's own tables", "Name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / ".lock", timeout=1):
                yield FolderSink(lake, contract, folder)
        except Timeout:
            raise _refused(to, "another export of the table to it runs", "Wait for it, then do it again") from None
        return
    with connected(to, _refused) as (name, connection, table):
        yield PostgresSink(lake, contract, name, connection, ".".join(map(quoted, table.split("."))))


@dataclass(frozen=True)
class FolderSink:
    """A folder: `DAY_COLUMN=YYYY-MM-DD/part-0.parquet` per day with rows, and notes of all days."""

    lake: Lake
    contract: Contract
    folder: Path

    @property
    def name(self) -> str:
        """The folder."""
        return str(self.folder)

    def held(self) -> dict[date, HeldDay]:
        """What the notes say; a day whose file is gone is not held."""
        notes = {date.fromisoformat(d): HeldDay(**h) for d, h in read_json(self.folder / NOTES).items()}
        return {d: h for d, h in notes.items() if not h.rows or self._file(d).exists()}

    def replace(self, batch: DayBatch) -> None:
        """Write the days one by one, each file beside its place and renamed, then the notes. Stopped in between, the
        next export writes these days again."""
        for day, held in batch.days.items():
            self._write(day, held, batch.files)
        notes = self.held() | dict(batch.days)
        write_json(self.folder / NOTES, {str(d): asdict(h) for d, h in sorted(notes.items())})

    def _write(self, day: date, held: HeldDay, files: Sequence[str]) -> None:
        target = self._file(day)
        if not held.rows:
            delete(target)
            return
        target.parent.mkdir(exist_ok=True)
        part = target.with_name(f".{target.name}")
        column = quoted(self.contract.day_column)
        rows = f"{selection(files, self.contract)}"
        keys = ", ".join(map(quoted, self.contract.key))
        with connection(self.lake) as engine:
            engine.execute(
                f"COPY (SELECT * EXCLUDE ({column}) FROM ({rows}) WHERE {column} = DATE '{day}' ORDER BY {keys}) "
                f"TO {literal(str(part))} (FORMAT parquet, COMPRESSION zstd)"
            )
        publish(part, target)

    def _file(self, day: date) -> Path:
        return self.folder / f"{self.contract.day_column}={day}" / "part-0.parquet"


@dataclass
class PostgresSink:
    """A table in PostgreSQL, made at the first export, and the notes in a table of their own beside it."""

    lake: Lake
    contract: Contract
    name: str
    connection: Any
    table: str

    def held(self) -> dict[date, HeldDay]:
        """What the notes say; nothing where the table is gone."""
        with self.connection.cursor() as cursor:
            cursor.execute(CREATE)
            if not self._exists(cursor):
                cursor.execute(f"DELETE FROM {TABLE_OF_NOTES} WHERE target = $1", (self.table,))
            found = self._noted(cursor)
        self.connection.commit()
        return found

    def _noted(self, cursor: Any) -> dict[date, HeldDay]:
        cursor.execute(f"SELECT day, version, rows, fingerprint FROM {TABLE_OF_NOTES} WHERE target = $1", (self.table,))
        return {day: HeldDay(version, rows, mark) for day, version, rows, mark in cursor.fetchall()}

    def _exists(self, cursor: Any) -> bool:
        cursor.execute("SELECT to_regclass($1) IS NOT NULL", (self.table,))
        return bool(cursor.fetchall()[0][0])

    def replace(self, batch: DayBatch) -> None:
        """Replace the days and their notes in one transaction; days that hold a newer version by then stay."""
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext($1))", (self.table,))
            there = self._noted(cursor)
            days = [d for d, h in batch.days.items() if d not in there or there[d].version <= h.version]
            listed = ", ".join(f"DATE '{d}'" for d in days) or "NULL"
            if self._exists(cursor):
                cursor.execute(f"DELETE FROM {self.table} WHERE {quoted(self.contract.day_column)} IN ({listed})")
            with connection(self.lake) as engine:
                rows = f"SELECT * FROM ({selection(batch.files, self.contract)})"
                rows += f" WHERE {quoted(self.contract.day_column)} IN ({listed})"
                self._insert(cursor, engine.sql(rows).to_arrow_reader())
            cursor.execute(f"DELETE FROM {TABLE_OF_NOTES} WHERE target = $1 AND day IN ({listed})", (self.table,))
            for day in days:
                held = batch.days[day]
                cursor.execute(NOTE, (self.table, str(day), held.version, held.rows, held.fingerprint))
        self.connection.commit()

    def _insert(self, cursor: Any, rows: Any) -> None:
        schema, _, table = self.table.rpartition(".")
        named = {"db_schema_name": _plain(schema)} if schema else {}
        cursor.adbc_ingest(_plain(table), rows, mode="create_append", **named)


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"')


def _refused(to: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"the place {to}", culprit, "What is there holds whole days, old or new", fix)
