"""Items of the newest plan: each fault turns its own.

Tested here: `plans.plan_items`. Not tested here: the list of all items (`reports/test_checklist.py`).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.plans.model import plan_json
from backfill_assets.plans.plan_items import PLANNED, plan_items
from backfill_assets_tests.planning import DAYS as PLAN_DAYS
from backfill_assets_tests.planning import bare_staging, planned

pytestmark = pytest.mark.users_do


@pytest.mark.usefixtures("storages")
@pytest.mark.parametrize("item", PLANNED)
def test_each_item_of_a_plan_can_be_red(tmp_path: Path, item: str) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    failed = tuple(replace(t, passed=False) for t in plan.preflight)
    follows = tuple(replace(i, follows=(PLAN_DAYS,)) for i in plan.impacts)
    red = {
        "a key and a write strategy": replace(plan, preflight=failed),
        "chunks, each validated": replace(
            plan, policy=plan.policy.model_copy(update={"canary": 0})
        ),
        "the last rerun was equal": replace(plan, preflight=failed),
        "safe to run again": replace(plan, preflight=failed),
        "exact range, order, parallelism": replace(plan, impacts=follows),
        "verified before others rely on it": plan,
    }
    (lake.root / ".plans" / f"{plan.id}.json").write_text(plan_json(red[item]))
    holds, _, fix = dict(plan_items(lake, pipeline))[item]
    assert not holds
    assert fix
