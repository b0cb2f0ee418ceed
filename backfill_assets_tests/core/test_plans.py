"""The tags of a chunk's receipts: its write mode and its code.

Tested here: `core.plans` with `Plan.tags`. Not tested here: what a plan does to a lake (`backfill/test_plan.py`).
"""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from backfill_assets.backfill.plan import cut
from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import CODE_TAG, KEEP_GOOD, MODE_TAG, ON_BAD_DAYS_TAG, WriteMode, mode_of
from backfill_assets.plans.model import Pins, Plan, PlanCode
from backfill_assets.plans.policy import Policy


@pytest.mark.parametrize(
    ("policy", "mode"),
    [
        (Policy(), ""),
        (Policy(write_mode="merge"), WriteMode.MERGE),
        (Policy(write_mode="merge", keep_removed=True), WriteMode.MERGE_KEEPING),
    ],
)
def test_the_tags_of_a_chunk_say_how_its_days_change_and_by_which_code(policy: Policy, mode: str) -> None:
    days, code = (
        DayRange(date(2024, 3, 1), date(2024, 3, 3)),
        PlanCode("v1", "0123456789abcdef", "f.py:tables", "", "fedc", 2),
    )
    made = datetime(2024, 4, 1, tzinfo=UTC)
    plan = Plan(
        "P",
        made,
        "me",
        days,
        ("staging",),
        cut(days, Policy(chunk="1d", canary=0)),
        policy,
        Pins({}, {}, {}, {}),
        code=code,
    )
    tags = plan.tags(plan.chunk(1))
    assert (mode_of(tags), tags[CODE_TAG]) == (mode, "v1 (0123456789ab; 2 file(s), digest fedc)")
    assert ON_BAD_DAYS_TAG not in tags
    kept = replace(plan, policy=policy.model_copy(update={"keep_good_days": True}))
    assert kept.tags(plan.chunk(1)) == {**tags, ON_BAD_DAYS_TAG: KEEP_GOOD}
    with pytest.raises(BackfillError, match="is no way to write"):
        mode_of({MODE_TAG: "append"})
