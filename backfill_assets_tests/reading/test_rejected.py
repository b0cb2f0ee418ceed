"""What lies beside raw, in numbers: quarantine with its newest reasons, what came too late, the
ledger of arrivals. Not here: who shows it (`dagster.adapter.test_assets`)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.cli.landing_command import _scan_lines
from backfill_assets.intake.landed_changes import ScanReport
from backfill_assets.intake.landed_days import stage_rows
from backfill_assets.intake.ledger import FILES, QUARANTINE, ledger_of_source
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.reading.rejected import (
    NEWEST_DAYS,
    LedgerCount,
    Reason,
    Unusable,
    ledger_counts,
    reason_kinds,
    retyped_columns,
    unusable_rows,
)
from backfill_assets_tests.builders import day, receipt, write_rows
from backfill_assets_tests.files import SMALLEST, bare_lake, publish_by_hand
from backfill_assets_tests.pipeline.built_in import contract
from backfill_assets_tests.synthetic import START
from backfill_assets_tests.synthetic import landed as row_of

pytestmark = pytest.mark.usefixtures("storages")

RAW: Contract = contract("raw")


def refused(day: date, number: int, reason: str) -> dict[str, Any]:
    return {
        "arrival_date": day,
        "source_file": "a",
        "row_number": number,
        "text": "x",
        "reason": reason,
    }


def of(found: list[LedgerCount], name: str) -> LedgerCount:
    return next(f for f in found if f.contract.name == name)


def test_the_newest_reasons_are_counted_and_those_of_long_ago_are_not(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    days = [START + ONE_DAY * n for n in range(NEWEST_DAYS + 1)]
    rows = [
        refused(days[0], 1, "long ago"),
        *(refused(d, n, "not JSON") for d in days[1:] for n in (1, 2)),
    ]
    publish_by_hand(lake, QUARANTINE, [*rows, refused(days[-1], 3, "no number")])
    found = of(ledger_counts(lake, RAW), "quarantine")
    assert (found.rows, found.newest) == (len(rows) + 1, days[-1])
    assert found.reasons == [
        Reason("not JSON", 2 * NEWEST_DAYS, days[-1]),
        Reason("no number", 1, days[-1]),
    ]


def test_a_column_that_becomes_a_text_and_changed_its_type_is_told_of(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    (tmp_path / "lake.toml").write_text(SMALLEST.replace('*"', 'id AS event_key, n AS value"'))
    lake = open_lake(tmp_path)
    scanned = datetime(2024, 3, 2, tzinfo=UTC)
    landed = ("landed", "", "", START, 1, 0, 1, 1, 1, scanned, START, scanned, "", None)
    staged = stage_rows(lake, FILES, [(landed[0], path, path * 64, *landed[3:]) for path in "ab"])
    with lake.store.lock(FILES.name):
        lake.store.append(FILES, staged, Receipt(staged.write_id, FILES.name, "scan", {}))
    staged.drop()
    kinds = {
        "id": {"double": "b", "a whole number": "a", "date32[day]": "gone"},
        "n": {"double": "a", "a text": "b"},
    }
    lake.stock.write_json("kinds.json", kinds)
    (line,) = retyped_columns(lake)
    assert line.startswith(
        "types: id is double in b and a whole number in a; texts of one value may differ"
    )
    assert str(unusable_rows(lake)) == line
    assert str(unusable_rows(lake, [START])) == ""


def test_reasons_that_differ_in_numbers_and_quotes_are_one_kind() -> None:
    told = reason_kinds(
        {"row 7 of 'a.csv'": 2, "row 812 of 'b, c.csv'": 3, "op is odd": 4, "flag 3": 1}
    )
    assert list(told.shown) == [("row … of …", 5), ("op is odd", 4), ("flag 3", 1)]


SEEN = datetime(2024, 3, 10, tzinfo=UTC)

SPOILED = {
    "bad.csv": (day(0), 1, 1, "not a whole file"),
    "worse.csv": (day(0), 1, 1, "no column of its own"),
}

TYPOS = {"typos.csv": (day(1), 9, 2, None)}


def landed(
    lake: Lake, files: Mapping[str, tuple[date, int, int, str | None]], source: str = ""
) -> None:
    rows = [
        row_of(arrived, SEEN)
        | {"path": path, "sha256": path, "note": note}
        | {"rows": count, "bad_rows": bad, "usable_rows": count - bad}
        for path, (arrived, count, bad, note) in files.items()
    ]
    ledger = ledger_of_source(FILES, source)
    write_rows(lake.table_place(ledger.name).local(), ledger, rows, receipt(ledger.name, {}))


def test_files_that_are_refused_as_wholes_are_told_by_name_before_anything_is_loaded(
    tmp_path: Path,
) -> None:
    lake = bare_lake(tmp_path)
    landed(lake, SPOILED | TYPOS | {"good.csv": (day(0), 5, 0, None)})
    assert str(unusable_rows(lake)) == (
        "quarantine: 4 landed row(s) are unusable, 2 of them a whole file each: 1 x bad.csv: not "
        "a whole file; "
        "1 x worse.csv: no column of its own; "
        '`backfill-assets sql "SELECT * FROM files WHERE bad_rows > 0"` shows them'
    )


def test_rows_in_quarantine_are_counted_by_the_load_also_those_whose_number_came_twice(
    tmp_path: Path,
) -> None:
    lake = bare_lake(tmp_path)
    landed(lake, TYPOS)
    publish_by_hand(lake, QUARANTINE, [refused(day(1), n, "seq is NULL") for n in range(3)])
    assert str(unusable_rows(lake)) == (
        "quarantine: 3 landed row(s) are unusable: 3 x seq is NULL; "
        '`backfill-assets sql "SELECT * FROM quarantine"` shows them'
    )
    assert unusable_rows(lake, [day(0)]) == Unusable()
    assert unusable_rows(lake, read_rows=False).reasons == {}


def test_a_source_of_which_no_row_is_usable_is_named_first_and_a_scan_says_why(
    tmp_path: Path,
) -> None:
    lake = bare_lake(tmp_path)
    landed(lake, SPOILED)
    assert str(unusable_rows(lake)).startswith(
        "[source] in lake.toml gives not one usable row; quarantine: 2 landed"
    )
    told = [*_scan_lines(ScanReport(new={"a.csv": (2, 2)}, example="event_ts is NULL"))]
    assert told[:2] == [
        "new        a.csv: 2 rows, 2 unusable",
        "unusable because e.g. event_ts is NULL",
    ]
    landed(lake, {"good.csv": (day(0), 5, 0, None)})
    assert not unusable_rows(lake).fruitless
