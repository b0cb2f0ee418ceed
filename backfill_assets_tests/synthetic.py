"""A lake of any size without an engine: Delta logs written by hand, ledgers by delta-rs. Here:
`synthetic_lake`, `build` and the rows of its ledgers. Not here: lakes with data files that hold
rows (`planned`, `planning`)."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

from backfill_assets.intake.ledger import ARRIVALS, FILES, LANDED, QUARANTINE
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, midnight
from backfill_assets.kernel.core.readings import PARAMETERS, todays_parameters
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline, make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import make_commit, write_rows
from backfill_assets_tests.copies import Kept, keep
from backfill_assets_tests.logs import versions

START = date(2024, 2, 26)
Made = tuple[Lake, Pipeline]
MOST_DAYS_KEPT = 100  # a larger lake is asked for once
_PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
TOML = """
start_date = {start}
[source]
files = "landing/**/*.jsonl"
format = "jsonl"
select = "seq"
[features]
windows_days = {windows}
[labels]
horizon_days = 2
maturity_days = 1
"""


def synthetic_lake(root: Path, days: int, windows: tuple[int, int] = (2, 3)) -> Made:
    """A lake in which one file landed per day, everything is loaded and built, and every day is
    fresh."""
    if days > MOST_DAYS_KEPT:
        pipeline = _make(root, days, windows)
        return open_lake(root), pipeline
    kept, pipeline = _kept(days, windows)
    kept.lay_out(root)
    return open_lake(root), pipeline


@cache
def _kept(days: int, windows: tuple[int, int]) -> tuple[Kept, Pipeline]:
    """The pipeline, too: it is frozen, depends on the settings, and takes milliseconds to read its
    code."""
    made: list[Pipeline] = []
    return keep(lambda root: made.append(_make(root, days, windows))), made[0]


def _make(root: Path, days: int, windows: tuple[int, int]) -> Pipeline:
    root.mkdir(parents=True, exist_ok=True)
    (root / "lake.toml").write_text(
        TOML.format(start=START, windows=list(windows)), encoding="utf-8"
    )
    lake = open_lake(root)
    pipeline = make_pipeline(tables(lake.settings))
    span = DayRange(START, START + ONE_DAY * days)
    _land(lake, span)
    told = {d: DayEntry(1, f"F-{d}", "") for d in span}
    said = Receipt("write-arrivals", ARRIVALS.name, "manual", told, inputs={"raw": 1})
    write_rows(
        lake.table_place(ARRIVALS.name).local(),
        ARRIVALS,
        [arrival(d, f"F-{d}", 3) for d in span],
        said,
    )
    for contract in pipeline.contracts:
        build(lake, pipeline, contract.name, dict.fromkeys(span, 3))
    return pipeline


def _land(lake: Lake, span: DayRange) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    said = Receipt("write-files", FILES.name, "scan", {})
    write_rows(lake.table_place(FILES.name).local(), FILES, [landed(d, now) for d in span], said)
    for day in span:
        path = lake.root / "landing" / f"{day}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}\n" * 3, encoding="utf-8")
        os.utime(path, ns=(0, 0))


def build(
    lake: Lake,
    pipeline: Pipeline,
    table: str,
    rows: Mapping[date, int],
    inputs: Any = None,
    digests: Mapping[date, str] | None = None,
    run_id: str = "",
) -> Receipt:
    """One more write of some days with so many rows each, its input digests those of this moment
    unless given; of no run unless one is named."""
    contract = next(c for c in (*pipeline.contracts, QUARANTINE) if c.name == table)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    codes = pipeline.codes.get(table)
    path = lake.table_place(table).local()
    version = len(versions(path))
    entries = {
        d: DayEntry(n, f"F{version}", (digests or {}).get(d) or _digest(states, table, d))
        for d, n in rows.items()
    }
    receipt = Receipt(
        f"write-{table}-{version}",
        table,
        "manual",
        entries,
        run_id=run_id,
        code_digest=codes.code_digest if codes else "",
        settings_digest=codes.settings_digest if codes else "",
        frontier=states.frontier(table),
        inputs=inputs or {i.table: 1 for i in contract.inputs},
        tags={PARAMETERS: todays_parameters(contract, states.view).to_json()},
    )
    if version == 0:
        make_commit(
            path,
            0,
            actions=[_PROTOCOL, {"metaData": _metadata(contract)}],
            info={"operation": "CREATE TABLE"},
        )
        version = 1
    make_commit(
        path, version, receipt, [_data(path, contract, d, version, n) for d, n in rows.items() if n]
    )
    return receipt


def _metadata(contract: Contract) -> dict[str, Any]:
    """The table's schema and layout, so that delta-rs opens it, too."""
    kinds = {"BIGINT": "long", "INT": "integer"}
    fields = [
        {
            "name": c.name,
            "type": kinds.get(c.type, c.type.lower()),
            "nullable": c.nullable,
            "metadata": {},
        }
        for c in contract.columns
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    facts = {
        "id": contract.name,
        "format": {"provider": "parquet", "options": {}},
        "configuration": {},
    }
    return {**facts, "schemaString": schema, "partitionColumns": [contract.day_column]}


def _digest(states: Any, table: str, day: date) -> str:
    return str(states.digests.of("raw" if table == QUARANTINE.name else table, day))


def _data(path: Path, contract: Contract, day: date, version: int, rows: int) -> dict[str, Any]:
    """The `add` of a data file that lies there, four bytes long."""
    name = f"{contract.day_column}={day}/part-{version}.parquet"
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(b"PAR1")
    values = {contract.day_column: str(day)}
    facts = {"path": name, "size": 4, "modificationTime": 0, "dataChange": True}
    return {"add": {**facts, "partitionValues": values, "stats": f'{{"numRecords": {rows}}}'}}


def landed(day: date, now: datetime) -> dict[str, Any]:
    """The ledger's row of the file of a day: three usable rows, first seen `now`."""
    return {
        "event": LANDED,
        "path": f"{day}.jsonl",
        "sha256": f"{day:%Y%m%d}" * 8,
        "arrival_date": day,
        "rows": 3,
        "bad_rows": 0,
        "usable_rows": 3,
        "size": 9,
        "mtime_ns": 0,
        "first_scan": now,
        "home_day": day,
        "recorded_at": now,
        "note": None,
        "counted_by": "",
    }


def arrival(of: date, fingerprint: str, rows: int = 1) -> dict[str, Any]:
    """The row of the ledger `arrivals`: what arrived on a day happened on that day."""
    return {
        "arrival_date": of,
        "event_date": of,
        "deliveries": rows,
        "keys": rows,
        "moved_keys": 0,
        "greatest_lateness_s": 60,
        "fingerprint": fingerprint,
        "arrival_month": f"{of:%Y-%m}",
    }


def end_of(days: int) -> datetime:
    """Midnight after the last day of a synthetic lake."""
    return midnight(START + ONE_DAY * days)
