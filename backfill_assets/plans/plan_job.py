"""The job `backfill_range`, which makes and runs a plan from the browser, and the sensor `plans`,
which requests it for each active plan that no process runs.

Elsewhere: making a plan (`plans.plan`), the order of chunks and the gates (`plans.run`),
whose lock lets no second runner in. A plan that stopped with a reason, was paused or cancelled has
a mark; a plan whose runner was killed has none and is taken up.
"""

import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from backfill_assets.dagster.adding import (
    PLANS,
    LakeContext,
    Naming,
    Tick,
    as_failures,
    attempts_at,
    cause_of,
    end_dead_runs,
    is_active,
    lake_sensor,
    markers_of,
    one_op_job,
    run_ahead,
    run_rebuild,
    whole_request,
)
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import ONE_DAY, inclusive_range, parse_day, parse_span
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.interrupts import ends_when_interrupted
from backfill_assets.kernel.core.plans import PLAN_TAG, Work
from backfill_assets.kernel.core.view import LakeView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.code import using_code
from backfill_assets.plans.files import (
    active_plans,
    find_plan,
    is_running,
    keep_plan,
    plan_state,
    readable_plans,
)
from backfill_assets.plans.model import Plan
from backfill_assets.plans.pace import Pace
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy, PolicyOptions
from backfill_assets.plans.progress import Progress
from backfill_assets.plans.run import run_plan
from backfill_assets.plans.settings import plan_settings, priority_tags
from backfill_assets.plans.work import PARENT, ROOT, ChunkMaker
from backfill_assets.reading.claims import holding_plans

BACKFILL_RANGE, RUN_CHUNKS = "backfill_range", "run_chunks"
# Of runs that have a process, and a place among those at once.
AT_WORK = (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)
# The sensor `plans` goes on with a plan whose runner was killed.
NO_RETRY = {"dagster/max_retries": "0"}
JobOf = Callable[[Collection[str]], dg.JobDefinition]
Log = Callable[[str], None]


class BackfillConfig(dg.Config, PolicyOptions):
    """The fields of the launchpad, with the descriptions that it shows."""

    start_date: str = Field(description="The first day, YYYY-MM-DD.")
    end_date: str = Field(description="The last day, included.")
    canary_days: str = Field(
        default="", description="Which: YYYY-MM-DD, or A..B. Empty: the first ones."
    )
    tables: str = Field(default="", description="Their names, comma-separated. Empty: all.")
    note: str = Field(default="", description="Why, in your words: it goes into the receipts.")
    plan: str = Field(
        default="", description="Go on with this plan; all other fields are then its own."
    )


def chunk_maker(
    instance: dg.DagsterInstance,
    lake_context: LakeContext,
    rebuild_of: JobOf,
    run: dg.DagsterRun,
    log: Log,
) -> ChunkMaker:
    """Maker of chunks by runs of the job `rebuild`, which `rebuild_of(tables)` gives, as children
    of `run`."""
    parent, root = run.run_id, run.root_run_id or run.run_id

    def make_one(work: Work) -> str:
        """Run the job; gives the cause of a failure."""
        asked = replace(work, tags={**work.tags, PARENT: parent, ROOT: root})
        result = run_rebuild(rebuild_of(work.tables), instance, str(uuid.uuid4()), asked)
        if result.success:
            return ""
        return next((cause_of(e) for e in result.all_events if e.is_step_failure), "the run failed")

    return ChunkMaker(
        root=lake_context.root,
        open_lake=lake_context.open,
        make_one=make_one,
        report=log,
        options=("--parent", parent, root),
        environ=lake_context.naming.environ,
    )


def find_run_ahead(instance: dg.DagsterInstance, lake: Lake) -> str:
    """A run of the lake that plans let go first, in words; "" without one, and where the lake's
    plans yield to none: their priority is not below 0, which is that of other runs. Runs whose
    process is gone are ended first."""
    priority = plan_settings(lake.settings).priority
    if priority >= 0:
        return ""
    end_dead_runs(instance, lake)
    return run_ahead(instance, lake.address, priority)


