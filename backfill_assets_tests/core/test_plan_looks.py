"""Days beyond the range are those that gain or lose rows; other content alone moves nothing.

Tested here: `core.plan_looks`. Not tested here: finding moves (`load/test_moves.py`).
"""

from datetime import date

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.plan_looks import DayMove, PlanLook

START = date(2024, 3, 1)


def test_days_beyond_the_range_gain_or_lose_rows() -> None:
    moves = (
        DayMove("staging", START + ONE_DAY, 1, 0, 0), DayMove("staging", START, 1, 0, 0),
        DayMove("raw", START - ONE_DAY, 0, 2, 0), DayMove("raw", START - 2 * ONE_DAY, 0, 0, 5),
    )  # fmt: skip
    assert PlanLook(moves).beyond(DayRange(START, START + ONE_DAY)) == [START - ONE_DAY, START + ONE_DAY]
