"""The job `backfill_range`: what its launchpad refuses, and chunks at once, each in a process of
the command `run`.

Tested here: the job's settings and the ticks of its sensor, on lakes without an engine. Not tested
here: its runs (`end_to_end`).
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.runs import LAKE_TAG
from backfill_assets.dagster.adapter.ticks import Tick
from backfill_assets.kernel.core.days import inclusive_range, parse_day
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import PLAN_TAG
from backfill_assets.pipeline.tables import tables
from backfill_assets.plans.files import (
    FINISHED,
    keep_plan,
    only_runner,
    remove_mark,
    resume_plan,
    set_mark,
)
from backfill_assets.plans.model import Plan
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.plan_job import (
    BACKFILL_RANGE,
    RUN_CHUNKS,
    chunk_maker,
    plans_tick,
)
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.run import activate_plan, run_plan
from backfill_assets.plans.work import ChunkWork
from backfill_assets_tests.dagster.adapter.test_run_liveness import DEAD, begun
from backfill_assets_tests.dagster.adapter.ticking import DAYS, Made, ran
from backfill_assets_tests.planned import lines_held_back
from backfill_assets_tests.planning import HandWorker, bare_staging, planned, versions_of
from backfill_assets_tests.synthetic import synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
ASKED = {"start_date": "2024-02-26", "end_date": "2024-02-28", "tables": "staging"}


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """A lake of the module's `DAYS`, else of as many as ticks look at, and its pipeline."""
    return synthetic_lake(tmp_path / "lake", getattr(request.module, "DAYS", DAYS))


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
        ({"end_date": "2999-01-01"}, "not all of the days"),
        ({"tables": "stagin"}, "no table stagin"),
        ({"expect": ["staging.size ±0"]}, "size is no figure of a table"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(
    tmp_path: Path, config: dict[str, Any], told: str
) -> None:
    lake, _ = synthetic_lake(tmp_path, 5)
    assert told in run(lake.root, **config)
    assert not (lake.root / ".plans").exists()


def test_a_range_of_right_days_and_a_finished_plan_end_well_without_a_run(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 5)
    assert (run(lake.root), (lake.root / ".plans").exists()) == ("", False)
    days = inclusive_range(parse_day(ASKED["start_date"]), parse_day(ASKED["end_date"]))
    plan = make_plan(lake, pipeline, PlanRequest(days, ("staging",), Policy(force=True)))
    keep_plan(lake, plan)
    set_mark(lake, plan.id, "ended", FINISHED)
    before = [name for name in versions_of(lake) if name.startswith(("tables", ".plans"))]
    assert run(lake.root, plan=plan.id) == ""
    assert [name for name in versions_of(lake) if name.startswith(("tables", ".plans"))] == before


def at_once(lake: Made, home: Path) -> list[str]:
    """The causes of two chunks of right days, each made in a process of its own."""
    plan = planned(*lake, force=False, max_parallel=2)
    works = [ChunkWork(plan, chunk, plan.tables, chunk.days) for chunk in plan.chunks[1:3]]

    def rebuild_of(_: Collection[str]) -> dg.JobDefinition:
        raise AssertionError("nothing is to be made")

    with dg.DagsterInstance.local_temp(str(home)) as instance:
        run = dg.DagsterRun("backfill_range", run_id="run")
        return chunk_maker(
            instance, LakeContext(lake[0].root, tables), rebuild_of, run, print
        ).make(works)


@pytest.mark.usefixtures("processes")
def test_processes_find_lake_tables_and_plan_by_their_parent_and_refuse_others_by_their_pins(
    lake: Made, tmp_path: Path
) -> None:
    assert at_once(lake, tmp_path) == ["", ""]
    there, pipeline = lake
    other = replace(pipeline.codes["staging"], code_digest="other")
    causes = at_once(
        (there, replace(pipeline, codes={**pipeline.codes, "staging": other})), tmp_path
    )
    assert len(causes) == 2
    assert all(
        "its pins hold no longer: the code of staging was other, is " in cause for cause in causes
    )


def ticked(lake: Made, instance: dg.DagsterInstance) -> Tick:
    return plans_tick(instance, LakeContext(lake[0].root, tables))


@pytest.mark.parametrize("is_canceled", [False, True])
def test_without_a_plan_a_run_whose_process_is_gone_is_ended(
    lake: Made, instance: dg.DagsterInstance, is_canceled: bool
) -> None:
    assert ticked(lake, instance).notes == ["no plan is under way"]
    dead = begun(instance, lake[0], DEAD)
    run = instance.get_run_by_id(dead)
    if is_canceled and run is not None:
        instance.report_run_canceling(run)
    told = [f"run {dead} ended: its process is gone", "no plan is under way"]
    assert ticked(lake, instance).notes == told


def test_a_plan_asked_for_or_left_by_its_runner_is_taken_up(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    plan = planned(*lake)
    assert ticked(lake, instance).requests == []  # nobody asked for it
    activate_plan(
        *lake, plan
    )  # as a runner does first: killed then, it leaves this and nothing else
    (request,) = ticked(lake, instance).requests
    assert request.job_name == "backfill_range"
    assert request.run_config["ops"]["run_chunks"]["config"]["plan"] == plan.id
    assert request.tags[PLAN_TAG] == plan.id


def test_a_plan_that_is_run_queued_paused_stopped_or_ended_is_not(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    plan = planned(*lake)
    activate_plan(*lake, plan)
    (request,) = ticked(lake, instance).requests
    with only_runner(lake[0], plan):
        assert _spelled(lake, instance) == f"plan {plan.id} is being run"
    set_mark(lake[0], plan.id, "paused", "lunch")
    assert "is paused (lunch)" in _spelled(lake, instance) == lines_held_back(lake[0])[plan.id]
    remove_mark(lake[0], plan.id, "paused")
    ran(instance, request, dg.DagsterRunStatus.STARTED)
    assert _spelled(lake, instance) == f"plan {plan.id}: its run is queued or starting"
    set_mark(lake[0], plan.id, "ended", "cancelled")
    assert _spelled(lake, instance) == "no plan is under way"


def _spelled(lake: Made, instance: dg.DagsterInstance) -> str:
    tick = ticked(lake, instance)
    assert tick.requests == []
    return tick.notes[0]


@pytest.mark.parametrize("word", ["stopped", "waiting"])
def test_a_plan_that_a_run_stopped_or_that_waits_is_an_alarm_until_a_person_looked(
    tmp_path: Path, instance: dg.DagsterInstance, word: str
) -> None:
    lake = bare_staging(tmp_path)
    plan = planned(*lake, stop_after="canary" if word == "waiting" else "")
    if word == "waiting":
        assert run_plan(lambda: lake, plan, HandWorker(*lake)).state == "waiting"
    else:
        with pytest.raises(BackfillError, match="the server is gone"):
            run_plan(lambda: lake, plan, HandWorker(*lake, fails_at=2))
    tick = ticked(lake, instance)
    assert (tick.requests, tick.alarms) == (
        [],
        {f"plan {plan.id} {word}": lines_held_back(lake[0])[plan.id]},
    )
    assert ("the server is gone" in tick.alarms[f"plan {plan.id} {word}"]) == (word == "stopped")
    if word == "waiting":
        resume_plan(lake[0], plan, "looked")
    else:
        activate_plan(*lake, plan)  # what `run PLAN --daemon` does
    assert len(ticked(lake, instance).requests) == 1


def test_a_plan_whose_process_dies_before_it_writes_is_given_up(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    plan: Plan = planned(*lake)
    activate_plan(*lake, plan)
    for _ in range(3):
        (request,) = ticked(lake, instance).requests
        ran(instance, request, dg.DagsterRunStatus.FAILURE)
    tick = ticked(lake, instance)
    assert tick.requests == []
    assert "was begun 3 times" in tick.alarms[f"plan {plan.id}"]


def test_a_plan_that_wrote_since_its_process_died_is_begun_as_often_again(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lake = bare_staging(tmp_path)
    plan = planned(*lake)
    activate_plan(*lake, plan)
    for _ in range(3):
        (request,) = ticked(lake, instance).requests
        ran(instance, request, dg.DagsterRunStatus.FAILURE)
    with pytest.raises(BackfillError, match="the server is gone"):
        run_plan(lambda: lake, plan, HandWorker(*lake, fails_at=2))
    activate_plan(*lake, plan)
    assert len(ticked(lake, instance).requests) == 1


def test_a_plan_whose_priority_is_below_0_is_taken_up_when_no_other_run_waits_or_works(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    file = lake[0].root / "lake.toml"
    file.write_text(f"{file.read_text('utf-8')}\n[plan]\npriority = -1\n", "utf-8")
    activate_plan(*lake, planned(*lake))
    load = instance.add_run(
        dg.DagsterRun(
            "rebuild", status=dg.DagsterRunStatus.STARTING, tags={LAKE_TAG: lake[0].address}
        )
    )
    tick = ticked(lake, instance)
    assert tick.requests == []
    waits = f"waits for the run {load.run_id[:8]} of rebuild, which goes first (`[plan] priority`)"
    assert waits in " ".join(tick.notes)
    instance.delete_run(load.run_id)
    assert len(ticked(lake, instance).requests) == 1
