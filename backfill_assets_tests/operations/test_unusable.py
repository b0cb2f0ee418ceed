"""What landed and no table gets, in one line: counted by day, with a reason, of every source.

Tested here: `operations.rejected` without an engine, and that each command says it. Not tested here: which rows are
unusable (`load.test_deliveries`).
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.cli.landing import _report_lines
from backfill_assets.core.scans import ScanReport
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import FILES, LANDED, QUARANTINE, of_source
from backfill_assets.operations.rejected import Unusable, unusable
from backfill_assets_tests.builders import day, receipt, write_rows
from backfill_assets_tests.files import bare_lake, publish_by_hand

pytestmark = pytest.mark.usefixtures("storages")
SEEN = datetime(2024, 3, 10, tzinfo=UTC)
SPOILED = {"bad.csv": (day(0), 1, 1, "not a whole file"), "worse.csv": (day(0), 1, 1, "no column of its own")}
TYPOS = {"typos.csv": (day(1), 9, 2, None)}


def landed(lake: Lake, files: Mapping[str, tuple[date, int, int, str | None]], source: str = "") -> None:
    rows = []
    for path, (arrived, count, bad, note) in files.items():
        rows.append({
            "event": LANDED, "path": path, "sha256": path, "arrival_date": arrived, "rows": count, "bad_rows": bad,
            "usable_rows": count - bad, "size": 1, "mtime_ns": 1, "first_scan": SEEN, "home_day": arrived,
            "recorded_at": SEEN, "counted_by": "", "note": note,
        })  # fmt: skip
    ledger = of_source(FILES, source)
    write_rows(lake.table_place(ledger.name).local(), ledger, rows, receipt(ledger.name, {}))


def kept(arrived: date, number: int, reason: str) -> dict[str, Any]:
    return {"arrival_date": arrived, "source_file": "a", "row_number": number, "text": "x", "reason": reason}


def test_files_that_are_refused_as_wholes_are_told_by_name_before_anything_is_loaded(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    landed(lake, SPOILED | TYPOS | {"good.csv": (day(0), 5, 0, None)})
    assert str(unusable(lake)) == (
        "quarantine: 4 landed row(s) are unusable, 2 of them a whole file each: 1 x bad.csv: not a whole file; "
        "1 x worse.csv: no column of its own; "
        '`backfill-assets sql "SELECT * FROM files WHERE bad_rows > 0"` shows them'
    )


def test_rows_in_quarantine_are_counted_by_the_load_also_those_whose_number_came_twice(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    landed(lake, TYPOS)
    publish_by_hand(lake, QUARANTINE, [kept(day(1), n, "seq is NULL") for n in range(3)])
    assert str(unusable(lake)) == (
        "quarantine: 3 landed row(s) are unusable: 3 x seq is NULL; "
        '`backfill-assets sql "SELECT * FROM quarantine"` shows them'
    )
    assert unusable(lake, [day(0)]) == Unusable()
    assert unusable(lake, read_rows=False).reasons == {}


def test_a_source_of_which_no_row_is_usable_is_named_first_and_a_scan_says_why(
    tmp_path: Path,
) -> None:
    lake = bare_lake(tmp_path)
    landed(lake, SPOILED)
    assert str(unusable(lake)).startswith("[source] in lake.toml gives not one usable row; quarantine: 2 landed")
    told = [*_report_lines(ScanReport(new={"a.csv": (2, 2)}, example="event_ts is NULL"))]
    assert told[:2] == ["new        a.csv: 2 rows, 2 unusable", "unusable because e.g. event_ts is NULL"]
    landed(lake, {"good.csv": (day(0), 5, 0, None)})
    assert not unusable(lake).fruitless
