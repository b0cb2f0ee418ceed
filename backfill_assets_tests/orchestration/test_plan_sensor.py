"""The sensor `plans`: who is taken up by the daemon, and who is not.

Tested here: its ticks, with plans begun, killed, stopped, paused and being run. Not tested here: the run it asks for
(`test_plan_job`) and the daemon itself (`end_to_end/test_plan_daemon.py`).
"""

from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.backfill.run import activate, run_plan
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import PLAN_TAG
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.plan_job import plans_tick
from backfill_assets.orchestration.ticks import Tick
from backfill_assets.pipeline.tables import tables
from backfill_assets.plans.files import held_back, mark, only_runner, resume, unmark
from backfill_assets.plans.model import Plan
from backfill_assets_tests.operations.planning import HandWorker, bare_staging, planned
from backfill_assets_tests.orchestration.ticking import Made, ran

pytestmark = pytest.mark.usefixtures("storages")


def ticked(lake: Made, instance: dg.DagsterInstance) -> Tick:
    return plans_tick(instance, LakeContext(lake[0].root, tables))


def test_a_plan_that_was_asked_for_and_one_whose_runner_was_killed_are_taken_up(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    plan = planned(*lake)
    assert ticked(lake, instance).requests == []  # nobody asked for it
    activate(*lake, plan)  # as a runner does first: killed then, it leaves this and nothing else
    (request,) = ticked(lake, instance).requests
    assert request.job_name == "backfill_range"
    assert request.run_config["ops"]["run_chunks"]["config"]["plan"] == plan.id
    assert request.tags[PLAN_TAG] == plan.id


def test_a_plan_that_is_run_queued_paused_stopped_or_ended_is_not(lake: Made, instance: dg.DagsterInstance) -> None:
    plan = planned(*lake)
    activate(*lake, plan)
    (request,) = ticked(lake, instance).requests
    with only_runner(lake[0], plan):
        assert _spelled(lake, instance) == f"plan {plan.id} is being run"
    mark(lake[0], plan.id, "paused", "lunch")
    assert "is paused (lunch)" in _spelled(lake, instance) == held_back(lake[0])[plan.id]
    unmark(lake[0], plan.id, "paused")
    ran(instance, request, dg.DagsterRunStatus.STARTED)
    assert _spelled(lake, instance) == f"plan {plan.id}: its run is queued or starting"
    mark(lake[0], plan.id, "ended", "cancelled")
    assert _spelled(lake, instance) == "no plan is under way"


def _spelled(lake: Made, instance: dg.DagsterInstance) -> str:
    tick = ticked(lake, instance)
    assert tick.requests == []
    return tick.notes[0]


def test_a_plan_that_a_run_stopped_with_a_reason_waits_for_a_person(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lake = bare_staging(tmp_path)
    plan = planned(*lake)
    with pytest.raises(BackfillError, match="the server is gone"):
        run_plan(lambda: lake, plan, HandWorker(*lake, fails_at=2))
    tick = ticked(lake, instance)
    assert (tick.requests, tick.alarms) == ([], {f"plan {plan.id} stopped": held_back(lake[0])[plan.id]})
    assert "the server is gone" in tick.alarms[f"plan {plan.id} stopped"]
    activate(*lake, plan)  # what `run PLAN --daemon` does: a person looked
    assert len(ticked(lake, instance).requests) == 1


def test_a_plan_whose_process_dies_before_it_writes_is_given_up_and_told(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    plan: Plan = planned(*lake)
    activate(*lake, plan)
    for _ in range(3):
        (request,) = ticked(lake, instance).requests
        ran(instance, request, dg.DagsterRunStatus.FAILURE)
    tick = ticked(lake, instance)
    assert tick.requests == []
    assert "was begun 3 times" in tick.alarms[f"plan {plan.id}"]


def test_a_plan_at_its_stop_is_told_as_an_alarm_and_asked_for_once_it_is_resumed(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lake = bare_staging(tmp_path)
    plan = planned(*lake, stop_after="canary")
    assert run_plan(lambda: lake, plan, HandWorker(*lake)).state == "waiting"
    tick = ticked(lake, instance)
    assert (tick.requests, tick.alarms) == ([], {f"plan {plan.id} waiting": held_back(lake[0])[plan.id]})
    resume(lake[0], plan, "looked")
    assert len(ticked(lake, instance).requests) == 1
