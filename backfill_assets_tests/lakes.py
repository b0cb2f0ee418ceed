"""Small lakes for tests of what goes wrong: landed in, run with or without Dagster, then read as
receipts and files. Here: deliveries as dicts, a lake of a few days, one run of the job `rebuild`,
and three ways to look at tables. Also a toy pipeline that misbehaves on demand. Not here: what the
contents must be (`oracle`), and lakes of every format and rule (`end_to_end.worlds`)."""

import os
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.ledger import QUARANTINE
from backfill_assets.kernel.core.contracts import Column, Contract, Input, InputKind
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.port import load_lock
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Chunk, Table, make_pipeline
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.kernel.write.replace import WriteResult
from backfill_assets.pipeline.chosen import TablesOf
from backfill_assets.pipeline.tables import tables as our_tables
from backfill_assets.testing import LONG_AGO as LONG_AGO
from backfill_assets.testing import land as land
from backfill_assets.testing import new_lake, run_days
from backfill_assets_tests.pipeline.built_in import contract

if TYPE_CHECKING:  # programs that load without Dagster do not import it
    import dagster as dg
    from pyspark.sql import DataFrame

Delivery = dict[str, Any]
Cells = tuple[Any, ...]
SELECT = "seq, arrival_ts, version_ts, event_ts, event_key, op, entity, value, flag"
SHARED: Mapping[str, Any] = {
    "memory": "2g"
}  # the `spark` fixture's server serves what says no more


DAY = Column("event_date", "DATE", "the day of the event")
ECHO = Contract(
    "echo",
    "Every upsert of the day, as often as it was delivered.",
    (Column("event_key", "STRING", "the event"), Column("value", "BIGINT", "its amount"), DAY),
    "event_date",
    ("event_key",),
    (Input("raw", kind=InputKind.ARRIVALS),),
)
SUMS = Contract(
    "sums",
    "The day's total.",
    (Column("total", "BIGINT", "of echo"), DAY),
    "event_date",
    ("event_date",),
    (Input("echo"),),
)


def toy(behaviour: str = "good") -> TablesOf:
    """raw -> echo -> sums. `behaviour` of echo: good, twice (repeats keys), stray (a row of the day
    after too)."""

    def tables_of(settings: LakeSettings) -> tuple[Table, ...]:
        echo = Table(
            ECHO, partial(_echo, behaviour), {"behaviour": behaviour}, (sys.modules[__name__],)
        )
        return (Table(contract("raw")), echo, Table(SUMS, _sums))

    return tables_of


