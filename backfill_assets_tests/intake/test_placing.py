"""The account of a load: every landed row went somewhere, or nothing is written; and what was
staged is dropped. Not here: placing rows of files (`end_to_end.test_ledger`)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime

import pytest

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.ledger import FileRecord, RowCounts
from backfill_assets.intake.placing import Counts, account_of_rows, is_day_cut
from backfill_assets_tests.builders import day

NOW = datetime(2024, 3, 1, tzinfo=UTC)


def record(name: str, days: Mapping[int, tuple[int, int, int]]) -> FileRecord:
    return FileRecord(
        f"{name}.jsonl",
        name,
        9,
        0,
        NOW,
        day(0),
        {day(n): RowCounts(*counts) for n, counts in days.items()},
    )


A = record("a", {0: (3, 1, 2), 1: (1, 0, 1), 2: (5, 5, 0)})
B = record("b", {1: (2, 0, 2)})


def test_rows_are_counted_per_day_and_file_by_where_they_went() -> None:
    counts: Counts = {
        (day(0), "a"): {"raw": 2, "quarantine": 1},
        (day(1), "a"): {"raw": 1},
        (day(1), "b"): {"raw": 1, "duplicate": 1},
    }
    assert account_of_rows([day(0), day(1)], [A, B], counts) == {
        day(0): {"a.jsonl": {"raw": 2, "quarantine": 1}},
        day(1): {"a.jsonl": {"raw": 1}, "b.jsonl": {"raw": 1, "duplicate": 1}},
    }


@pytest.mark.parametrize("given", [1, 3])
def test_an_account_that_does_not_add_up_is_refused_by_file_and_day(given: int) -> None:
    counts: Counts = {
        (day(0), "a"): {"raw": 3},
        (day(1), "a"): {"raw": 1},
        (day(1), "b"): {"raw": given},
    }
    with pytest.raises(
        LandingError,
        match=rf"b\.jsonl: it has 2 rows of {day(1)}, Spark gave {given}.*cast it in select",
    ):
        account_of_rows([day(0), day(1)], [A, B], counts)


@pytest.mark.parametrize(
    ("as_of", "cut"),
    [
        (None, False),
        (datetime(2024, 3, 1, tzinfo=UTC), False),
        (datetime(2024, 3, 1, 0, 0, 1, tzinfo=UTC), True),
        (datetime(2024, 3, 2, 12, tzinfo=UTC), False),
    ],
    ids=["newest", "at the beginning of the day", "within the day", "within another day"],
)
def test_a_look_cuts_a_day_where_rows_of_the_day_arrive_later(
    as_of: datetime | None, cut: bool
) -> None:
    assert is_day_cut(as_of, [date(2024, 2, 29), date(2024, 3, 1)]) == cut
