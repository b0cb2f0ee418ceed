"""Small lakes of the contract, described by `lake.toml` alone: landed in, loaded and built, then
read by delta-rs. Here: writing deliveries as files of any format, the settings text, the load path
without Dagster, and contents as plain rows. Not here: what the contents must be (`oracle`)."""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from backfill_assets.dagster.adapter.context import TablesOf
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import load_lock
from backfill_assets.kernel.tables.embedded import is_delta
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.candidate import Candidate, RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline, make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.lakes import LONG_AGO as LONG_AGO
from backfill_assets_tests.lakes import land_bytes as land_in_folder
from backfill_assets_tests.lakes import prepared
from backfill_assets_tests.oracle import COLUMNS, SCHEMA, Row, Rules, ordered

SHARED = '[spark]\nmemory = "2g"\n'  # the `spark` fixture's server serves what says no more
TEXT_SELECT = ", ".join(
    f"{e} AS {c}"
    for c, e in {
        "seq": "cast(seq AS bigint)",
        "arrival_ts": "cast(arrival_ts AS timestamp_ntz)",
        "version_ts": "cast(version_ts AS timestamp_ntz)",
        "event_ts": "cast(event_ts AS timestamp_ntz)",
        "event_key": "event_key",
        "op": "op",
        "entity": "nullif(entity, '')",
        "value": "cast(value AS bigint)",
        "flag": "cast(flag AS int)",
    }.items()
)
FORMATS = {
    "csv": "csv",
    "csv.gz": "csv",
    "jsonl": "jsonl",
    "jsonl.gz": "jsonl",
    "parquet": "parquet",
}


@dataclass(frozen=True)
class World:
    """A lake of the tests and the pipeline that fills it."""

    root: Path
    tables_of: TablesOf = tables

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    def open(self) -> tuple[LakeSession, Pipeline]:
        lake = open_lake(self.root)
        return LakeSession(lake), make_pipeline(self.tables_of(lake.settings))

    def look(self) -> States:
        """The states of all its days, as they are now."""
        lake_session, pipeline = self.open()
        return pipeline.states(read_view(lake_session.lake, pipeline.contracts))

    def backfill(self, days: DayRange, *names: str, force: bool = False) -> dict[str, Candidate]:
        """Load and build tables (all by default) over the days, as a run does; raises what a run
        would fail with."""
        _, pipeline = self.open()
        tables = tuple(t.name for t in pipeline.tables if not names or t.name in names)
        return self.make(Work(days, tables, force=frozenset(tables if force else ())))

    def make(self, work: Work) -> dict[str, Candidate]:
        """Load and build the tables of a work, one after another."""
        lake_session, pipeline = self.open()
        known = KnownStates(lake_session.lake, pipeline)
        found = {}
        for table in work.tables:
            own = replace(work, tables=(table,))
            found[table] = run(RebuildRequest.of(own, lake_session, known, ""))
        return found

    def content(self, table: str, *leave_out: str) -> list[Row]:
        """The rows of a table as delta-rs reads them, ordered; instants in UTC without zone."""
        place = place_at(self.root).at(f"tables/{table}")
        if not is_delta(place):
            return []
        found = DeltaTable(place.uri()).to_pyarrow_table().to_pylist()
        return ordered({k: plain(v) for k, v in row.items() if k not in leave_out} for row in found)

    def contents(self, *leave_out: str) -> dict[str, list[Row]]:
        """All tables of the pipeline and the ledger `arrivals`."""
        _, pipeline = self.open()
        return {
            n: self.content(n, *leave_out) for n in (*(t.name for t in pipeline.tables), "arrivals")
        }

    def fingerprints(self) -> dict[str, dict[date, tuple[int, str]]]:
        """Per table and day the rows and fingerprint that the newest receipt names."""
        found = self.look()
        return {
            name: {
                d: (r.entry.rows, r.entry.fingerprint)
                for d, r in found.view.table(name).latest.items()
            }
            for name in (*found.contracts, "arrivals", "quarantine")
        }

    def days_in(self, state: str, table: str) -> set[date]:
        """The days of a table that have this state, and a receipt."""
        found = self.look()
        return {d for d in found.view.table(table).latest if found.of(table, d) == state}

    def states(self) -> dict[str, set[str]]:
        """Per table the states of the days that have a receipt."""
        found = self.look()
        return {
            name: {found.of(name, d) for d in found.view.table(name).latest}
            for name in found.contracts
        }


def run(request: RebuildRequest) -> Candidate:
    source = request.table.contract.source
    with load_lock(request.lake_session.lake.place, source), prepared(request) as rebuild:
        rebuild.publish()
    return rebuild.ready


def plain(value: Any) -> Any:
    """A cell as `content` gives it."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def make_world(
    root: Path, rules: Rules, format: str = "jsonl", *, as_of: bool = True, more: str = SHARED
) -> World:
    """An empty lake whose `lake.toml` says what `rules` say. `format` is a key of FORMATS."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "landing").mkdir(exist_ok=True)
    select = ", ".join(COLUMNS) if format == "parquet" else TEXT_SELECT
    until = f"as_of = {rules.until.isoformat()}Z\n" if as_of else ""
    short, long = rules.windows_days
    (root / "lake.toml").write_text(f'''start_date = {rules.start}
{until}[source]
files = "landing/**"
format = "{FORMATS[format]}"
select = """{select}"""
[features]
windows_days = [{short}, {long}]
cutoff_grace_hours = {rules.grace_hours}
[labels]
measure = "{rules.measure}"
rule = "{rules.rule}"
horizon_days = {rules.horizon_days}
maturity_days = {rules.maturity_days}
[lateness]
early_tolerance_days = {rules.early_tolerance_days}
{more}''')
    return World(root)


def in_place(world: World) -> World:
    """The world, which reads Parquet where it landed."""
    settings = world.root / "lake.toml"
    settings.write_text(
        settings.read_text().replace('format = "parquet"', 'format = "parquet"\nin_place = true')
    )
    return world


def span(rules: Rules) -> DayRange:
    return inclusive_range(rules.start, rules.last_day)


def land(world: World, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A file of these deliveries; its name's ending says the format."""
    return land_bytes(world, name, encoded(name.split(".", 1)[1], rows))


def land_bytes(world: World, name: str, content: bytes) -> Path:
    return land_in_folder(world.landing, name, content)


def encoded(format: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The bytes of a file of these deliveries."""
    if format.endswith(".gz"):
        return gzip.compress(encoded(format.removesuffix(".gz"), rows), mtime=0)
    if format == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([dict(r) for r in rows], SCHEMA), sink)
        return sink.getvalue()
    if format == "jsonl":
        return "".join(
            json.dumps({k: _text(v) for k, v in r.items()}) + "\n" for r in rows
        ).encode()
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else _text(v) for k, v in r.items()} for r in rows)
    return text.getvalue().encode()


def _text(value: Any) -> Any:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value


def by_arrival(rows: Iterable[Row]) -> dict[date, list[Row]]:
    """The deliveries per day of arrival."""
    days: dict[date, list[Row]] = {}
    for row in rows:
        days.setdefault(row["arrival_ts"].date(), []).append(row)
    return days
