"""The sensor `plans`: requests a run of `backfill_range` for each active plan that no process runs.

Elsewhere: running a plan (`operations.plan_run`), whose lock lets no second runner in. A plan that stopped with a
reason, was paused or cancelled has a mark; a plan whose runner was killed has none and is taken up.
"""

import dagster as dg

from backfill_assets.core.digests import digest_of
from backfill_assets.core.plans import PLAN_TAG
from backfill_assets.core.view import LakeView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.view import read_view
from backfill_assets.operations.plan_files import (
    WAITING,
    active_plans,
    held_back,
    is_running,
    state_of,
    why_waiting,
)
from backfill_assets.operations.plan_model import Plan
from backfill_assets.orchestration import runs
from backfill_assets.orchestration.backfill_requests import next_attempt, sensor_tags
from backfill_assets.orchestration.bootstrap import is_there, no_lake
from backfill_assets.orchestration.context import LakeContext
from backfill_assets.orchestration.plan_job import BACKFILL_RANGE, RUN_CHUNKS
from backfill_assets.orchestration.run_liveness import end_dead_runs
from backfill_assets.orchestration.sensors import INTERVAL_SECONDS, tick_result
from backfill_assets.orchestration.ticks import Tick

PLANS = "plans"


def plans_sensor(lake_context: LakeContext, job: dg.JobDefinition) -> dg.SensorDefinition:
    """`plans`, running unless turned off in the UI; `job` is `backfill_range`."""

    @dg.sensor(
        name=PLANS, job=job, minimum_interval_seconds=INTERVAL_SECONDS, default_status=dg.DefaultSensorStatus.RUNNING,
        description="Goes on with plans whose runner was killed, and runs those asked for by `run PLAN --daemon`.",
    )  # fmt: skip
    def plans(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """One tick."""
        if not is_there(lake_context.root):
            return dg.SensorResult(skip_reason=str(no_lake(lake_context.root)))
        return tick_result(context, lake_context, PLANS, plans_tick(context.instance, lake_context))

    return plans


def plans_tick(instance: dg.DagsterInstance, lake_context: LakeContext) -> Tick:
    """Request a run of each active plan without a runner, at most `[lateness] attempts` times without a write of its
    tables in between."""
    lake, pipeline = lake_context.open()
    tick, active = Tick(), active_plans(lake)
    if not active:
        return Tick(notes=["no plan is under way"])
    end_dead_runs(instance, lake)
    view = read_view(lake, pipeline.contracts)
    for plan in active:
        _look(tick, instance, lake, view, plan)
    return tick


def _look(tick: Tick, instance: dg.DagsterInstance, lake: Lake, view: LakeView, plan: Plan) -> None:
    state = state_of(lake, plan)
    if state == "stopped":
        tick.alarm(f"plan {plan.id} stopped", held_back(lake).get(plan.id, state))
    elif state in WAITING:
        tick.notes.append(f"plan {plan.id} is {state} ({why_waiting(lake, plan, state)}): it waits for a person")
    elif is_running(lake, plan):
        tick.notes.append(f"plan {plan.id} is being run")
    elif _is_queued(instance, lake, plan):
        tick.notes.append(f"plan {plan.id}: its run is queued or starting")
    elif state == "active":
        _ask(tick, instance, lake, view, plan)


def _is_queued(instance: dg.DagsterInstance, lake: Lake, plan: Plan) -> bool:
    mine = dg.RunsFilter(job_name=BACKFILL_RANGE, statuses=runs.ACTIVE, tags={PLAN_TAG: plan.id})
    return any(run.tags.get(runs.LAKE_TAG) == str(lake.root) for run in instance.get_runs(mine))


def _ask(tick: Tick, instance: dg.DagsterInstance, lake: Lake, view: LakeView, plan: Plan) -> None:
    heads = digest_of([f"{name} {view.tables[name].version}" for name in plan.tables if name in view.tables])
    base, most = f"plan {plan.id} heads {heads}", lake.settings.lateness.attempts
    tried = next_attempt(instance, PLANS, base, most)
    if tried >= most:
        tick.alarm(
            f"plan {plan.id}",
            f"the plan {plan.id} was begun {tried} times, and each time its process was killed before it wrote "
            f"anything: look at these runs, then `backfill-assets run {plan.id}`",
        )
        return
    config = {"start_date": str(plan.days.start), "end_date": str(plan.days.last), "plan": plan.id}
    tick.notes.append(f"plan {plan.id} has no runner: requested")
    tick.requests.append(
        dg.RunRequest(
            run_key=f"{base} attempt {tried}",
            job_name=BACKFILL_RANGE,
            run_config={"ops": {RUN_CHUNKS: {"config": config}}},
            tags={**sensor_tags(PLANS, lake), PLAN_TAG: plan.id, runs.REQUEST_TAG: base},
        )
    )
