"""A loaded lake of a few days whose deliveries are late, without an engine: real tables by
delta-rs, with receipts. Here: `late_lake`. Not here: what a report says of it (`test_lateness.py`,
`reports/test_lateness_command.py`), and lakes of which only logs are read (`synthetic.py`)."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.days import ONE_DAY, midnight
from backfill_assets.kernel.core.receipts import Built, DayEntry, Receipt
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.write.model import Pipeline, make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.copies import keep
from backfill_assets_tests.synthetic import START, TOML

DAYS = 8
LATE_ON = 4  # the day on which one row arrives three days late, and one is deleted
FRONTIER = midnight(START + ONE_DAY * DAYS)


def late_lake(root: Path) -> tuple[Lake, Pipeline]:
    """Three rows arrive at noon of each day, an hour late; on one day another, three days late, and
    a delete.

    The late row makes a label of the first day. The newest day of every table but raw is pending.
    """
    keep(_make).lay_out(root)
    lake = open_lake(root)
    return lake, make_pipeline(tables(lake.settings))


def _make(root: Path) -> None:
    root.mkdir()
    (root / "lake.toml").write_text(TOML.format(start=START, windows=[2, 3]), encoding="utf-8")
    lake = open_lake(root)
    pipeline = make_pipeline(tables(lake.settings))
    span = [START + ONE_DAY * n for n in range(DAYS)]
    late = span[LATE_ON]
    raw = [delivery_of(day, n, timedelta(hours=1)) for day in span for n in range(3)]
    raw += [delivery_of(late, 8, ONE_DAY * 3), delivery_of(late, 9, None)]
    known_late = _version(late - ONE_DAY * 3, late)
    rows = {
        "raw": raw,
        "staging": [known_late],
        "features_as_known": [_feature_row(d) for d in span[:1]],
    }
    for contract in pipeline.contracts:
        write(lake, contract.name, pipeline, rows.get(contract.name, []), span)
    said = Receipt("w", ARRIVALS.name, "manual", {}, inputs={"raw": 0}, frontier=FRONTIER)
    write_rows(lake.table_place(ARRIVALS.name).local(), ARRIVALS, [], said)


def write(
    lake: Lake,
    table: str,
    pipeline: Pipeline,
    rows: Sequence[Mapping[str, Any]],
    days: Sequence[date],
) -> None:
    """One commit of a table, its receipt naming these days, of which the newest is pending (raw has
    no such)."""
    contract = pipeline.table(table).contract
    entries = {day: DayEntry(3, "F", "digest") for day in days}
    if table != "raw":
        entries[days[-1]] = DayEntry(0, "0", "digest", Built.PENDING)
    write_rows(
        lake.table_place(table).local(),
        contract,
        rows,
        Receipt(f"write-{table}", table, "manual", entries),
    )


def delivery_of(day: date, number: int, late: timedelta | None) -> dict[str, Any]:
    noon = midnight(day) + timedelta(hours=12)
    event = noon - late if late is not None else None
    return {
        "seq": number,
        "arrival_ts": noon,
        "version_ts": noon,
        "event_ts": event,
        "event_key": f"{day}-{number}",
        "op": "upsert" if event else "delete",
        "entity": "A",
        "value": 1 if event else None,
        "flag": 0 if event else None,
        "source_file": "sha",
        "arrival_date": day,
    }


def _version(day: date, arrived: date) -> dict[str, Any]:
    noon = midnight(arrived) + timedelta(hours=12)
    return {
        "event_key": "late",
        "event_ts": midnight(day),
        "entity": "A",
        "value": 1,
        "flag": 0,
        "version_ts": noon,
        "seq": 8,
        "known_from": noon,
        "known_until": None,
        "event_date": day,
    }


def _feature_row(day: date) -> dict[str, Any]:
    numbers = (
        "events_short",
        "events_long",
        "value_short",
        "value_long",
        "flagged_long",
        "days_since_last",
    )
    return {"entity": "A", **dict.fromkeys(numbers, 1), "feature_date": day}