def backfill_job(
    lake_context: LakeContext, settings: LakeSettings, rebuild_of: JobOf
) -> dg.JobDefinition:
    """The job. `settings` are the lake's; `rebuild_of(tables)` gives the job `rebuild` of these
    tables."""

    @dg.op(
        name=lake_context.naming.name(RUN_CHUNKS),
        description="Plan the range, then run its chunks one after another, a gate after each.",
    )
    def run_chunks(context: dg.OpExecutionContext, config: BackfillConfig) -> None:
        """One plan, or what is left of one."""
        with as_failures(), ends_when_interrupted():
            lake, pipeline = lake_context.open()
            markers_of(context.instance, lake).mark(context.run_id)
            if config.plan:
                plan = find_plan(lake, config.plan)
            else:
                plan = _planned_range(lake, pipeline, config)
                if plan.nothing_to_do:
                    context.log.info(plan.nothing_to_do)
                    context.add_output_metadata({"plan": plan.nothing_to_do})
                    return
            context.instance.add_run_tags(context.run_id, {PLAN_TAG: plan.id})
            context.log.info(f"plan {plan.id}: {plan.days} in {len(plan.chunks)} chunks")
            worker = chunk_maker(
                context.instance, lake_context, rebuild_of, context.run, context.log.info
            )
            with using_code(plan.code):
                pace = Pace(find_ahead=partial(find_run_ahead, context.instance, lake))
                current = run_plan(lake_context.open, plan, worker, pace=pace)
            metadata = _outcome_metadata(current)
            context.log.info(f"plan {plan.id} is {metadata['state']}")
            context.add_output_metadata(metadata)

    start = settings.start_date
    yesterday = max(start, utc_today() - ONE_DAY)
    first = BackfillConfig(start_date=str(start), end_date=str(min(start + 6 * ONE_DAY, yesterday)))
    what = (
        "A range of days in chunks: planned, canary first, a gate after each chunk. Each chunk is "
        "a run."
    )
    tags = {**NO_RETRY, **priority_tags(settings)}
    return one_op_job(lake_context, BACKFILL_RANGE, run_chunks, first, what, tags)


def _outcome_metadata(current: Progress) -> dict[str, Any]:
    """What the page of the run shows of a plan that it ran."""
    plan = current.plan
    why = f": {current.why}" if current.why else ""
    return {
        "plan": plan.id,
        "state": f"{current.state}{why}",
        "chunks": dg.MetadataValue.md(_chunks_table(current)),
        "its runs": dg.MetadataValue.url(f"../runs?q[]=tag:{PLAN_TAG}={plan.id}"),
        "next": f"`backfill-assets plan show {plan.id}` says what is to do; `backfill-assets "
        f"rollback --plan {plan.id}` shows what putting all of it back would do",
    }


def _planned_range(lake: Lake, pipeline: Pipeline, config: BackfillConfig) -> Plan:
    """Make the plan of the settings, and keep it if there is anything to do; raises BackfillError
    if it is not allowed. A run launched again with the same settings goes on with the plan that it
    left."""
    days = inclusive_range(parse_day(config.start_date), parse_day(config.end_date))
    first, newest = lake.settings.start_date, utc_today() - ONE_DAY
    if days.start < first or days.last > newest:
        raise _config_error(
            f"not all of the days {days} are partitions", f"Stay within {first} and {newest}"
        )
    tables, policy = _chosen_tables(pipeline, config), _config_policy(config)
    for plan in readable_plans(lake):
        is_same = (plan.days, {*plan.tables}, plan.policy) == (days, {*tables}, policy)
        if is_same and plan_state(lake, plan) in ("active", "stopped", "waiting"):
            return plan
    plan = make_plan(lake, pipeline, PlanRequest(days, tables, policy, note=config.note))
    if not plan.nothing_to_do:
        keep_plan(lake, plan)
    return plan


def _chosen_tables(pipeline: Pipeline, config: BackfillConfig) -> tuple[str, ...]:
    """The tables that the settings name, upstream first; all where they name none."""
    known = [table.name for table in pipeline.own]
    names = {name.strip() for name in config.tables.split(",")} - {""} or {*known}
    if unknown := sorted(names - {*known}):
        raise _config_error(f"no table {', '.join(unknown)}", "Correct `tables`")
    return tuple(name for name in known if name in names)


def _config_policy(config: BackfillConfig) -> Policy:
    """The policy that the settings say."""
    try:
        policy = Policy(**config.model_dump(include={*PolicyOptions.model_fields}))
        if not config.canary_days:
            return policy
        chosen = parse_span(config.canary_days)
    except ValueError as error:
        raise _config_error(str(error), "Correct these numbers") from None
    return policy.model_copy(update={"canary": len(chosen), "canary_days": chosen})


