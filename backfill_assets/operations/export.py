"""Export: days of a table in a place elsewhere, each replaced as a whole, and only those that changed since.

A place is a folder of Parquet files by day, or a table in PostgreSQL. It keeps per table and day the rows, the
fingerprint and the version that it holds, and changes these together with the rows: an export that was stopped goes on,
one done twice does nothing. Not here: connections to PostgreSQL (`postgres`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import DayRange, ranges
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.readings import name_of
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.states import States
from backfill_assets.lake.embedded import connection, literal, selection
from backfill_assets.lake.files import delete, publish, read_json, write_json
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import settled_view
from backfill_assets.operations.fitness import unfit_days_now, unfit_text
from backfill_assets.operations.postgres import DATABASE, connected, text_with_nul

NOTES = "_exported.json"  # beside a folder's days; readers of Parquet leave out names that begin with _
TABLE_OF_NOTES = "backfill_assets_exports"
CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE_OF_NOTES} (target text, day date, version bigint, rows bigint,
fingerprint text, exported_at timestamptz DEFAULT now(), PRIMARY KEY (target, day))"""
NOTE = f"INSERT INTO {TABLE_OF_NOTES} (target, day, version, rows, fingerprint) VALUES ($1, $2::date, $3, $4, $5)"


@dataclass(frozen=True)
class HeldDay:
    """The rows and the content of a day in a place, and the table version that they are from. `fingerprint` is the
    scheme, the fingerprint and the name of the columns, which fingerprints leave out."""

    version: int
    rows: int
    fingerprint: str

    @classmethod
    def of(cls, version: int, entry: DayEntry, columns: tuple[str, ...]) -> "HeldDay":
        """The day of a table with these `columns` after its export."""
        return cls(version, entry.rows, f"{entry.scheme}:{entry.fingerprint}:{name_of(columns)}")

    def equals(self, other: "HeldDay") -> bool:
        """Whether it is the same rows, whatever the version; notes of earlier releases name no columns."""
        marks = zip(self.fingerprint.split(":"), other.fingerprint.split(":"), strict=False)
        return self.rows == other.rows and all(one == another for one, another in marks)


