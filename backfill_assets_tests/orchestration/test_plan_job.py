"""The job `backfill_range`: what its launchpad refuses, and chunks at once, each in a process of the command `run`.

Tested here: the job's settings on a lake without an engine. Not tested here: its runs (`end_to_end`).
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.backfill.plan import PlanRequest, make_plan
from backfill_assets.backfill.work import ChunkWork
from backfill_assets.core.days import from_inclusive, parse_day
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.plan_job import BACKFILL_RANGE, RUN_CHUNKS, chunk_maker
from backfill_assets.pipeline.tables import tables
from backfill_assets.plans.files import FINISHED, keep_plan, mark, resume, state_of
from backfill_assets.plans.policy import Policy
from backfill_assets_tests.operations.planning import planned, versions_of
from backfill_assets_tests.operations.synthetic import synthetic_lake
from backfill_assets_tests.orchestration.ticking import Made

pytestmark = pytest.mark.usefixtures("storages")

ASKED = {"start_date": "2024-02-26", "end_date": "2024-02-28", "tables": "staging"}


def run(root: Path, **config: Any) -> str:
    """One run in this process; the cause where it failed, else an empty text."""
    job = assemble(root, tables).resolve_job_def(BACKFILL_RANGE)
    with dg.DagsterInstance.ephemeral() as instance:
        asked = {"ops": {RUN_CHUNKS: {"config": {**ASKED, **config}}}}
        result = job.execute_in_process(run_config=asked, instance=instance, raise_on_error=False)
    failed = [e.step_failure_data.user_failure_data for e in result.all_events if e.is_step_failure]
    return next((str(f.description) for f in failed if f is not None), "")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"write_mode": "append"}, "a backfill by append has doubled"),
        ({"write_mode": "merge", "tables": "raw,staging"}, "its days cannot be merged"),
        ({"chunk": "fortnight"}, "is no size"),
        ({"end_date": "2999-01-01"}, "not all of the days"),
        ({"tables": "stagin"}, "no table stagin"),
        ({"max_parallel": 0}, "max_parallel at least 1"),
        ({"canary_days": "2024-03-01"}, "2024-03-01 is not within the days 2024-02-26..2024-02-28"),
        ({"stop_after": "noon"}, "'noon' is no point of a plan"),
        ({"expect": ["staging.size ±0"]}, "size is no figure of a table"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(tmp_path: Path, config: dict[str, Any], told: str) -> None:
    lake, _ = synthetic_lake(tmp_path, 5)
    assert told in run(lake.root, **config)
    assert not (lake.root / ".plans").exists()


def test_a_range_of_right_days_ends_well_without_a_plan_or_a_run(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 5)
    assert run(lake.root) == ""
    assert not (lake.root / ".plans").exists()


def test_a_finished_plan_ends_well_without_a_run(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 5)
    days = from_inclusive(parse_day(ASKED["start_date"]), parse_day(ASKED["end_date"]))
    plan = make_plan(lake, pipeline, PlanRequest(days, ("staging",), Policy(force=True)))
    keep_plan(lake, plan)
    mark(lake, plan.id, "ended", FINISHED)
    before = [name for name in versions_of(lake) if name.startswith(("tables", ".plans"))]
    assert run(lake.root, plan=plan.id) == ""
    assert [name for name in versions_of(lake) if name.startswith(("tables", ".plans"))] == before


def test_a_plan_that_waits_for_a_person_ends_its_run_well(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 5)
    days = from_inclusive(parse_day(ASKED["start_date"]), parse_day(ASKED["end_date"]))
    plan = make_plan(lake, pipeline, PlanRequest(days, ("staging",), Policy(chunk="1d", stop_after="canary")))
    keep_plan(lake, plan)
    assert run(lake.root, plan=plan.id) == ""
    assert state_of(lake, plan) == "waiting"
    assert f"is waiting (chunk 1 ({days.start}) is made" in run(lake.root, plan=plan.id)
    resume(lake, plan, "looked")
    assert run(lake.root, plan=plan.id) == ""
    assert state_of(lake, plan) == FINISHED


def at_once(lake: Made, home: Path) -> list[str]:
    """The causes of two chunks of right days, each made in a process of its own."""
    plan = planned(*lake, force=False, max_parallel=2)
    works = [ChunkWork(plan, chunk, plan.tables, chunk.days) for chunk in plan.chunks[1:3]]

    def rebuild_of(_: Collection[str]) -> dg.JobDefinition:
        raise AssertionError("nothing is to be made")

    with dg.DagsterInstance.local_temp(str(home)) as instance:
        run = dg.DagsterRun("backfill_range", run_id="run")
        return chunk_maker(instance, LakeContext(lake[0].root, tables), rebuild_of, run, print).make(works)


@pytest.mark.usefixtures("processes")
def test_processes_find_lake_tables_and_plan_by_what_the_parent_says(lake: Made, tmp_path: Path) -> None:
    assert at_once(lake, tmp_path) == ["", ""]


@pytest.mark.usefixtures("processes")
def test_processes_that_find_other_tables_than_those_planned_are_refused_by_their_pins(
    lake: Made, tmp_path: Path
) -> None:
    there, pipeline = lake
    other = replace(pipeline.codes["staging"], code_digest="other")
    causes = at_once((there, replace(pipeline, codes={**pipeline.codes, "staging": other})), tmp_path)
    assert len(causes) == 2
    assert all("its pins hold no longer: the code of staging was other, is " in cause for cause in causes)
