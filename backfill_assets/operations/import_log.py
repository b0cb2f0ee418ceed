"""`import-log`: an append-only table becomes a new lake, its rows landed as deliveries in one file per arrival day.

Not here: opening the source (`reconcile_sides`), loading the files, and matching the lake with the log (`reconcile`).
A killed import goes on where it was: files appear whole, and the manifest says how many rows each day has.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.core.contracts import versions_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.ownership import refuse_foreign
from backfill_assets.core.payload import NO_ENTITY, TAKEN
from backfill_assets.lake.columns import type_of_arrow
from backfill_assets.lake.embedded import literal, new_engine
from backfill_assets.lake.files import Folder
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.place import read_json, write_json
from backfill_assets.lake.queries import QUERY
from backfill_assets.lake.settings import FILE_NAME
from backfill_assets.operations.postgres import DATABASE
from backfill_assets.operations.reconcile import ReconcileRequest, reconcile
from backfill_assets.operations.reconcile_sides import (
    Side,
    columns_of,
    open_elsewhere,
    refuse_lacking,
    unreadable,
)
from backfill_assets.operations.sql import ask

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NOTHING = "Nothing was imported"
MANIFEST, LATEST = Path(".import", "manifest.json"), Path(".import", "latest.parquet")
LANDING = "landing"
CLEAN = "SELECT * EXCLUDE (__key, __event, __arrival, __place, __day, __usable)"
HELD = {  # types of DuckDB that no column of a lake has, by one that holds their values
    "TINYINT": "INTEGER", "SMALLINT": "INTEGER", "UTINYINT": "INTEGER", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(38,0)", "HUGEINT": "DECIMAL(38,0)", "FLOAT": "DOUBLE", "UUID": "VARCHAR", "TIME": "VARCHAR",
    "TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_S": "TIMESTAMPTZ", "TIMESTAMP_MS": "TIMESTAMPTZ",
}  # fmt: skip
SETTINGS = """# Made by `backfill-assets import-log` from {source}
start_date = {start}

[source]
files = "landing/*.parquet"
format = "parquet"
select = {select}

[source.payload]
{payload}

[features]
entity = {entity}

