"""How a plan is run: numbers that are none, and ranges of days as the plan's file has them.

Not tested here: the options that are made of the models (`cli/test_output`).
"""

from datetime import date
from typing import Any

import pytest

from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.plans.policy import Policy


@pytest.mark.parametrize("wrong", [{"canary": -1}, {"max_parallel": 0}, {"retries": -1}])
def test_numbers_below_their_bound_make_no_policy(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match="canary and retries are at least 0, max_parallel at least 1"
    ):
        Policy(**wrong)


def test_canary_days_are_read_as_the_file_has_them() -> None:
    policy = Policy(canary=2, canary_days=inclusive_range(date(2024, 3, 1), date(2024, 3, 2)))
    assert policy.model_dump(mode="json")["canary_days"] == ["2024-03-01", "2024-03-02"]
    assert Policy.model_validate_json(policy.model_dump_json()) == policy
