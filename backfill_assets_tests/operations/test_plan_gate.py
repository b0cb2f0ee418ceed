"""What a failed gate says: where, which figures, what stands, and what to type next.

Tested here: `operations.plan_gate.refusal`. Not tested here: gathering figures (`test_plan_run.py`).
"""

from pathlib import Path

from backfill_assets.core.plan_gates import GateFinding
from backfill_assets.operations.plan_gate import refusal
from backfill_assets_tests.operations.planning import planned
from backfill_assets_tests.operations.synthetic import START, synthetic_lake


def test_a_refusal_says_where_and_what_to_type_next(tmp_path: Path) -> None:
    plan = planned(*synthetic_lake(tmp_path, 10))
    found = [GateFinding("staging", START, "rows", "3 rows before, 9 now", "")] * 7
    stands, gone = (str(refusal(plan, plan.chunk(2), found, put_back)) for put_back in (False, True))
    assert "7 finding(s) on staging 2024-02-26: staging 2024-02-26 rows: 3 rows before, 9 now" in stands
    assert "2 more" in stands
    assert f"rollback --plan {plan.id} --chunk 2 --yes" in stands
    assert f"run {plan.id} --accept 2" in stands
    assert f"release --plan {plan.id} --chunk 2 --yes" in gone
