"""What lies beside raw, in numbers: quarantine with its newest reasons, what came too late, the ledger of arrivals.

Tested here: `operations.rejected`. Not tested here: who shows it (`orchestration.test_ledgers`).
"""

from datetime import date
from pathlib import Path
from typing import Any

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.ledgers import TOO_LATE
from backfill_assets.lake.ledger import QUARANTINE
from backfill_assets.operations.rejected import NEWEST_DAYS, Reason, SetAside, contracts_beside, set_aside
from backfill_assets.pipeline import contracts
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.operations.synthetic import START, synthetic_lake

RAW: Contract = contracts.raw()


def refused(day: date, number: int, reason: str) -> dict[str, Any]:
    return {"arrival_date": day, "source_file": "a", "row_number": number, "text": "x", "reason": reason}


def of(found: list[SetAside], name: str) -> SetAside:
    return next(f for f in found if f.contract.name == name)


def test_tables_that_were_never_written_are_left_out(tmp_path: Path) -> None:
    assert set_aside(bare_lake(tmp_path), RAW) == []
    assert [c.name for c in contracts_beside(RAW)] == ["quarantine", TOO_LATE, "arrivals"]


def test_the_newest_reasons_are_counted_and_those_of_long_ago_are_not(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    days = [START + ONE_DAY * n for n in range(NEWEST_DAYS + 1)]
    rows = [refused(days[0], 1, "long ago"), *(refused(d, n, "not JSON") for d in days[1:] for n in (1, 2))]
    publish_by_hand(lake, QUARANTINE, [*rows, refused(days[-1], 3, "no number")])
    found = of(set_aside(lake, RAW), "quarantine")
    assert (found.rows, found.newest) == (len(rows) + 1, days[-1])
    assert found.reasons == [Reason("not JSON", 2 * NEWEST_DAYS, days[-1]), Reason("no number", 1, days[-1])]


def test_arrivals_tell_their_rows_and_their_newest_day(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 4)
    found = of(set_aside(lake, RAW), "arrivals")
    assert (found.rows, found.newest) == (4, START + ONE_DAY * 3)
