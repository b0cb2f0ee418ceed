"""Known totals of lake.toml in a plan: a control that breaks on the way stops it, one that the plan
mends does not.

Tested here: the controls of `plans.gate` and `plan_run`. Not tested here: judging
(`test_reconcile_controls.py`).
"""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.candidates.candidates import create_candidate
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import GateRefused
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.plans.files import resume_plan
from backfill_assets.plans.progress import read_progress
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets.plans.run import run_plan
from backfill_assets.reading.outcomes import last_outcomes
from backfill_assets.reading.settings import ControlSettings
from backfill_assets.reconcile.reconcile import affected_controls
from backfill_assets_tests.files import publish_by_hand
from backfill_assets_tests.planned import lines_held_back
from backfill_assets_tests.planning import (
    DAYS,
    HandWorker,
    Transform,
    bare_staging,
    good_rows,
    planned,
    write_by_hand,
)
from backfill_assets_tests.synthetic import Made

pytestmark = pytest.mark.usefixtures("storages")
DAY_SUM = 435
SUMS = "SELECT event_date AS day, sum(value) AS value FROM staging GROUP BY 1"
EVERY = f"duckdb:SELECT DISTINCT event_date AS day, {DAY_SUM} AS value FROM staging"


def doubled(day: date) -> list[dict[str, Any]]:
    return [row | {"value": 2 * row["value"]} for row in good_rows(day)]


def unknown(day: date) -> list[dict[str, Any]]:
    return [row | {"entity": None} for row in good_rows(day)]


def controlled(
    root: Path, query: str = SUMS, expected: str = EVERY, rows: Transform = good_rows
) -> Made:
    """A lake with days of staging, and the control `value` over them."""
    lake, pipeline = bare_staging(root)
    write_by_hand(lake, pipeline, DAYS, rows)
    controls = {"value": ControlSettings(query=query, expected=expected)}
    return replace(lake, settings=lake.settings.model_copy(update={"controls": controls})), pipeline


def test_a_control_that_a_chunk_breaks_stops_the_plan_and_can_be_accepted(tmp_path: Path) -> None:
    lake = controlled(tmp_path)
    plan = planned(*lake)
    with pytest.raises(GateRefused) as refused:
        run_plan(lambda: lake, plan, HandWorker(*lake, rows=doubled))
    told = f"controls value: 1 value(s) differ: {DAYS.start}: {2 * DAY_SUM}, expected {DAY_SUM}"
    assert told in str(refused.value)
    assert f"backfill-assets run {plan.id} --accept 1" in str(refused.value)
    with pytest.raises(GateRefused, match=r"the gate of chunk 2 .* 4 value\(s\) differ"):
        run_plan(lambda: lake, plan, HandWorker(*lake, rows=doubled), accepted=1)


def test_what_a_person_accepted_is_remembered_until_more_values_are_broken(tmp_path: Path) -> None:
    lake, pipeline = opened = controlled(tmp_path)
    worker = HandWorker(*opened, rows=lambda d: (doubled if d == DAYS.last else good_rows)(d))
    plan = planned(*opened)
    with pytest.raises(GateRefused, match=r"chunk 4 .* 1 value\(s\) differ"):
        run_plan(lambda: opened, plan, worker)
    assert read_progress(*opened, plan).going_on == f"run {plan.id} --accept 4"
    assert (
        f"(by the gate of chunk 4: see `backfill-assets plan show {plan.id}`)"
        in lines_held_back(lake)[plan.id]
    )
    assert f"`backfill-assets run {plan.id} --accept 4`, or" in lines_held_back(lake)[plan.id]
    assert "differ" not in lines_held_back(lake)[plan.id]
    assert run_plan(lambda: opened, plan, worker, accepted=4).state == "finished"
    roll_back(lake, pipeline, RollbackRequest(plan=plan.id), Provenance(""))
    release_days(lake, pipeline, RollbackRequest(plan=plan.id), Provenance(""))
    assert run_plan(lambda: opened, plan, worker).is_done, (
        "the control is as broken as it was accepted"
    )
    assert [o.broken for o in last_outcomes(lake)] == [1]


def test_an_accepted_chunk_is_not_judged_again_after_a_stop(tmp_path: Path) -> None:
    lake = controlled(tmp_path)
    plan = planned(*lake, stop_after="chunk")
    with pytest.raises(GateRefused, match="chunk 1 "):
        run_plan(lambda: lake, plan, HandWorker(*lake, rows=doubled))
    assert (
        run_plan(lambda: lake, plan, HandWorker(*lake, rows=doubled), accepted=1).state == "waiting"
    )
    resume_plan(lake[0], plan, "looked")
    with pytest.raises(GateRefused, match="chunk 2 "):
        run_plan(lambda: lake, plan, HandWorker(*lake, rows=doubled))


