"""Impact: a label that became mature is told as that, and not as one whose inputs changed.

Tested here: `operations.plan_impact` of labels. Not tested here: other reasons and windows (`test_plan.py`).
"""

from datetime import timedelta
from pathlib import Path

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.lake.view import read_view
from backfill_assets.operations.plan_impact import impacts
from backfill_assets_tests.operations.synthetic import START, build, synthetic_lake


def test_a_label_that_became_mature_since_is_told_as_matured(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    day = START + ONE_DAY * 3
    build(lake, pipeline, "labels", {day: 3}, digests={day: "of before"})
    states = pipeline.states(read_view(lake, pipeline.contracts))
    version = states.view.table("labels").version
    now = states.frontier("labels")
    assert now is not None
    for frontier, why in ((now - timedelta(days=8), "matured"), (now, "stale")):
        (found,) = impacts(states, {"labels": {version: frontier}}, ("labels",), DayRange(day, day + ONE_DAY))[:1]
        assert list(found.write) == [why]
