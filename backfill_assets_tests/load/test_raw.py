"""Loading raw: what stops a load before anything is read, what each row's receipt counts, and a load without work.

Tested here: `load.raw` without an engine. Not tested here: loads of files (`end_to_end.test_ledger`, `test_scan`).
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import LandingError
from backfill_assets.core.scans import ScanReport
from backfill_assets.lake.ledger import FILES, LANDED
from backfill_assets.lake.session import LakeSession
from backfill_assets.load.placing import _records_naming
from backfill_assets.load.raw import REJECTED, _counts, _refuse_scan
from backfill_assets_tests.builders import day, loaded, receipt, write_rows
from backfill_assets_tests.files import bare_lake

DAYS = DayRange(day(0), day(3))


def test_days_made_from_a_file_that_is_altered_or_missing_are_refused_with_every_file_and_no_other_day() -> None:
    report = ScanReport(altered=("a.jsonl",), missing=("b.jsonl",), blocked=frozenset({day(1), day(2), day(9)}))
    with pytest.raises(LandingError) as refused:
        _refuse_scan(report, loaded(3).view().source("raw"), DAYS)
    assert str(refused.value).startswith(
        f"the table raw: a.jsonl (altered), b.jsonl (missing): 2 day(s) from {day(1)} were made from it. Nothing was "
    )
    _refuse_scan(report, loaded(3).view().source("raw"), DayRange(day(3), day(9)))


def test_receipts_count_what_is_not_in_raw_by_where_it_went_zeros_too() -> None:
    told = _counts({day(0): {"a": {"raw": 5, "duplicate": 1}, "b": {"duplicate": 2, "too late": 4}}, day(1): {}})
    assert told == {
        day(0): {**dict.fromkeys(REJECTED, 0), "duplicates": 3, "too late": 4},
        day(1): dict.fromkeys(REJECTED, 0),
    }


@dataclass(frozen=True)
class _Expecting(LakeSession):
    """A session without an engine that notes how many rows it was told to expect."""

    told: list[int] = field(default_factory=list)

    def expect(self, rows: int) -> None:
        """Note it."""
        self.told.append(rows)


def test_the_engine_expects_all_rows_of_the_files_that_a_day_came_in_for_it_reads_and_judges_them_all(
    tmp_path: Path,
) -> None:
    lake, now = bare_lake(tmp_path), datetime(2024, 3, 1, tzinfo=UTC)
    row = {
        "event": LANDED, "path": "a", "sha256": "sha", "bad_rows": 0, "size": 1, "mtime_ns": 1, "first_scan": now,
        "home_day": day(0), "recorded_at": now, "counted_by": "", "note": None,
    }  # fmt: skip
    rows = [row | {"arrival_date": d, "rows": n, "usable_rows": n} for d, n in ((day(0), 2), (day(1), 1_000_000))]
    write_rows(lake.table_place(FILES.name).local(), FILES, rows, receipt(FILES.name, {}))
    session = _Expecting(lake)
    (named,) = _records_naming(session, [day(0)])
    assert (named.path, session.told) == ("a", [1_000_002])