[pipeline]
tables = "backfill_assets.pipeline.tables:delivered"  # every delivery, and the rows that count
"""


@dataclass(frozen=True)
class ImportRequest:
    """The log (a location, duckdb:SELECT …, or postgresql://…#TABLE), the columns of its key, of event and arrival time
    (empty: the event's), the payload (none: all others), and those that name an entity (none: the first that can)."""

    source: str
    key: Sequence[str]
    event_ts: str
    arrival_ts: str = ""
    columns: Sequence[str] = ()
    entity: Sequence[str] = ()

    @property
    def times(self) -> tuple[str, str]:
        """The columns of event and arrival time."""
        return self.event_ts, self.arrival_ts or self.event_ts


@dataclass(frozen=True)
class Imported:
    """The log in figures: rows, keys, rows that the load will quarantine (`unusable`: no key, event or arrival time),
    rows per arrival day; the files that were `written` now (others existed); the columns of the payload."""

    rows: int
    keys: int
    unusable: int
    days: Mapping[str, int]
    written: int
    payload: Sequence[str]

    @property
    def duplicates(self) -> int:
        """Usable rows beyond the first of their key."""
        return self.rows - self.unusable - self.keys


def import_log(root: Path, request: ImportRequest) -> Imported:
    """Make the lake at `root`, or go on with it after a kill. `lake.toml` comes last: half an import is no lake.

    Raises BackfillError for a source that cannot be read or changes meanwhile, for columns that it lacks or that no
    lake can hold, and for a folder that holds another lake or import.
    """
    refuse_foreign(root)
    if not request.source.startswith((QUERY, *DATABASE)):
        request = replace(request, source=str(Path(request.source).resolve()))  # the same log, wherever it is named
    if (root / FILE_NAME).exists() and not (root / str(MANIFEST)).exists():
        raise _refused(str(root), "it is a lake already", "Name a new folder with --into")
    (root / LANDING).mkdir(parents=True, exist_ok=True)
    with new_engine(root) as engine:
        engine.execute("SET preserve_insertion_order = true")  # the order in a file decides between rows of one time
        side = open_elsewhere(engine, request.source)
        with unreadable(side.name, "Correct the options, or cast the column in the source"):
            types = columns_of(engine, side)
            named = [*request.key, *request.times, *request.columns, *request.entity]
            refuse_lacking(side, named, types, "of the options")
            payload = _payload(engine, side, types, request)
            _order(engine, side.select, types, request)
            figures, start = _figures(engine, side, payload, request.key)
            side.refuse_changed()
            _keep_manifest(root, {**vars(request), "source": side.name}, figures)
            days = f"{CLEAN} FROM log WHERE __day = DATE '{{}}' ORDER BY __place"
            written = [_write(engine, days.format(d), root / LANDING / f"{d}.parquet") for d in figures.days]
            columns = ", ".join(["__key AS event_key", "__event AS event_ts", *map(quoted, payload)])
            newest = "QUALIFY row_number() OVER (PARTITION BY __key ORDER BY __place DESC) = 1"
            _write(engine, f"SELECT {columns} FROM log WHERE __usable {newest}", root / LATEST)
    if not (root / FILE_NAME).exists():
        part = root / LANDING / ".settings.part"  # whole or not at all: a kill may come between
        part.write_text(_settings(side.name, request, payload, start), encoding="utf-8")
        part.replace(root / FILE_NAME)
    open_lake(root)
    return replace(figures, written=sum(written))


def _payload(
    engine: "DuckDBPyConnection", side: Side, types: Mapping[str, str], request: ImportRequest
) -> dict[str, str]:
    """The payload's columns with their types as a lake writes them: key columns first, unless lakes use their name."""
    keys = [c for c in request.key if c not in TAKEN]
    chosen = [c for c in dict.fromkeys([*keys, *(request.columns or types)]) if c in keys or c not in request.key]
    chosen = [c for c in chosen if c not in request.times]
    cells = ", ".join(_cell(c, types) for c in chosen)
    schema = engine.sql(f"SELECT {cells} FROM ({side.select}) LIMIT 0").to_arrow_table().schema
    kinds = {f.name: type_of_arrow(f.type) for f in schema}
    if unfit := [f"{c} ({types[c]})" for c, kind in kinds.items() if kind is None or c in TAKEN]:
        culprit = f"{', '.join(unfit)} cannot be a column of a lake, by its type or by a name that lakes use themselves"
        raise _refused(side.name, culprit, "Name the columns to keep with --columns, or rename them in the source")
    return {c: str(kind) for c, kind in kinds.items()}


def _cell(column: str, types: Mapping[str, str]) -> str:
    return f"CAST({quoted(column)} AS {HELD.get(types[column], types[column])}) AS {quoted(column)}"


def _order(engine: "DuckDBPyConnection", select: str, types: Mapping[str, str], request: ImportRequest) -> None:
    """Keep the log in a temporary table, in a total order: by arrival, then by every column."""
    cells = ", ".join(_cell(c, types) for c in types)
    key = " || '|' || ".join(f"CAST({quoted(c)} AS VARCHAR)" for c in request.key)
    event, arrival = (f"TRY_CAST({quoted(c)} AS TIMESTAMPTZ)" for c in request.times)
    place = f"row_number() OVER (ORDER BY {', '.join([arrival, *map(quoted, types)])})"
    day = "CAST(coalesce(__arrival, __event, min(__arrival) OVER ()) AS DATE)"
    engine.execute(
        f"CREATE TEMP TABLE log AS SELECT *, {day} AS __day, __key || __event || __arrival IS NOT NULL AS __usable "
        f"FROM (SELECT *, {key} AS __key, {event} AS __event, {arrival} AS __arrival, {place} AS __place FROM "
        f"(SELECT {cells} FROM ({select}))) ORDER BY __place"
    )


def _figures(
    engine: "DuckDBPyConnection", side: Side, payload: Mapping[str, str], key: Sequence[str]
) -> tuple[Imported, str]:
    """The log in figures, and the first day of its lake; raises where two keys would become one text."""
    counts = "count(*), count(DISTINCT __key) FILTER (__usable), count(*) FILTER (NOT __usable)"
    of_key = ", ".join(map(quoted, key))
    apart = engine.execute(f"SELECT count(DISTINCT ({of_key})) - count(DISTINCT __key) FROM log WHERE __usable")
    if apart.fetchall() != [(0,)]:
        culprit = f"two keys of {of_key} would be one, as a value holds the | that joins them"
        raise _refused(side.name, culprit, "Give it a column without, such as one that hashes the key")
    first = "CAST(CAST(least(min(__arrival), min(__event)) AS DATE) AS VARCHAR)"
    [(rows, keys, unusable, start)] = engine.execute(f"SELECT {counts}, {first} FROM log").fetchall()
    if not keys:
        raise _refused(side.name, f"none of its {rows} row(s) has a key and both times", "Correct the options")
    days = engine.execute("SELECT CAST(__day AS VARCHAR), count(*) FROM log GROUP BY 1 ORDER BY 1").fetchall()
    return Imported(rows, keys, unusable, dict(days), 0, [*payload]), start


def _keep_manifest(root: Path, options: Mapping[str, Any], figures: Imported) -> None:
    """Write the manifest before the first file; one that says otherwise is another import, or of another log."""
    manifest = json.loads(json.dumps({**options, "rows": figures.rows, "keys": figures.keys, "days": figures.days}))
    if read_json(Folder(str(root)), str(MANIFEST)) not in ({}, manifest):
        culprit = "it holds an import with other options, or the log has changed since"
        raise _refused(str(root), culprit, "Name a new folder with --into")
    write_json(Folder(str(root)), str(MANIFEST), manifest)


def _write(engine: "DuckDBPyConnection", rows: str, file: Path) -> bool:
    """Write a whole file, unless it exists; returns whether it was written."""
    if file.exists():
        return False
    part = file.with_name(f".{file.name}.part")  # no name that a load takes for a delivery
    engine.execute(f"COPY ({rows}) TO {literal(str(part))} (FORMAT parquet)")
    part.replace(file)
    return True


def _settings(source: str, request: ImportRequest, payload: Mapping[str, str], start: str) -> str:
    key = ", '|', ".join(f"cast(`{c}` AS string)" for c in request.key)
    cells = [f"concat({key}) AS event_key" if len(request.key) > 1 else f"{key} AS event_key"]
    times = zip(request.times, ("event_ts", "arrival_ts"), strict=True)
    cells += [f"cast(`{c}` AS timestamp) AS {n}" for c, n in times]
    entity = [*request.entity] or [c for c, kind in payload.items() if not kind.startswith(NO_ENTITY)][:1]
    return SETTINGS.format(
        source=" ".join(source.split()), start=start, entity=json.dumps(entity),
        select=json.dumps(", ".join([*cells, *(f"`{c}`" for c in payload)]), ensure_ascii=False),
        payload="\n".join(f"{c} = {json.dumps(kind)}" for c, kind in payload.items()),
    )  # fmt: skip


def held_against_log(root: Path, lake: Lake, pipeline: Pipeline, payload: Sequence[str]) -> tuple[int, int]:
    """Count, in a loaded lake, the rows that count now beyond the first of their key, and the mismatches with the
    newest row of each key in the log. These rows are deleted where nothing mismatches: no second copy of them stays."""
    [table] = versions_of(pipeline.contracts)
    columns = ", ".join(map(quoted, ("event_key", "event_ts", *payload)))
    current = f"SELECT {columns} FROM {table} WHERE known_until IS NULL"
    query = f"SELECT count(*) - count(DISTINCT event_key) AS twice FROM ({current})"
    twice = ask(lake, pipeline, query).rows.to_pylist()[0]["twice"]
    request = ReconcileRequest(f"{QUERY}{current}", str(root / LATEST), key=("event_key",))
    mismatches = reconcile(lake, pipeline, request).mismatches
    if not twice and not mismatches:
        (root / LATEST).unlink()
    return int(twice), mismatches


def _refused(object: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(object, culprit, NOTHING, fix)
