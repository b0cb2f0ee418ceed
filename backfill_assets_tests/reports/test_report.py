"""The report of a whole lake: the account of what landed adds up, and a lake without anything has a
report too. Not here: its parts (`test_status.py`)."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.intake.ledger import FILES, QUARANTINE
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.ledgers import source_table_name
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.reading.writes import TableWrite
from backfill_assets.reports.report import delivered_rows, report_of_lake
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.late_lake import late_lake
from backfill_assets_tests.own import TWO_SOURCES
from backfill_assets_tests.synthetic import START, landed, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")

NOW = datetime(2026, 1, 2, tzinfo=UTC)

DAYS = 4


def test_landed_rows_are_told_with_the_reasons_of_those_in_quarantine(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    refused = [
        {"arrival_date": START, "source_file": "a", "row_number": n, "text": "x", "reason": reason}
        for n, reason in enumerate(("bad", "worse", "bad"))
    ]
    write_rows(
        lake.table_place(QUARANTINE.name).local(),
        QUARANTINE,
        refused,
        Receipt("q", QUARANTINE.name, "manual", {}),
    )
    copy = {**landed(START, NOW), "path": "copy.jsonl"}
    new = {**landed(START + ONE_DAY * DAYS, NOW), "rows": 7}
    write_rows(
        lake.table_place(FILES.name).local(),
        FILES,
        [copy, new],
        Receipt("f", FILES.name, "scan", {}),
    )
    found = delivered_rows(lake, pipeline.states(read_view(lake, pipeline.contracts)))
    assert found.account.files == DAYS + 1, "a copy is no second file"
    assert found.account.waiting == {START + ONE_DAY * DAYS: 7}
    assert dict(found.quarantine) == {"bad": 2, "worse": 1}


def test_of_several_sources_each_is_told_apart_and_all_together(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(TWO_SOURCES, encoding="utf-8")
    lake = open_lake(tmp_path)
    pipeline = make_pipeline(tables(lake.settings))
    for source, rows in (
        ("events", [landed(START, NOW)]),
        ("truth", [{**landed(START, NOW), "rows": 7}]),
    ):
        write_rows(
            lake.table_place(source_table_name(FILES.name, source)).local(),
            FILES,
            rows,
            Receipt("f", FILES.name, "scan", {}),
        )
    refused = [
        {"arrival_date": START, "source_file": "a", "row_number": 1, "text": "x", "reason": "bad"}
    ]
    path = lake.table_place(source_table_name(QUARANTINE.name, "truth")).local()
    write_rows(path, QUARANTINE, refused, Receipt("q", QUARANTINE.name, "manual", {}))
    found = delivered_rows(lake, pipeline.states(read_view(lake, pipeline.contracts)))
    assert (found.account.rows, dict(found.quarantine)) == (10, {"bad": 1})
    assert {
        name: (one.account.rows, dict(one.quarantine)) for name, one in found.sources.items()
    } == {"events": (3, {}), "truth": (7, {"bad": 1})}
    told = found.to_dict()["sources"]
    assert (told["events"]["waiting"], told["truth"]["waiting"]) == (3, 7)


def test_the_report_is_json_and_holds_every_part(tmp_path: Path) -> None:
    lake, pipeline = late_lake(tmp_path)
    said = json.loads(json.dumps(json_of(report_of_lake(lake, pipeline, NOW))))
    parts = "made_at status delivered lateness durations writes controls checks proofs"
    assert set(said) == {*parts.split()}
    assert said["lateness"]["late"] == 1
    assert {w["table"] for w in said["writes"]} == {c.name for c in pipeline.contracts}


AT = datetime(2026, 1, 1, tzinfo=UTC)


def written(seconds: float | None, table: str = "staging", days: int = 1) -> TableWrite:
    return TableWrite(
        table, 1, AT, (DayRange(START, START + ONE_DAY * days),), 0, "manual", "", "", seconds
    )
