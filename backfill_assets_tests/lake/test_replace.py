"""Publishing: what is compared with the receipts decides which days' rows move.

Tested here: `lake.replace` on real tables, without an engine. Not tested here: the commit (`test_committer`), races of
processes (`end_to_end.test_races`) and what a publish does after newer inputs (`end_to_end.test_fault_conflicts`).
"""

from pathlib import Path
from typing import Any

from backfill_assets.core.profiles import SCHEME
from backfill_assets.core.receipts import DayEntry
from backfill_assets.lake.audit import audit
from backfill_assets.lake.home import Lake
from backfill_assets.lake.replace import Provenance, Published, Write, replace_days
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"entity": "A", "value": 1, "event_date": day(n)} for n in numbers]


def published(lake: Lake, *numbers: int, scheme: int = SCHEME) -> Published:
    """The same row on each of these days, told in a receipt of this scheme."""
    staged = stage_by_hand(lake, STAGING, rows(*numbers))
    found = audit(lake, staged.paths, STAGING)
    entries = {d: DayEntry(p.rows, p.fingerprint, "digest", scheme=scheme) for d, p in found.items() if d is not None}
    return replace_days(
        lake, Write(STAGING, staged, entries, -1, Provenance("test")), lambda days: dict.fromkeys(days, "digest")
    )


def test_days_that_hold_what_they_should_are_not_written_again(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    first = published(lake, 0, 1)
    assert first.changed == {day(0), day(1)}
    again = published(lake, 0, 1)
    assert (again.committed, again.version) == (False, first.version)
    assert lake.store.inspect(STAGING).lost == 0, "what was not published is deleted"


def test_a_day_whose_receipt_fingerprints_in_another_way_is_written_again_once(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    published(lake, 0, scheme=SCHEME - 1)
    assert lake.store.view("staging", "event_date").stamps[day(0)].entry.scheme == SCHEME - 1
    assert published(lake, 0, 1).changed == {day(0), day(1)}
    assert not published(lake, 0, 1).committed
