"""The account of a load: every landed row went somewhere, or nothing is written; and what was staged is dropped.

Tested here: `load.placing` without an engine. Not tested here: placing rows of files (`end_to_end.test_ledger`).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from backfill_assets.core.errors import LandingError
from backfill_assets.lake.ledger import FileRecord
from backfill_assets.lake.session import LakeSession
from backfill_assets.load.phases import Phases
from backfill_assets.load.placing import Counts, LandedRows, Placed, PlacedPart, _accounts, place
from backfill_assets_tests.builders import RAW, STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand

NOW = datetime(2024, 3, 1, tzinfo=UTC)


def record(name: str, days: Mapping[int, tuple[int, int, int]]) -> FileRecord:
    return FileRecord(f"{name}.jsonl", name, 9, 0, NOW, day(0), {day(n): rows for n, rows in days.items()})


def landed(root: Path, *records: FileRecord, due: tuple[int, ...] = (0, 1)) -> LandedRows:
    def never(_: object) -> Any:
        pytest.fail("rows were read")

    return LandedRows(
        LakeSession(bare_lake(root)), RAW, {r.sha256: r for r in records}, [day(n) for n in due], never, Phases()
    )


A = record("a", {0: (3, 1, 2), 1: (1, 0, 1), 2: (5, 5, 0)})
B = record("b", {1: (2, 0, 2)})


def test_rows_are_counted_per_day_and_file_by_where_they_went(tmp_path: Path) -> None:
    counts: Counts = {
        (day(0), "a"): {"raw": 2, "quarantine": 1},
        (day(1), "a"): {"raw": 1},
        (day(1), "b"): {"raw": 1, "duplicate": 1},
    }
    assert _accounts(landed(tmp_path, A, B), counts) == {
        day(0): {"a.jsonl": {"raw": 2, "quarantine": 1}},
        day(1): {"a.jsonl": {"raw": 1}, "b.jsonl": {"raw": 1, "duplicate": 1}},
    }


@pytest.mark.parametrize("given", [1, 3])
def test_an_account_that_does_not_add_up_is_refused_by_file_and_day(tmp_path: Path, given: int) -> None:
    counts: Counts = {(day(0), "a"): {"raw": 3}, (day(1), "a"): {"raw": 1}, (day(1), "b"): {"raw": given}}
    with pytest.raises(LandingError, match=rf"b\.jsonl: it has 2 rows of {day(1)}, Spark gave {given}.*Nothing was"):
        _accounts(landed(tmp_path, A, B), counts)


def test_days_on_which_nothing_landed_have_an_empty_account_and_no_engine_is_asked(tmp_path: Path) -> None:
    placed = place(landed(tmp_path), cast(Any, None), simple=False)
    assert placed.accounts == {day(0): {}, day(1): {}}
    assert [p.contract.name for p in (placed.raw, placed.beyond, placed.kept)] == ["raw", "too_late", "quarantine"]
    assert [p.staged for p in (placed.raw, placed.beyond, placed.kept)] == [None] * 3


def test_only_files_with_an_unusable_row_on_one_of_the_days_are_read_a_second_time(tmp_path: Path) -> None:
    assert landed(tmp_path / "1", A, B).with_bad_rows() == [A]
    assert landed(tmp_path / "2", A, B, due=(1,)).with_bad_rows() == []


def test_what_was_staged_and_not_published_is_deleted(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    staged = stage_by_hand(lake, STAGING, [{"entity": "a", "value": 1, "event_date": day(0)}])
    Placed(PlacedPart(STAGING, staged), PlacedPart(STAGING), PlacedPart(STAGING), {}).drop()
    assert not staged.folder.exists()