def _echo(behaviour: str, frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    raw = (
        frames["raw"]
        .where("op = 'upsert'")
        .selectExpr("event_key", "value", "to_date(event_ts) event_date")
    )
    rows = raw.where(raw.event_date.between(chunk.days.start, chunk.days.last))
    if behaviour == "stray":
        return rows.union(rows.selectExpr("event_key", "value", "date_add(event_date, 1)"))
    return (
        rows
        if behaviour == "twice"
        else rows.groupBy("event_key", "event_date")
        .agg({"value": "max"})
        .selectExpr("event_key", "`max(value)` value", "event_date")
    )


def _sums(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
    return (
        frames["echo"].groupBy("event_date").agg({"value": "try_sum"}).toDF("event_date", "total")
    )  # so on Sail, too


def delivery(
    seq: int,
    arrival: str,
    event: str | None,
    key: str,
    op: str = "upsert",
    entity: str | None = "A",
    value: int | None = 1,
    flag: int | None = 0,
    version: str | None = None,
) -> Delivery:
    """One delivery as a JSON object; `event` None means: it happened when it arrived."""
    return {
        "seq": seq,
        "arrival_ts": arrival,
        "version_ts": version or arrival,
        "event_ts": event or arrival,
        "event_key": key,
        "op": op,
        "entity": entity,
        "value": value,
        "flag": flag,
    }


def make_lake(
    folder: Path,
    deliveries: Iterable[Delivery] | Mapping[str, Sequence[Delivery]],
    start: date | str,
    **settings: Any,
) -> Lake:
    """A lake at `folder` with these deliveries landed: per file as given, else one file per day of
    arrival.

    `settings` are keys of `lake.toml`; a dict is a section (`gates={"tables": {...}}`). The engine
    is the `spark` fixture's unless `spark` says otherwise.
    """
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    configure(folder, start, **settings)
    lake = open_lake(folder)
    files = deliveries if isinstance(deliveries, Mapping) else per_arrival_day(deliveries)
    for name, rows in files.items():
        land(lake, name, rows)
    return lake


def configure(folder: Path, start: date | str, **settings: Any) -> Lake:
    """Write `lake.toml` anew; returns the lake as it is opened by it."""
    body: dict[str, Any] = {
        "source": {"files": "landing/**", "format": "jsonl", "select": SELECT},
        "features": {"windows_days": [2, 3]},
        "labels": {"horizon_days": 1, "maturity_days": 0},
        "spark": dict(SHARED),
    }
    body |= settings
    new_lake(folder, start, **body)
    return open_lake(folder)


def per_arrival_day(deliveries: Iterable[Delivery]) -> dict[str, list[Delivery]]:
    """The deliveries by file name, one file per day of arrival."""
    files: dict[str, list[Delivery]] = defaultdict(list)
    for row in deliveries:
        files[f"{str(row['arrival_ts'])[:10]}.jsonl"].append(row)
    return dict(files)


def request(
    lake: Lake,
    table: str,
    first: date | str,
    last: date | str,
    tables_of: TablesOf = our_tables,
    *,
    force: bool = False,
) -> RebuildRequest:
    """What asks the load path for these days of a table, with the settings as they are in the file
    now."""
    fresh = open_lake(lake.root)
    pipeline = make_pipeline(tables_of(fresh.settings))
    days = inclusive_range(date.fromisoformat(str(first)), date.fromisoformat(str(last)))
    known = KnownStates(fresh, pipeline)
    return RebuildRequest(
        LakeSession(fresh), known, pipeline.table(table), days, Provenance("manual"), force
    )


@contextmanager
def prepared(asked: RebuildRequest) -> Iterator[Rebuild]:
    """A rebuild built and judged, ready to publish; raises ContractBroken where a finding
    refuses."""
    rebuild = Rebuild(asked)
    try:
        if any(f.refuses for f in rebuild.prepare()):
            raise rebuild.refusal()
        yield rebuild
    finally:
        rebuild.release()


def backfill(
    lake: Lake,
    first: date | str,
    last: date | str,
    tables: Collection[str] | None = None,
    tables_of: TablesOf = our_tables,
    force: bool = False,
) -> dict[str, WriteResult]:
    """The load path of every table (or `tables`) over the days, without Dagster; raises what a run
    would fail with."""
    done = {}
    for name in [t.name for t in tables_of(lake.settings) if tables is None or t.name in tables]:
        with (
            load_lock(lake.place),
            prepared(request(lake, name, first, last, tables_of, force=force)) as rebuild,
        ):
            done[name] = rebuild.publish()
    return done


@contextmanager
def death_before_the_ledger() -> Iterator[None]:
    """Whoever loads raw meanwhile dies, and has to, once raw is written and before its ledger says
    so."""
    import pytest  # which programs that load have no use for

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backfill_assets.intake.raw.commit_arrivals", dies)
        with pytest.raises(KeyboardInterrupt):
            yield


def run_rebuild(
    lake: Lake,
    first: date | str,
    last: date | str,
    instance: "dg.DagsterInstance",
    assets: Collection[str] | None = None,
    tables_of: TablesOf = our_tables,
) -> "dg.ExecuteInProcessResult":
    """One run of the job `rebuild` over the days, in this process; a failure is a result, not an
    exception."""
    return run_days(
        lake,
        first,
        last,
        tables=assets,
        tables_of=tables_of,
        instance=instance,
        raise_on_error=False,
    )


def snapshot(
    lake: Lake, tables_of: TablesOf = our_tables
) -> dict[str, dict[date, tuple[int, str]]]:
    """Per table (ledgers too) and day the rows and fingerprint that the newest receipt names."""
    contracts = [t.contract for t in tables_of(lake.settings)]
    view = read_view(lake, contracts)
    found = {c.name: view.table(c.name) for c in contracts} | {"arrivals": view.table("arrivals")}
    found[QUARANTINE.name] = LOGS.state(lake.table_place(QUARANTINE.name), QUARANTINE.day_column)
    return {
        n: {d: (r.entry.rows, r.entry.fingerprint) for d, r in v.latest.items()}
        for n, v in found.items()
    }


def data_files(lake: Lake, table: str, day_column: str = "event_date") -> dict[date, set[str]]:
    """Per day the data files that the table consists of now; none where there is no table."""
    files: dict[date, set[str]] = defaultdict(set)
    if version(lake, table) < 0:
        return {}
    for action in pa.table(
        DeltaTable(str(lake.table_place(table).local())).get_add_actions(flatten=True)
    ).to_pylist():
        files[date.fromisoformat(str(action[f"partition.{day_column}"]))].add(str(action["path"]))
    return dict(files)


def version(lake: Lake, table: str) -> int:
    """The table's newest version, -1 where there is no table."""
    path = lake.table_place(table).local()
    return int(DeltaTable(str(path)).version()) if (path / "_delta_log").exists() else -1


def land_bytes(folder: Path, name: str, content: bytes) -> Path:
    """Land a file of these bytes in a landing folder, old enough to be read at once."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def content(lake: Lake, table: str) -> list[Cells]:
    """The rows of a table as delta-rs reads them, in the contract's column order, sorted; empty
    where there is none."""
    place = lake.table_place(table)
    if not place.names("_delta_log"):
        return []
    rows = DeltaTable(place.uri()).to_pyarrow_table().to_pylist()
    return sorted(
        (tuple(map(_plain, row.values())) for row in rows),
        key=lambda row: [str(cell) for cell in row],
    )


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
