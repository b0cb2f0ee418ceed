"""A plan as people read it: prices in a line, and a runbook whose tables are whole.

Tested here: `cli.plan_page`. Not tested here: the commands (`backfill/test_plan.py`).
"""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.backfill.run import run_plan
from backfill_assets.cli.drawing import size
from backfill_assets.cli.plan_page import (
    LISTED_DAYS,
    look_rows,
    priced,
    runbook,
    show_progress,
    so_far,
    took_text,
    total,
)
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import DayMove
from backfill_assets.plans.model import PlanLook, Price
from backfill_assets.plans.progress import ChunkProgress, ChunkState, Took, progress
from backfill_assets_tests.operations.planning import HandWorker, bare_staging, planned
from backfill_assets_tests.operations.synthetic import synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_a_runbooks_tables_have_equal_columns_and_the_total_adds_up(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    text = runbook(progress(lake, pipeline, plan))
    steps = [line for line in text.split("## Steps")[1].split("## ")[0].splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in steps}) == 1
    assert len(steps) == len(plan.chunks) + 2
    assert total(plan).rows == sum(p.rows for p in plan.prices.values())


def test_after_the_run_the_real_bytes_stand_beside_what_was_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    now = run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline))
    show_progress(now, "json")
    told = json.loads(capsys.readouterr().out)
    staging = told["took"]["staging"]
    assert staging["bytes"] == sum(c["bytes"] or 0 for c in told["progress"]) > 0
    assert staging["rows"] == sum(c["rows"] or 0 for c in told["progress"]) > 0
    show_progress(now)
    shown = capsys.readouterr().out
    assert f"{size(staging['bytes'])}, expected" in shown


def test_who_has_run_a_plan_reads_what_it_came_to_and_not_the_whole_plan_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    done = run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline))
    show_progress(done, "outcome")
    outcome = capsys.readouterr().out
    show_progress(done)
    whole = capsys.readouterr().out
    for told in ("(finished)", "all chunks: ", "next: "):
        assert told in outcome
        assert told in whole
    for told in ("[x] ", "gates: "):
        assert told not in outcome
        assert told in whole


def test_a_plan_that_stopped_says_why_and_what_it_cost_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    with pytest.raises(BackfillError):
        run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline, fails_at=2))
    show_progress(progress(lake, pipeline, plan))
    told = capsys.readouterr().out
    assert f"plan {plan.id} (stopped)" in told
    assert "stopped: chunk 2 (2024-02-27..2024-02-29)" in told
    assert "the server is gone" in told
    assert "1 of 5 took" in told
    assert f"next: backfill-assets run {plan.id}" in told


def test_a_price_names_its_interval_and_a_guess() -> None:
    told = Price(27.3, 9.6, 75.2, 1026, 81_400, 3, 40.0)
    assert priced(told) == "27 s (10..75), 40 s CPU, 1,026 rows, 81 kB"
    assert priced(Price(2.0, 0.4, 8.0)) == "2 s (0..8, a guess), 0 rows"
    assert priced(Price(0.0, 0.0, 38.0, writes=4)) == "0 s (0..38), 0 rows", "what may be nothing may be more"
    assert priced(None) == "nothing"


def test_what_was_spent_is_told_as_far_as_receipts_tell_it() -> None:
    assert took_text(Took(12.31, 20.0, 1026, 81_400)) == "12.3 s (20.0 s CPU), 1,026 rows, 81 kB"
    assert took_text(Took(12.31, None, 1026, None, 10)) == "12.3 s, 1,026 rows (10 kept)"
    assert took_text(None) == "-"


def test_what_is_left_costs_its_price_at_the_pace_so_far(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    new = progress(lake, pipeline, plan)
    assert so_far(new) == ""
    assert new.seconds_left(plan.chunks[0]) == pytest.approx(total(plan).seconds)
    left = total(plan).seconds - plan.prices[1].seconds

    def after(seconds: float, number: int) -> ChunkProgress:
        return replace(new.chunks[number - 1], state=ChunkState.DONE, took=Took(seconds, None, 1, None))

    cold, slow = after(9.0, 1), after(10.0 + 2 * plan.prices[1].seconds, 1)
    assert replace(new, chunks=(cold, *new.chunks[1:])).seconds_left(plan.chunks[1]) == pytest.approx(left)
    assert replace(new, chunks=(slow, *new.chunks[1:])).seconds_left(plan.chunks[1]) == pytest.approx(2 * left)
    second = replace(new, chunks=(slow, after(3 * plan.prices[2].seconds, 2), *new.chunks[2:]))
    assert second.seconds_left(plan.chunks[2]) == pytest.approx(3 * (left - plan.prices[2].seconds))
    done = run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline))
    assert done.seconds_left(plan.chunks[-1]) == 0


START = date(2024, 3, 1)


def test_days_beyond_the_range_are_listed_first_and_unmoved_ones_never() -> None:
    days = DayRange(START, START + 40 * ONE_DAY)
    moves = [DayMove("staging", START + n * ONE_DAY, 1, 0, 0) for n in range(41)]
    rows = look_rows(PlanLook((*moves, DayMove("staging", START - ONE_DAY, 0, 0, 9))), days)
    assert len(rows) == LISTED_DAYS
    assert rows[0] == ["staging", str(START + 40 * ONE_DAY), "+1", "-0", "0", "no"]