def test_only_controls_over_what_a_plan_writes_or_what_is_made_of_it_stop_it(
    tmp_path: Path,
) -> None:
    lake, pipeline = controlled(tmp_path, 'SELECT 1 AS "all", 2 AS value FROM features', "3")
    beside = replace(lake, shared=tmp_path, own=frozenset({"staging"}))
    plan = planned(beside, pipeline)
    assert (
        run_plan(lambda: (beside, pipeline), plan, HandWorker(beside, pipeline)).state == "finished"
    )

    def over(where: Lake, query: str, expected: str = "1", table: str = "staging") -> list[str]:
        controls = {"value": ControlSettings(query=query, expected=expected)}
        settings = where.settings.model_copy(update={"controls": controls})
        return affected_controls(replace(where, settings=settings), pipeline, [table])

    made_of_it = "SELECT value FROM features"
    assert [
        over(lake, query) for query in (made_of_it, "SELECT value FROM nowhere", "SELECT FROM")
    ] == [["value"]] * 3
    assert (over(beside, made_of_it, "features"), over(beside, made_of_it, table="features")) == (
        [],
        ["value"],
    )
    assert over(beside, made_of_it, "duckdb:SELECT * FROM staging") == ["value"]


def test_a_control_that_was_broken_before_may_stay_so_until_the_plan_has_mended_it(
    tmp_path: Path,
) -> None:
    lake = controlled(tmp_path)
    write_by_hand(*lake, DAYS, doubled)
    plan = planned(*lake)
    assert run_plan(lambda: lake, plan, HandWorker(*lake)).state == "finished"
    assert [o.holds for o in last_outcomes(lake[0])] == [True]
    still = planned(*lake)
    write_by_hand(*lake, DAYS, doubled)
    with pytest.raises(
        GateRefused, match=rf"the gate of chunk {len(still.chunks)} .* 10 value\(s\) differ"
    ):
        run_plan(lambda: lake, still, HandWorker(*lake, rows=doubled))


def test_a_control_over_days_that_the_plan_has_not_reached_yet_does_not_stop_it(
    tmp_path: Path,
) -> None:
    every = ", ".join(f"(DATE '{day}', {DAY_SUM})" for day in DAYS)
    known = SUMS.replace("GROUP", "WHERE entity IS NOT NULL GROUP")
    lake = controlled(
        tmp_path, known, f"duckdb:SELECT * FROM (VALUES {every}) AS t (day, value)", unknown
    )
    assert run_plan(lambda: lake, planned(*lake), HandWorker(*lake)).state == "finished"
    assert [o.holds for o in last_outcomes(lake[0])] == [True]


def test_under_a_candidate_days_that_it_does_not_build_are_the_lakes(tmp_path: Path) -> None:
    every = ", ".join(f"(DATE '{day}', {DAY_SUM})" for day in DAYS)
    query = SUMS.replace("GROUP", "WHERE (SELECT count(*) FROM total) > 0 GROUP")
    lake, pipeline = controlled(
        tmp_path, query, f"duckdb:SELECT * FROM (VALUES {every}) AS t (day, value)"
    )
    total = replace(pipeline.table("staging").contract, name="total")
    publish_by_hand(lake, total, good_rows(DAYS.start))
    made = create_candidate(lake, pipeline, "v2", ["staging"], lambda path: (path,))
    there = replace(made, settings=lake.settings), replace(pipeline, followers=(total,))
    few = DayRange(DAYS.start, DAYS.start + 2 * ONE_DAY)
    assert run_plan(lambda: there, planned(*there, few), HandWorker(*there)).state == "finished"
    assert [o.holds for o in last_outcomes(there[0])] == [True]
    with pytest.raises(GateRefused, match=rf"1 value\(s\) differ: {DAYS.start}: {2 * DAY_SUM}"):
        run_plan(lambda: there, planned(*there, few), HandWorker(*there, rows=doubled))


@pytest.mark.parametrize(
    ("query", "expected", "why"),
    [
        ("SELECT 1 AS day, 2 AS value FROM nothing", EVERY, "nothing"),
        (SUMS, "totals.csv", "totals.csv"),
    ],
)
def test_a_control_that_cannot_be_judged_stops_the_plan(
    tmp_path: Path, query: str, expected: str, why: str
) -> None:
    lake = controlled(tmp_path, query, expected)
    with pytest.raises(
        GateRefused, match=rf"the gate of chunk 1 .* value: could not be judged: .*{why}"
    ):
        run_plan(lambda: lake, planned(*lake), HandWorker(*lake))
