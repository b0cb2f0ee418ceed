"""How far a plan is, read from a lake: its marks in a word, its chunks with price and truth.

Tested here: `plans.progress`. Not tested here: the rule of a chunk's state (`plans/test_states.py`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.model import Pipeline
from backfill_assets.plans.files import mark
from backfill_assets.plans.progress import progress
from backfill_assets_tests.operations.planning import planned
from backfill_assets_tests.operations.synthetic import synthetic_lake


def test_a_plan_that_is_forced_waits_and_one_of_right_days_is_done(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    forced, right = planned(lake, pipeline), planned(lake, pipeline, force=False)
    now = progress(lake, pipeline, forced)
    assert now.state == "new"
    assert {c.state.value for c in now.chunks} == {"pending"}
    assert [c.todo for c in now.chunks][:2] == [{"staging": 1}, {"staging": 3}]
    assert progress(lake, pipeline, right).is_done
    mark(lake, right.id, "ended", "cancelled: changed our minds")
    assert progress(lake, pipeline, right).state == "cancelled"


def test_a_plan_of_a_table_that_is_gone_says_so_and_how_it_ends(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 4)
    plan = planned(lake, pipeline)
    without = Pipeline(tuple(t for t in pipeline.tables if t.name not in plan.tables), pipeline.codes)
    with pytest.raises(BackfillError, match=rf"no table .*staging.* any more.*plan cancel {plan.id}"):
        progress(lake, without, plan)
