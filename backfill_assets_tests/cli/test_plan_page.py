"""A plan as people read it: prices in a line, and a runbook whose tables are whole.

Tested here: `cli.plan_page`. Not tested here: the commands (`test_plan.py`).
"""

from pathlib import Path

from backfill_assets.cli.plan_page import runbook, total
from backfill_assets.operations.plan_progress import progress
from backfill_assets_tests.operations.planning import planned
from backfill_assets_tests.operations.synthetic import synthetic_lake


def test_a_runbooks_tables_have_equal_columns_and_the_total_adds_up(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    text = runbook(progress(lake, pipeline, plan))
    steps = [line for line in text.split("## Steps")[1].splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in steps}) == 1
    assert len(steps) == len(plan.chunks) + 2
    assert total(plan).rows == sum(p.rows for p in plan.prices.values())
