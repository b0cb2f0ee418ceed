"""The look on the screen: days beyond the range come first, so that a long list does not hide them.

Tested here: `cli.plan_page`. Not tested here: the words (`backfill/test_impact.py`).
"""

from datetime import date

from backfill_assets.cli.plan_page import LISTED_DAYS, look_rows
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.plans import DayMove
from backfill_assets.plans.model import PlanLook

START = date(2024, 3, 1)


def test_days_beyond_the_range_are_listed_first_and_unmoved_ones_never() -> None:
    days = DayRange(START, START + 40 * ONE_DAY)
    moves = [DayMove("staging", START + n * ONE_DAY, 1, 0, 0) for n in range(41)]
    rows = look_rows(PlanLook((*moves, DayMove("staging", START - ONE_DAY, 0, 0, 9))), days)
    assert len(rows) == LISTED_DAYS
    assert rows[0] == ["staging", str(START + 40 * ONE_DAY), "+1", "-0", "0", "no"]