def _config_error(culprit: str, fix: str) -> BackfillError:
    return BackfillError("the config", culprit, "Nothing was planned", fix)


def _chunks_table(current: Progress) -> str:
    """The chunks as a table in Markdown, with rows and seconds of those that wrote something."""
    lines = ["| chunk | days | kind | state | rows | seconds |", "|---|---|---|---|---|---|"]
    for progress in current.chunks:
        chunk, took = progress.chunk, progress.took
        real = f"{took.rows} | {took.seconds:.1f}" if took else "- | -"
        lines.append(
            f"| {chunk.number} | {chunk.days} | {chunk.kind.value} | {progress.state.value} | "
            f"{real} |"
        )
    return "\n".join(lines)


def plans_sensor(lake_context: LakeContext, job: dg.JobDefinition) -> dg.SensorDefinition:
    """`plans`, running unless turned off in the UI; `job` is `backfill_range`."""
    return lake_sensor(
        lake_context,
        PLANS,
        [job],
        lambda instance: plans_tick(instance, lake_context),
        "Goes on with plans whose runner was killed, and runs those asked for by `run PLAN "
        "--daemon`.",
    )


def plans_tick(instance: dg.DagsterInstance, lake_context: LakeContext) -> Tick:
    """Request a run of each active plan without a runner, at most `[lateness] attempts` times
    without a write of its tables in between. Dead runs are ended without a plan, too: a lake whose
    other sensors are off would keep them, and their places."""
    (lake, pipeline), naming = lake_context.look(), lake_context.naming
    tick, active, waiting = Tick(), active_plans(lake), {h.plan.id: h for h in holding_plans(lake)}
    at_work = dg.RunsFilter(statuses=[*AT_WORK])
    dead = end_dead_runs(instance, lake) if active or instance.get_runs_count(at_work) else []
    if not active:
        return Tick(notes=[*dead, "no plan is under way"])
    view = read_view(lake, pipeline.contracts)
    pace = Pace(find_ahead=partial(find_run_ahead, instance, lake))
    for plan in active:
        held = waiting.get(plan.id)
        if held is not None and held.state != "paused":
            tick.alarm(f"plan {plan.id} {held.state}", held.line)
        elif held is not None:
            tick.notes.append(held.line)
        elif is_running(lake, plan):
            tick.notes.append(f"plan {plan.id} is being run")
        elif is_active(instance, naming.name(BACKFILL_RANGE), lake.address, {PLAN_TAG: plan.id}):
            tick.notes.append(f"plan {plan.id}: its run is queued or starting")
        elif (wait := pace.wait_for(lake, plan)) is not None:
            tick.notes.append(f"plan {plan.id} {wait.message}")
        else:
            _request_runner(tick, instance, lake, view, plan, naming)
    return tick


def _request_runner(
    tick: Tick, instance: dg.DagsterInstance, lake: Lake, view: LakeView, plan: Plan, naming: Naming
) -> None:
    """Add a request of a run for the plan to `tick`; an alarm instead, once as many runs as the
    lake allows ended without a write of the plan's tables."""
    # The key changes with each write of these tables, so that attempts are counted since the last.
    heads = [f"{name} {view.tables[name].version}" for name in plan.tables if name in view.tables]
    base, limit = f"plan {plan.id} heads {digest_of(heads)}", lake.settings.lateness.attempts
    tried = attempts_at(instance, base)
    if tried.counted >= limit:
        tick.alarm(
            f"plan {plan.id}",
            f"the plan {plan.id} was begun {tried.counted} times, and each time its process was "
            "killed before it wrote "
            f"anything: look at these runs, then `backfill-assets run {plan.id}`",
        )
        return
    # `plan` decides; both days are required fields of the job.
    config = {"start_date": str(plan.days.start), "end_date": str(plan.days.last), "plan": plan.id}
    tick.notes.append(f"plan {plan.id} has no runner: requested")
    run_config = {"ops": {naming.name(RUN_CHUNKS): {"config": config}}}
    tick.requests.append(
        whole_request(
            lake,
            sensor=PLANS,
            job=naming.name(BACKFILL_RANGE),
            base=base,
            tried=tried.number,
            tags={PLAN_TAG: plan.id},
            run_config=run_config,
        )
    )
