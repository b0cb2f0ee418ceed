"""Whether a scan would find anything, by the listing and the ledger alone.

Tested here: `load.landed_changes` on a lake of receipts. Not tested here: what a scan does (`test_scan`).
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.ledger import FILES
from backfill_assets.lake.session import LakeSession
from backfill_assets.load.landed_changes import counting_digest
from backfill_assets.load.landed_changes import landed as look
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.operations.synthetic import START, landed, synthetic_lake

DAYS = 3


def count(lake: Lake) -> None:
    """All landed files are recorded as counted by today's settings."""
    first, today = datetime(2026, 1, 1, tzinfo=UTC), counting_digest(lake.settings)
    again = {"counted_by": today, "recorded_at": first + ONE_DAY}
    rows = [landed(START + ONE_DAY * i, first) | again for i in range(DAYS)]
    write_rows(lake.table_path(FILES.name), FILES, rows, Receipt("again", FILES.name, "scan", {}))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found, _ = synthetic_lake(tmp_path, DAYS)
    count(found)
    return found


def test_a_landing_that_is_as_it_was_needs_no_scan(lake: Lake) -> None:
    found = look(LakeSession(lake))
    assert found.is_scanned
    assert (found.counts_rows, bool(found.disputed)) == (False, False)


def test_files_that_were_counted_by_other_settings_need_one(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, DAYS)
    found = look(LakeSession(lake))
    assert (found.is_scanned, found.counts_rows) == (False, True)


def test_files_that_were_counted_on_another_engine_need_one(lake: Lake) -> None:
    """Sail refuses values that Spark reads: after a change, the count of unusable rows would be another engine's."""
    text = (lake.root / "lake.toml").read_text()
    (lake.root / "lake.toml").write_text(f'{text}[spark]\nengine = "sail"\n')
    assert look(LakeSession(open_lake(lake.root))).counts_rows


@pytest.mark.parametrize("what", ["landed", "altered", "gone"])
def test_a_file_that_landed_changed_or_went_needs_one(lake: Lake, what: str) -> None:
    known = lake.root / "landing" / f"{START}.jsonl"
    if what == "gone":
        known.unlink()
    else:
        path = known if what == "altered" else known.with_name("new.jsonl")
        path.write_text('{"more": 1}\n')
        os.utime(path, (1, 1))
    found = look(LakeSession(lake))
    assert not found.is_scanned
    assert (found.counts_rows, bool(found.disputed)) == (what == "landed", what != "landed"), (
        "no engine for what is refused"
    )
