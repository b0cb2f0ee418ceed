"""Days of active plans: sensors and schedules leave them alone and say so, and take them up when the plan has ended.

Tested here: `ticks` and the schedules of `sensors` with a plan's marks. Not tested here: what a plan is
(`backfill/test_plan.py`).
"""

from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.backfill.plan import PlanRequest, make_plan
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.sensors import missed_days
from backfill_assets.pipeline.tables import tables
from backfill_assets.plans.files import keep_plan, mark
from backfill_assets.plans.policy import Policy
from backfill_assets_tests.operations.synthetic import synthetic_lake
from backfill_assets_tests.orchestration.ticking import DAYS, asked, day, late, stale

pytestmark = pytest.mark.usefixtures("storages")


def _active(lake: Lake, pipeline: Pipeline, first: int, end: int, *names: str) -> str:
    days = DayRange(day(first), day(end))
    plan = make_plan(lake, pipeline, PlanRequest(days, names, Policy()))
    keep_plan(lake, plan)
    mark(lake, plan.id, "started")
    return plan.id


def test_the_sensor_leaves_days_of_an_active_plan_alone_until_it_has_ended(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lake = synthetic_lake(tmp_path / "lake", DAYS)
    stale(lake, 2, 8)
    plan = _active(*lake, 0, 5, "staging")
    tick = late(lake, instance)
    assert asked(tick) == [f"staging {day(8)}"]
    assert f"staging: {day(0)}..{day(4)} left alone: of an active plan (`backfill-assets plan list`)" in tick.notes
    mark(lake[0], plan, "ended", "finished")
    assert asked(late(lake, instance)) == [f"staging {day(2)}..{day(8)}"]


def test_the_daily_schedule_leaves_days_of_an_active_plan_alone(tmp_path: Path) -> None:
    lake = synthetic_lake(tmp_path / "lake", DAYS)
    today = day(DAYS + 3)
    context = LakeContext(lake[0].root, tables)
    assert [d for span in missed_days(context, today) for d in span] == [day(DAYS + n) for n in range(3)]
    _active(*lake, DAYS, DAYS + 1, "raw")
    assert [d for span in missed_days(context, today) for d in span] == [day(DAYS + 1), today - ONE_DAY]
