"""The report of a whole lake: the account of what landed adds up, and a lake without anything has a report too.

Tested here: `operations.report`. Not tested here: its parts (`test_status.py`, `test_lateness.py`, `test_writes.py`).
"""

import json
from datetime import UTC, datetime
from pathlib import Path

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.ledger import FILES, QUARANTINE
from backfill_assets.lake.view import read_view
from backfill_assets.operations.report import delivered, report
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.operations.late_lake import late_lake
from backfill_assets_tests.operations.synthetic import START, landed, synthetic_lake

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DAYS = 4


def test_rowslanded_are_rows_in_raw_in_quarantine_and_duplicates(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    refused = [
        {"arrival_date": START, "source_file": "a", "row_number": n, "text": "x", "reason": reason}
        for n, reason in enumerate(("bad", "worse", "bad"))
    ]
    write_rows(lake.table_path(QUARANTINE.name), QUARANTINE, refused, Receipt("q", QUARANTINE.name, "manual", {}))
    again, twice = START + ONE_DAY, START + ONE_DAY * 2
    whole = {**landed(START, NOW), "rows": 8}
    files = [
        whole,
        {**whole, "path": "copy.jsonl"},
        {**landed(twice, NOW), "rows": 5},
        {**landed(again, NOW), "path": "more.jsonl", "sha256": "more", "rows": 10},
        {**landed(START + ONE_DAY * DAYS, NOW), "rows": 7},
    ]
    write_rows(lake.table_path(FILES.name), FILES, files, Receipt("f", FILES.name, "scan", {}))
    found = delivered(lake, pipeline.states(read_view(lake, pipeline.contracts)))
    assert found.files == DAYS + 2, "a copy is no second file"
    assert found.waiting == 7 + 3 + 10, "a day for which more landed than was loaded does not add up yet"
    assert (found.raw, dict(found.quarantine)) == (3 * (DAYS - 1), {"bad": 2, "worse": 1})
    assert found.duplicates == (8 - 3 - 3) + (5 - 3)
    assert found.rows - found.waiting == found.raw + found.quarantined + found.too_late + found.duplicates


def test_the_report_is_json_and_holds_every_part(tmp_path: Path) -> None:
    lake, pipeline = late_lake(tmp_path)
    said = json.loads(json.dumps(report(lake, pipeline, NOW).to_dict()))
    assert set(said) == {"made_at", "status", "delivered", "lateness", "durations", "writes"}
    assert said["lateness"]["late"] == 1
    assert {w["table"] for w in said["writes"]} == {c.name for c in pipeline.contracts}


def test_a_lake_in_which_nothinglanded_has_a_report(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "other", 1)
    empty = type(lake)(tmp_path / "empty", lake.settings)
    told = report(empty, pipeline, NOW)
    assert told.lateness is None
    assert told.status.days is None
    assert told.delivered.duplicates_per_1000 is None
    assert not told.writes
    assert not told.durations
