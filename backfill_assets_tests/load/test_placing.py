"""The account of a load: every landed row went somewhere, or nothing is written; and what was staged is dropped.

Tested here: `load.raw` without an engine. Not tested here: placing rows of files (`end_to_end.test_ledger`).
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import LandingError
from backfill_assets.lake.ledger import FileRecord
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.view import Known
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.placing import Counts, Placed, PlacedPart, accounted, placed_again
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.operations.synthetic import START, synthetic_lake

NOW = datetime(2024, 3, 1, tzinfo=UTC)


def record(name: str, days: Mapping[int, tuple[int, int, int]]) -> FileRecord:
    return FileRecord(f"{name}.jsonl", name, 9, 0, NOW, day(0), {day(n): rows for n, rows in days.items()})


A = record("a", {0: (3, 1, 2), 1: (1, 0, 1), 2: (5, 5, 0)})
B = record("b", {1: (2, 0, 2)})


def test_rows_are_counted_per_day_and_file_by_where_they_went() -> None:
    counts: Counts = {
        (day(0), "a"): {"raw": 2, "quarantine": 1},
        (day(1), "a"): {"raw": 1},
        (day(1), "b"): {"raw": 1, "duplicate": 1},
    }
    assert accounted([day(0), day(1)], [A, B], counts) == {
        day(0): {"a.jsonl": {"raw": 2, "quarantine": 1}},
        day(1): {"a.jsonl": {"raw": 1}, "b.jsonl": {"raw": 1, "duplicate": 1}},
    }


@pytest.mark.parametrize("given", [1, 3])
def test_an_account_that_does_not_add_up_is_refused_by_file_and_day(given: int) -> None:
    counts: Counts = {(day(0), "a"): {"raw": 3}, (day(1), "a"): {"raw": 1}, (day(1), "b"): {"raw": given}}
    with pytest.raises(
        LandingError, match=rf"b\.jsonl: it has 2 rows of {day(1)}, Spark gave {given}.*cast it in select"
    ):
        accounted([day(0), day(1)], [A, B], counts)


class NoEngine(LakeSession):
    """A session without an engine."""

    def spark(self) -> NoReturn:
        pytest.fail("an engine was asked")


def test_days_on_which_nothing_landed_have_an_empty_account_and_no_engine_is_asked(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 2)
    days = DayRange(START, START + timedelta(days=2))
    asked = RebuildRequest(NoEngine(lake), Known(lake, pipeline), pipeline.table("raw"), days, Provenance("manual"))
    placed = placed_again(asked, asked.known.states, [])
    assert placed.accounts == {}
    assert [p.contract.name for p in (placed.raw, placed.late, placed.quarantine)] == ["raw", "too_late", "quarantine"]
    assert [p.staged for p in (placed.raw, placed.late, placed.quarantine)] == [None] * 3


def test_what_was_staged_and_not_published_is_deleted(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    staged = stage_by_hand(lake, STAGING, [{"entity": "a", "value": 1, "event_date": day(0)}])
    Placed(PlacedPart(STAGING, staged), PlacedPart(STAGING), PlacedPart(STAGING), {}).drop()
    assert not staged.folder.exists()
