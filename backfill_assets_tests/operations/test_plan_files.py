"""The files of plans: written once, marks that stay, and the days that are left to active plans.

Tested here: `operations.plan_files`. Not tested here: what a plan says (`core/test_plan_json.py`).
"""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.operations.plan_files import active_plans, keep_plan, left_to_plans, mark, marked
from backfill_assets_tests.operations.planning import planned
from backfill_assets_tests.operations.synthetic import synthetic_lake


def test_a_plan_is_written_once_and_active_between_its_marks(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    with pytest.raises(BackfillError, match="it is there already"):
        keep_plan(lake, plan)
    assert active_plans(lake) == []
    mark(lake, plan.id, "started")
    assert active_plans(lake) == [plan]
    mark(lake, plan.id, "ended", "finished")
    mark(lake, plan.id, "ended", "cancelled")  # the first end stays
    assert marked(lake, plan.id, "ended") == "finished"
    assert active_plans(lake) == []


def test_days_left_to_plans_are_told_per_table() -> None:
    (line,) = left_to_plans({"staging": {date(2024, 3, 1)}, "raw": set()}, ("raw", "staging"))
    assert line.startswith("staging: 2024-03-01 left alone")