@contextmanager
def sink_of(lake: Lake, contract: Contract, to: str) -> Iterator["Sink"]:
    """Open and lock the place that `to` names for a table: a folder, or postgresql://…#TABLE.

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

    def replace(self, days: Mapping[date, HeldDay], files: Sequence[str]) -> None:
        """Write the `days`, whose rows the data `files` hold, one by one, each file beside its place and renamed, then
        the notes. Stopped in between, the next export writes these days again."""
        for day, held in days.items():
            self._write(day, held, files)
        notes = self.held() | dict(days)
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
            held_days = self._noted(cursor)
        self.connection.commit()
        return held_days

    def _noted(self, cursor: Any) -> dict[date, HeldDay]:
        cursor.execute(f"SELECT day, version, rows, fingerprint FROM {TABLE_OF_NOTES} WHERE target = $1", (self.table,))
        return {day: HeldDay(version, rows, mark) for day, version, rows, mark in cursor.fetchall()}

    def _exists(self, cursor: Any) -> bool:
        cursor.execute("SELECT to_regclass($1) IS NOT NULL", (self.table,))
        return bool(cursor.fetchall()[0][0])

    def replace(self, days: Mapping[date, HeldDay], files: Sequence[str]) -> None:
        """Replace the `days`, whose rows the data `files` hold, and their notes in one transaction; days that hold a
        newer version by then stay."""
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext($1))", (self.table,))
            noted = self._noted(cursor)
            older = {d: h for d, h in days.items() if d not in noted or noted[d].version <= h.version}
            listed = ", ".join(f"DATE '{d}'" for d in older) or "NULL"
            if self._exists(cursor):
                cursor.execute(f"DELETE FROM {self.table} WHERE {quoted(self.contract.day_column)} IN ({listed})")
            with connection(self.lake) as engine:
                rows = f"SELECT * FROM ({selection(files, self.contract)})"
                rows += f" WHERE {quoted(self.contract.day_column)} IN ({listed})"
                if nul := text_with_nul(engine, rows, self.contract):
                    raise _refused(self.name, nul, "Take it out in select, and load the day again")
                schema, _, table = self.table.rpartition(".")
                named = {"db_schema_name": _plain(schema)} if schema else {}
                cursor.adbc_ingest(_plain(table), engine.sql(rows).to_arrow_reader(), mode="create_append", **named)
            cursor.execute(f"DELETE FROM {TABLE_OF_NOTES} WHERE target = $1 AND day IN ({listed})", (self.table,))
            for day, held in older.items():
                cursor.execute(NOTE, (self.table, str(day), held.version, held.rows, held.fingerprint))
        self.connection.commit()


Sink = FolderSink | PostgresSink


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"')


def _refused(to: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"the place {to}", culprit, "What is there holds whole days, old or new", fix)


BATCH_DAYS = 31  # in one transaction, and between two notes of what a folder holds


@dataclass(frozen=True)
class Exported:
    """An export of a table at a version: the days replaced; the number of days that the place held already; unfit days
    left there as they are (in words); days of which it holds a newer version; days that it held before (`known`)."""

    table: str
    to: str
    version: int
    replaced: tuple[date, ...]
    rows: int
    same: int
    unfit: str
    newer: int
    known: int = 0

    def __str__(self) -> str:
        """The export as one line."""
        verb = "replaced" if self.same or self.known else "written"
        days = f"{ranges(self.replaced)} {verb} ({self.rows} rows)" if self.replaced else "nothing changed"
        more = f"; left as it is there: {self.unfit}" if self.unfit else ""
        more += f"; {self.newer} day(s) there are of a newer version" if self.newer else ""
        return f"{self.table} to {self.to}: {days}, {self.same} day(s) as they were{more}"


def export(lake: Lake, pipeline: Pipeline, table: str, to: str, days: DayRange | None = None) -> Exported:
    """Bring the days (None: all) of a table to the place `to`, as its newest version has them.

    Days that are missing, stale, incomplete or pending stay there as they are. Raises BackfillError for an unknown
    table, and a place that cannot be written, which then holds whole days, old or new.
    """
    contract = pipeline.contract(table, "Nothing was exported")
    states = pipeline.states(settled_view(lake, pipeline.contracts))
    view = states.view.table(table)
    wanted = sorted(d for d in view.stamps if days is None or d in days)
    if not wanted:
        where = f" from {days.start} to {days.last}" if days else ""
        raise BackfillError(
            f"the table {table}", f"it has no day{where}", "Nothing was exported", "`backfill-assets status` lists them"
        )
    with sink_of(lake, contract, to) as sink:
        return _export(lake, contract, states, wanted, sink)


def _export(lake: Lake, contract: Contract, states: States, wanted: Sequence[date], sink: Sink) -> Exported:
    table, view = contract.name, states.view.table(contract.name)
    unfit, kept = unfit_days_now(states, table, wanted), sink.held()
    ours = {d: HeldDay.of(view.version, view.stamps[d].entry, contract.column_names) for d in wanted if d not in unfit}
    newer = {d for d in ours if d in kept and kept[d].version > view.version}
    changed = [d for d, held in ours.items() if d not in newer and (d not in kept or not kept[d].equals(held))]
    for first in range(0, len(changed), BATCH_DAYS):
        days = changed[first : first + BATCH_DAYS]
        files = lake.store.data_files(contract, view.version, days)
        sink.replace({d: ours[d] for d in days}, files)
    same, rows = len(ours) - len(changed) - len(newer), sum(ours[d].rows for d in changed)
    left = unfit_text(unfit), len(newer), len(kept)
    return Exported(table, sink.name, view.version, tuple(changed), rows, same, *left)


def export_all(lake: Lake, pipeline: Pipeline, names: Sequence[str] = ()) -> list[Exported]:
    """Do the exports of `[exports]` in lake.toml (names: empty = all). Raises as `export`, at the first that fails."""
    known = lake.settings.exports
    if unknown := [n for n in names if n not in known]:
        raise BackfillError(
            f"the export {unknown[0]}", "lake.toml has no such export", "Nothing was exported",
            f"Known are {', '.join(known) or 'none: see [exports] in lake.toml'}; or name a table and --to",
        )  # fmt: skip
    return [export(lake, pipeline, e.table, e.to) for n, e in known.items() if not names or n in names]
