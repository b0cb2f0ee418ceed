"""A plan as people read it: prices in a line, and a runbook whose tables are whole.

Tested here: `cli.plan_page`. Not tested here: the commands (`test_plan.py`).
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.cli.drawing import size
from backfill_assets.cli.plan_figures import total
from backfill_assets.cli.plan_page import draw_plan, runbook, show_progress
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import BETWEEN, START
from backfill_assets.operations.plan_progress import progress
from backfill_assets.operations.plan_run import run_plan
from backfill_assets_tests.operations.planning import HandWorker, bare_staging, planned
from backfill_assets_tests.operations.synthetic import synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_a_runbooks_tables_have_equal_columns_and_the_total_adds_up(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 10)
    plan = planned(lake, pipeline)
    text = runbook(progress(lake, pipeline, plan))
    steps = [line for line in text.split("## Steps")[1].splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in steps}) == 1
    assert len(steps) == len(plan.chunks) + 2
    assert total(plan).rows == sum(p.rows for p in plan.prices.values())


def test_after_the_run_the_real_bytes_and_the_time_that_no_write_took_stand_beside_what_was_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    now = replace(run_plan(lambda: (lake, pipeline), plan, HandWorker(lake, pipeline)), besides={BETWEEN: 9.3})
    show_progress(now, "json")
    told = json.loads(capsys.readouterr().out)
    staging = told["took"]["staging"]
    assert staging["bytes"] == sum(c["bytes"] or 0 for c in told["progress"]) > 0
    assert staging["rows"] == sum(c["rows"] or 0 for c in told["progress"]) > 0
    assert told["took_besides_s"] == {BETWEEN: 9.3}
    assert told["besides"].keys() == {START, BETWEEN}
    draw_plan(now)
    shown = capsys.readouterr().out
    assert f"{size(staging['bytes'])}, expected" in shown
    assert "between runs: 10 s (2..40, a guess); took 9.3 s" in shown


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
    for told in ("(finished)", "in all: ", "next: "):
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
    draw_plan(progress(lake, pipeline, plan))
    told = capsys.readouterr().out
    assert f"plan {plan.id} (stopped)" in told
    assert "stopped: chunk 2 (2024-02-27..2024-02-29)" in told
    assert "the server is gone" in told
    assert "1 of 5 took" in told
    assert "opening the engine: 20 s (0..80, a guess)" in told
    assert "between runs: 10 s (2..40, a guess)" in told
    assert f"next: backfill-assets run {plan.id}" in told
