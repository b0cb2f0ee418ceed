"""The sections `[plan]` and `[controls]`: what is no window or no rate is refused where lake.toml is read.

Tested here: `lake.operator_settings`. Not tested here: waiting (`operations/test_plan_waits.py`), judging
(`operations/test_controls.py`).
"""

import pytest
from pydantic import ValidationError

from backfill_assets.lake.operator_settings import PlanSettings


@pytest.mark.parametrize("window", ["00:00-23:59", "22:00-06:00"])
def test_a_window_is_two_times_of_a_day(window: str) -> None:
    assert PlanSettings(window=window).window == window


@pytest.mark.parametrize("window", ["22-6", "24:00-06:00", "22:00-06:60", "22:00", "", "22:00-06:00 CET"])
def test_what_is_no_window_is_refused(window: str) -> None:
    with pytest.raises(ValidationError, match="window"):
        PlanSettings(window=window)


def test_no_run_in_an_hour_is_no_rate() -> None:
    with pytest.raises(ValidationError, match="runs_per_hour"):
        PlanSettings(runs_per_hour=0)
