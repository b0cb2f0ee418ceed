"""Throw-away lakes of labs and drills: made, landed in, loaded, and written to as other programs
would.

Not here: what a lab shows, and copies of a user's lake. Only this module writes to tables past the
product's writer, to show what that costs.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.server import SERVERS
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.engines import EMBEDDED
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.place.port import load_lock
from backfill_assets.kernel.tables.columns import arrow_type
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.staging import StagedFile, begin_staging
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.kernel.write.replace import Write, WriteResult, replace_days
from backfill_assets.learn.new_lake import lake_toml
from backfill_assets.pipeline.chosen import chosen_pipeline

LONG_AGO = 1_700_000_000  # seconds since 1970: a scan waits for files that were just written
FIELDS = (
    "seq",
    "arrival_ts",
    "version_ts",
    "event_ts",
    "event_key",
    "op",
    "entity",
    "value",
    "flag",
)
LAB = Provenance("lab")
Row = Mapping[str, Any]


def make_lake(folder: Path, start: date, more: str = "") -> Lake:
    """Make an empty lake that takes JSON lines, on the quickest engine, with `more` lines in its
    lake.toml."""
    settings = {
        "start_date": start,
        "engine": quickest_engine(),
        "format": "jsonl",
        "files": "landing/*",
        "select": ", ".join(FIELDS),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE_NAME).write_text(lake_toml(settings) + more, encoding="utf-8")
    return open_lake(folder)


def quickest_engine() -> str:
    """The name of the installed engine that starts soonest."""
    light = (
        name
        for name, engine in SERVERS.items()
        if not engine.needs_java and find_spec(engine.packages[0])
    )
    return next(light, EMBEDDED)


def add_control(lake: Lake, name: str, query: str, grain: str, known: Mapping[str, int]) -> Lake:
    """Return the lake with a control: a query over the first events (`{}`) against known values by
    `grain`."""
    rows = "".join(f"{key},{value}\n" for key, value in known.items())
    (lake.root / f"{name}.csv").write_text(f"{grain},value\n{rows}", encoding="utf-8")
    values = {
        "query": query.format(first_events(lake).name),
        "expected": f"{name}.csv",
        "grain": grain,
    }
    with (lake.root / FILE_NAME).open("a", encoding="utf-8") as file:
        file.write(
            f"\n[controls.{name}]\n"
            + "".join(f"{key} = {json.dumps(v)}\n" for key, v in values.items())
        )
    return open_lake(lake.root)


def daily_totals(lake: Lake, contract: Contract, where: str = "true") -> Counter[date]:
    """Return the sum of `value` of every day of a table, ascending."""
    found = Counter[date]()
    for row in lake.store.rows(contract.name, where=where):
        found[row[contract.day_column]] += int(row["value"])
    return Counter(dict(sorted(found.items())))


def copy_lake(root: Path, target: Path) -> Lake:
    """Copy a lake into an empty folder: logs first, so that every file they name is there
    afterwards. Raises SettingsError if its landed files lie elsewhere: a copy would read, and a
    drill would change, the files of the lake itself."""
    for source in open_lake(root).settings.delivered.values():
        files = Path(source.files)
        leads_out = files.is_absolute() or ".." in files.parts
        if source.table or leads_out:
            raise SettingsError(
                f"the lake {root}",
                f"its files {source.files} lie outside of it",
                "Nothing was copied",
                "Add --sample: it drills on a lake of its own",
            )
    for log in (root / "tables").glob("*/_delta_log"):
        shutil.copytree(log, target / log.relative_to(root))
    others = shutil.ignore_patterns(
        "_delta_log", ".server", ".locks", ".dagster", ".runs", ".candidates"
    )
    shutil.copytree(root, target, ignore=others, dirs_exist_ok=True)
    return open_lake(target)


def first_events(lake: Lake) -> Contract:
    """Return the contract of the first table that is made from landed ones: the lake's events by
    their day."""
    return next(c for c in chosen_pipeline(lake).contracts if not c.is_landed)


def land_file(lake: Lake, name: str, arrived: str, rows: Iterable[tuple[str, str, int]]) -> Path:
    """Land a file of JSON lines that arrived at that instant: a key, the instant of the event and a
    value per row."""
    file = lake.root / "landing" / f"{name}.jsonl"
    file.parent.mkdir(exist_ok=True)
    first = 100 * len([*file.parent.iterdir()])
    lines = list[str]()
    for seq, (key, event, value) in enumerate(rows, first):
        row = (seq, arrived, arrived, event, key, "upsert", "A", value, 0)
        lines.append(json.dumps(dict(zip(FIELDS, row, strict=True))) + "\n")
    file.write_text("".join(lines), encoding="utf-8")
    os.utime(file, (LONG_AGO, LONG_AGO))
    return file


def load_days(lake: Lake, days: DayRange, tables: int | None = 2) -> dict[str, WriteResult]:
    """Rebuild these days of the first `tables` tables (None: all) as a run does, without Dagster.
    Raises BackfillError as a run would fail."""
    done, known = dict[str, WriteResult](), KnownStates(lake, chosen_pipeline(lake))
    for table in known.pipeline.tables[:tables]:
        with load_lock(lake.place):
            rebuild = Rebuild(
                RebuildRequest(LakeSession(lake), known, table, days, Provenance("lab"))
            )
            try:
                if any(f.refuses for f in rebuild.prepare()):
                    raise rebuild.refusal()
                done[table.name] = rebuild.publish()
            finally:
                rebuild.release()
    return done


def event_rows(values: Iterable[tuple[datetime, int]], prefix: str = "e") -> list[dict[str, Any]]:
    """Return current versions of events at these instants (aware) with these values, keyed e0, e1,
    …"""
    return [
        {
            "event_key": f"{prefix}{n}",
            "event_ts": then,
            "entity": "A",
            "value": value,
            "flag": 0,
            "version_ts": then,
            "seq": n,
            "known_from": then,
            "known_until": None,
            "event_date": then.date(),
        }
        for n, (then, value) in enumerate(values)
    ]


def replace_by_day(
    lake: Lake,
    contract: Contract,
    rows: Sequence[Row],
    signed: Provenance = LAB,
    digest_of: Callable[[date], str] = lambda _day: "lab",
) -> WriteResult:
    """Replace the days of these rows by the product's own writer, without an engine; `digest_of`
    gives the input digest of a day."""
    column, staged = contract.day_column, begin_staging(lake, contract)
    schema = pa.schema(
        [pa.field(c.name, arrow_type(c.kind)) for c in contract.columns if c.name != column]
    )
    try:
        for day, of_day in groupby(sorted(rows, key=lambda r: r[column]), lambda r: r[column]):
            folder = f"{staged.name}/{column}={day}"
            file = staged.table.prepared(folder) / "part-0.parquet"
            pq.write_table(pa.Table.from_pylist([dict(r) for r in of_day], schema), file)
            staged.files += (StagedFile(staged.table, f"{folder}/part-0.parquet", str(day)),)
        found = audit_files(lake, staged.paths, contract)
        entries = {
            d: DayEntry(p.rows, p.fingerprint, digest_of(d))
            for d, p in found.items()
            if d is not None
        }
        write = Write(contract, staged, entries, -1, signed)
        return replace_days(lake, write, lambda days: {d: digest_of(d) for d in days})
    finally:
        staged.drop()


def append_foreign_rows(lake: Lake, contract: Contract, rows: Sequence[Row]) -> None:
    """Append rows to a table as another program does, which knows no receipts."""
    column, path = contract.day_column, lake.table_place(contract.name).uri()
    schema = pa.schema([pa.field(c.name, arrow_type(c.kind)) for c in contract.columns])
    write_deltalake(
        path,
        pa.Table.from_pylist([dict(r) for r in rows], schema),
        mode="append",
        partition_by=[column],
    )


def leave_half_commit(lake: Lake, table: str) -> None:
    """Leave a commit of a table half written, as a power cut does."""
    log = lake.table_place(table).local() / "_delta_log"
    newest = max(log.glob("*.json"))
    (log / f"{int(newest.stem) + 1:020d}.json").write_bytes(newest.read_bytes()[:20])
