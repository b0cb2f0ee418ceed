"""Plans: the cutting into chunks. Every day is in exactly one of them, whatever the unit, canary and order.

Tested here: `core.plans`. Not tested here: what a plan does to a lake (`operations/test_plan.py`).
"""

from datetime import UTC, date, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import (
    CODE_TAG,
    MERGE,
    MERGE_KEEPING,
    MODE_TAG,
    ChunkKind,
    Order,
    Pins,
    Plan,
    PlanCode,
    Policy,
    cut,
    mode_of,
)

units = st.sampled_from(("week", "month", "1d", "7", "7d", "30d"))
orders = st.sampled_from(("ascending", "newest-first"))
spans = st.builds(
    lambda s, n: DayRange(s, s + ONE_DAY * n), st.dates(date(2020, 1, 1), date(2025, 1, 1)), st.integers(1, 200)
)


@given(spans, units, st.integers(0, 5), orders)
def test_chunks_hold_every_day_once_and_follow_each_other(days: DayRange, unit: str, canary: int, order: Order) -> None:
    chunks = cut(days, unit, canary, order)
    worked = [c for c in chunks if c.kind is not ChunkKind.BOUNDARY]
    made = [d for c in worked for d in c.days]
    assert sorted(made) == list(days)
    assert [c.number for c in chunks] == list(range(1, len(chunks) + 1))
    for one, other in pairwise(worked):
        first, second = (one, other) if order == "ascending" else (other, one)
        assert first.days.end == second.days.start


@given(spans, units, st.integers(1, 5), orders)
def test_the_canary_is_first_and_the_seams_are_last(days: DayRange, unit: str, canary: int, order: Order) -> None:
    chunks = cut(days, unit, canary, order)
    assert chunks[0].kind is ChunkKind.CANARY
    assert len(chunks[0].days) == min(canary, len(days))
    assert (chunks[-1].kind is ChunkKind.BOUNDARY) == (len(chunks) > 1)
    assert not [c for c in chunks[:-1] if c.kind is ChunkKind.BOUNDARY]


def test_weeks_begin_on_monday_and_months_on_the_first() -> None:
    days = DayRange(date(2024, 2, 28), date(2024, 3, 12))
    weeks = [str(c.days) for c in cut(days, "week")]
    assert weeks[:3] == ["2024-02-28..2024-03-03", "2024-03-04..2024-03-10", "2024-03-11"]
    assert [str(c.days) for c in cut(days, "month")][:2] == ["2024-02-28..2024-02-29", "2024-03-01..2024-03-11"]


def test_newest_first_begins_at_the_end() -> None:
    chunks = cut(DayRange(date(2024, 3, 1), date(2024, 3, 8)), "3d", 1, "newest-first")
    assert [str(c.days) for c in chunks[:3]] == ["2024-03-07", "2024-03-04..2024-03-06", "2024-03-01..2024-03-03"]


@pytest.mark.parametrize("unit", ["", "0", "-1d", "seven", "1.5d", "٣"])
def test_a_unit_that_is_no_size_is_refused(unit: str) -> None:
    with pytest.raises(BackfillError, match="is no size"):
        cut(DayRange(date(2024, 3, 1), date(2024, 3, 8)), unit)


@pytest.mark.parametrize(
    ("policy", "mode"),
    [
        (Policy(), ""),
        (Policy(write_mode="merge"), MERGE),
        (Policy(write_mode="merge", keep_removed=True), MERGE_KEEPING),
    ],
)
def test_the_tags_of_a_chunk_say_how_its_days_change_and_by_which_code(policy: Policy, mode: str) -> None:
    days, code = (
        DayRange(date(2024, 3, 1), date(2024, 3, 3)),
        PlanCode("v1", "0123456789abcdef", "f.py:tables", "", "fedc", 2),
    )
    made = datetime(2024, 4, 1, tzinfo=UTC)
    plan = Plan("P", made, "me", days, ("staging",), cut(days, "1d"), policy, Pins({}, {}, {}, {}), code=code)
    tags = plan.tags(plan.chunk(1))
    assert (mode_of(tags), tags[CODE_TAG]) == (mode, "v1 (0123456789ab; 2 file(s), digest fedc)")
    with pytest.raises(BackfillError, match="is no way to write"):
        mode_of({MODE_TAG: "append"})
