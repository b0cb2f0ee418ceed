"""Impact: a label that became mature is shown as that; days whose rows move, and days that follow from these.

Tested here: `backfill.plan`. Not tested here: other reasons and windows (`backfill/test_plan.py`), finding moves
(`load.test_moves`).
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from backfill_assets.backfill.plan import impacts, look_of
from backfill_assets.cli.plan_page import look_lines, look_rows
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.plans import DayMove
from backfill_assets.lake.view import read_view
from backfill_assets.plans.model import parse_plan, plan_json
from backfill_assets.plans.policy import Policy
from backfill_assets_tests.operations.planning import planned
from backfill_assets_tests.operations.synthetic import START, build, synthetic_lake


def test_a_label_that_became_mature_since_is_told_as_matured(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    day = START + ONE_DAY * 3
    build(lake, pipeline, "labels", {day: 3}, digests={day: "of before"})
    states = pipeline.states(read_view(lake, pipeline.contracts))
    now, latest = states.frontier("labels"), states.view.table("labels").latest
    assert now is not None
    for frontier, why in ((now - timedelta(days=8), "matured"), (now, "stale")):
        written = replace(states.view.table("labels"), latest={**latest, day: replace(latest[day], frontier=frontier)})
        then = pipeline.states(replace(states.view, tables={**states.view.tables, "labels": written}))
        (found,) = impacts(then, ("labels",), DayRange(day, day + ONE_DAY), Policy())[:1]
        assert list(found.write) == [why]


def test_days_that_gain_rows_beyond_the_range_and_what_follows_are_kept_and_told(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 12)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    moves = [DayMove("raw", START, 0, 0, 3), DayMove("staging", START + 5 * ONE_DAY, 2, 0, 0)]
    look = look_of(states, moves)
    assert look.follows["features"] == (DayRange(START + 5 * ONE_DAY, START + 8 * ONE_DAY),)
    days = DayRange(START, START + 3 * ONE_DAY)
    plan = replace(planned(lake, pipeline, days), look=look)
    assert parse_plan(plan_json(plan)).look == look
    assert look_rows(look, days) == [["staging", str(START + 5 * ONE_DAY), "+2", "-0", "0", "no"]]
    told = "\n".join(look_lines(look, days))
    assert f"beyond the range: {START + 5 * ONE_DAY} gain or lose rows too" in told
    assert f"plan --from {START} --to {START + 5 * ONE_DAY}" in told
    assert f"look: raw: 0 day(s) gain or lose rows (+0 -0), 3 row(s) on 1 day(s) change content: {START}" in told
