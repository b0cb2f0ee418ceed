"""Days that active plans have for themselves, as those see them who leave them alone.

Tested here: `reading.claims`. Not tested here: what holds a plan back (`plans/test_meanwhile.py`).
"""

from pathlib import Path

import pytest

from backfill_assets.plans.files import set_mark
from backfill_assets.reading.claims import active_plans, days_of_active_plans, planned_day_lines
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.plans.test_meanwhile import planned

pytestmark = pytest.mark.usefixtures("storages")


def test_a_lake_without_plans_claims_nothing(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    assert not active_plans(made.lake)
    assert days_of_active_plans(made.lake) == {}


def test_days_of_a_started_plan_are_named_by_table(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    plan = planned(made, ["features"])
    assert days_of_active_plans(made.lake) == {}, "it was not started"
    set_mark(made.lake, plan.id, "started")
    claimed = days_of_active_plans(made.lake)
    assert claimed == {table: {*plan.days} for table in plan.tables}
    (line,) = planned_day_lines(claimed, ["features", "a_table_of_nobody"])
    assert line.startswith("features: ")
