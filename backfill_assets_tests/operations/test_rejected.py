"""What lies beside raw, in numbers: quarantine with its newest reasons, what came too late, the ledger of arrivals.

Tested here: `operations.rejected`, reasons in groups too. Not tested here: who shows it
(`orchestration.test_io_manager_ledgers`).
"""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.place import write_json
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.home import open_lake
from backfill_assets.lake.ledger import FILES, QUARANTINE
from backfill_assets.lake.staging import stage_rows
from backfill_assets.operations.rejected import (
    NEWEST_DAYS,
    LedgerCount,
    Reason,
    kinds,
    ledger_counts,
    retyped,
    unusable,
)
from backfill_assets_tests.files import SMALLEST, bare_lake, publish_by_hand
from backfill_assets_tests.operations.synthetic import START
from backfill_assets_tests.pipeline.built_in import contract

RAW: Contract = contract("raw")


def refused(day: date, number: int, reason: str) -> dict[str, Any]:
    return {"arrival_date": day, "source_file": "a", "row_number": number, "text": "x", "reason": reason}


def of(found: list[LedgerCount], name: str) -> LedgerCount:
    return next(f for f in found if f.contract.name == name)


def test_the_newest_reasons_are_counted_and_those_of_long_ago_are_not(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    days = [START + ONE_DAY * n for n in range(NEWEST_DAYS + 1)]
    rows = [refused(days[0], 1, "long ago"), *(refused(d, n, "not JSON") for d in days[1:] for n in (1, 2))]
    publish_by_hand(lake, QUARANTINE, [*rows, refused(days[-1], 3, "no number")])
    found = of(ledger_counts(lake, RAW), "quarantine")
    assert (found.rows, found.newest) == (len(rows) + 1, days[-1])
    assert found.reasons == [Reason("not JSON", 2 * NEWEST_DAYS, days[-1]), Reason("no number", 1, days[-1])]


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
    kinds = {"id": {"double": "b", "a whole number": "a", "date32[day]": "gone"}, "n": {"double": "a", "a text": "b"}}
    write_json(lake.stock, "kinds.json", kinds)
    (line,) = retyped(lake)
    assert line.startswith("types: id is double in b and a whole number in a; texts of one value may differ")
    assert str(unusable(lake)) == line
    assert str(unusable(lake, [START])) == ""


def test_reasons_that_differ_in_numbers_and_quotes_are_one_kind() -> None:
    told = kinds({"row 7 of 'a.csv'": 2, "row 812 of 'b, c.csv'": 3, "op is odd": 4, "flag 3": 1})
    assert list(told.shown) == [("row … of …", 5), ("op is odd", 4), ("flag 3", 1)]
