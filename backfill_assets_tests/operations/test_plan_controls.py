"""Known totals of lake.toml in a plan: a control that breaks on the way stops it, one that the plan mends does not.

Tested here: the controls of `operations.plan_gate` and `plan_run`. Not tested here: judging (`test_controls.py`).
"""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.errors import GateRefused
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.sections import ControlSettings
from backfill_assets.operations.controls import last_outcomes
from backfill_assets.operations.plan_run import run_plan
from backfill_assets_tests.operations.planning import (
    DAYS,
    HandWorker,
    Transform,
    bare_staging,
    good_rows,
    planned,
    write_by_hand,
)

pytestmark = pytest.mark.usefixtures("storages")

Opened = tuple[Lake, Pipeline]
DAY_SUM = 435
SUMS = "SELECT event_date AS day, sum(value) AS value FROM staging GROUP BY 1"
EVERY = f"duckdb:SELECT DISTINCT event_date AS day, {DAY_SUM} AS value FROM staging"


def doubled(day: date) -> list[dict[str, Any]]:
    return [row | {"value": 2 * row["value"]} for row in good_rows(day)]


def unknown(day: date) -> list[dict[str, Any]]:
    return [row | {"entity": None} for row in good_rows(day)]


def controlled(root: Path, query: str = SUMS, expected: str = EVERY, rows: Transform = good_rows) -> Opened:
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


def test_a_control_that_was_broken_before_may_stay_so_until_the_plan_has_mended_it(tmp_path: Path) -> None:
    lake = controlled(tmp_path)
    write_by_hand(*lake, DAYS, doubled)
    plan = planned(*lake)
    assert run_plan(lambda: lake, plan, HandWorker(*lake)).state == "finished"
    assert [o.holds for o in last_outcomes(lake[0])] == [True]
    still = planned(*lake)
    write_by_hand(*lake, DAYS, doubled)
    with pytest.raises(GateRefused, match=rf"the gate of chunk {len(still.chunks)} .* 10 value\(s\) differ"):
        run_plan(lambda: lake, still, HandWorker(*lake, rows=doubled))


def test_a_control_over_days_that_the_plan_has_not_reached_yet_does_not_stop_it(tmp_path: Path) -> None:
    every = ", ".join(f"(DATE '{day}', {DAY_SUM})" for day in DAYS)
    known = SUMS.replace("GROUP", "WHERE entity IS NOT NULL GROUP")
    lake = controlled(tmp_path, known, f"duckdb:SELECT * FROM (VALUES {every}) AS t (day, value)", unknown)
    assert run_plan(lambda: lake, planned(*lake), HandWorker(*lake)).state == "finished"
    assert [o.holds for o in last_outcomes(lake[0])] == [True]


@pytest.mark.parametrize(
    ("query", "expected", "why"),
    [("SELECT 1 AS day, 2 AS value FROM nothing", EVERY, "nothing"), (SUMS, "totals.csv", "totals.csv")],
)
def test_a_control_that_cannot_be_judged_stops_the_plan(tmp_path: Path, query: str, expected: str, why: str) -> None:
    lake = controlled(tmp_path, query, expected)
    with pytest.raises(GateRefused, match=rf"the gate of chunk 1 .* value: could not be judged: .*{why}"):
        run_plan(lambda: lake, planned(*lake), HandWorker(*lake))
