"""Stretches of files: every file once, all of a day together, and the audit of all stretches is that of all files.

Tested here: `lake.embedded.file_batches`, without an engine. Not tested here: what is counted (`test_audit`).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.lake.audit import audit
from backfill_assets.lake.embedded import file_batches
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand

UNPARTED = replace(STAGING, partition_by="", inputs=())
FILES = [f"/lake/t/writes/{write}/event_date={day(n)}/part-0.parquet" for write in "ba" for n in range(4)]


@pytest.mark.parametrize("at_once", [1, 2, 3, 5, 7, 8])
def test_every_file_comes_once_and_all_files_of_a_day_come_together(at_once: int) -> None:
    found = list(file_batches(FILES, STAGING, at_once))
    assert sorted(f for some in found for f in some) == sorted(FILES)
    days = [{Path(f).parent.name for f in some} for some in found]
    assert sum(map(len, days)) == 4, "no day lies in two stretches"
    assert all(len(some) <= max(at_once, 2) for some in found)


def test_no_files_are_no_stretch_and_few_are_one_in_their_order() -> None:
    assert list(file_batches([], STAGING)) == []
    assert list(file_batches(FILES, STAGING)) == [FILES]


def test_files_that_are_not_laid_out_by_day_come_at_once_because_a_day_may_lie_in_any() -> None:
    assert list(file_batches(FILES, UNPARTED, 1)) == [FILES]


def test_the_audit_of_all_stretches_together_is_that_of_all_files(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    rows = [{"entity": "a", "value": n, "event_date": day(n % 3) if n else None} for n in range(7)]
    written = [stage_by_hand(lake, STAGING, rows), stage_by_hand(lake, STAGING, [{**rows[1], "value": 9}])]
    files = [path for staged in written for path in staged.paths]
    whole = audit(lake, files, STAGING)
    assert whole[day(1)].duplicates == 2, "two of its rows lie in one file and the third in another"
    for at_once in (1, 2, 3):
        parts = [dict(audit(lake, some, STAGING)) for some in file_batches(files, STAGING, at_once)]
        assert len(parts) > 1
        assert {d: p for part in parts for d, p in part.items()} == whole
