"""A plan as people read it: prices in a line, and a runbook whose tables are whole.
Not here: the commands (`plans/test_plan.py`)."""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.plans.plan_page import runbook_text, show_progress, spent_so_far, total_price
from backfill_assets.plans.progress import ChunkProgress, ChunkState, Took, read_progress
from backfill_assets.plans.run import run_plan
from backfill_assets_tests.planning import HandWorker, bare_staging, planned
from backfill_assets_tests.synthetic import synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_a_runbooks_tables_have_equal_columns_and_the_total_adds_up(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    text = runbook_text(read_progress(lake, pipeline, plan))
    steps = [
        line
        for line in text.split("## Steps")[1].split("## ")[0].splitlines()
        if line.startswith("|")
    ]
    assert len({line.count("|") for line in steps}) == 1
    assert len(steps) == len(plan.chunks) + 2
    assert total_price(plan).rows == sum(p.rows for p in plan.prices.values())


def test_who_has_run_a_plan_reads_what_it_came_to_and_not_the_whole_plan_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    done = run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline))
    show_progress(done, outcome=True)
    outcome = capsys.readouterr().out
    show_progress(done)
    whole = capsys.readouterr().out
    for told in ("(finished)", "all chunks: ", "next: "):
        assert told in outcome
        assert told in whole
    for told in ("[x] ", "gates: "):
        assert told not in outcome
        assert told in whole


def test_what_is_left_costs_its_price_at_the_pace_so_far(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    new = read_progress(lake, pipeline, plan)
    assert spent_so_far(new) == ""
    assert new.seconds_left(plan.chunks[0]) == pytest.approx(total_price(plan).seconds)
    left = total_price(plan).seconds - plan.prices[1].seconds

    def after(seconds: float, number: int) -> ChunkProgress:
        return replace(
            new.chunks[number - 1], state=ChunkState.DONE, took=Took(seconds, None, 1, None)
        )

    cold, slow = after(9.0, 1), after(10.0 + 2 * plan.prices[1].seconds, 1)
    assert replace(new, chunks=(cold, *new.chunks[1:])).seconds_left(
        plan.chunks[1]
    ) == pytest.approx(left)
    assert replace(new, chunks=(slow, *new.chunks[1:])).seconds_left(
        plan.chunks[1]
    ) == pytest.approx(2 * left)
    second = replace(new, chunks=(slow, after(3 * plan.prices[2].seconds, 2), *new.chunks[2:]))
    assert second.seconds_left(plan.chunks[2]) == pytest.approx(3 * (left - plan.prices[2].seconds))
    done = run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline))
    assert done.seconds_left(plan.chunks[-1]) == 0
