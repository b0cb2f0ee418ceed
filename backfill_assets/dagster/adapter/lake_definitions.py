"""What the browser shows beside a lake's tables and the job `rebuild`: checks, jobs, sensors,
schedules, Spark.

Here: their list, the resource `pyspark` (dagster-pyspark's over the lake's engine), the tables that
are shown where there is no lake, and checks judged by the clock: proofs (job, schedule, check
`proven`) and controls (sensor, checks). Not here: tables and `rebuild` (`assemble`), which days are
proven (`compare.prove`; none while `[proof] days_per_day` is 0), judging controls
(`reconcile.reconcile`).
"""

from collections.abc import Callable, Collection
from datetime import date
from typing import Any

import dagster as dg
from dagster_pyspark import PySparkResource
from pydantic import Field

from backfill_assets.compare.proofs import Proof, proof_alarms, unproven
from backfill_assets.compare.prove import Prover, prove, prove_days, waits
from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.alerts import alert_sensors, report_alarms
from backfill_assets.dagster.adapter.checks import day_checks, no_stale_days, standing_check
from backfill_assets.dagster.adapter.context import LakeContext, Opened
from backfill_assets.dagster.adapter.io_manager import as_failures
from backfill_assets.dagster.adapter.rollbacks import (
    UNNEEDED,
    MaintainConfig,
    export_job,
    maintain_job,
    one_op_job,
    rollback_jobs,
    show_lines,
)
from backfill_assets.dagster.adapter.sensors import (
    lake_schedule,
    lake_schedules,
    lake_sensor,
    lake_sensors,
    scan_job,
)
from backfill_assets.dagster.adapter.ticks import Tick
from backfill_assets.engines.lake_session import LakeSession, explaining_losses
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.sections import ControlSettings
from backfill_assets.kernel.write.model import Pipeline, pipeline_of
from backfill_assets.learn.example_lakes import days_until, sample_settings
from backfill_assets.plans.plan_job import backfill_job, plans_sensor
from backfill_assets.reading.queries import named_tables
from backfill_assets.reconcile.reconcile import judge_controls

PYSPARK = "pyspark"  # the name that Dagster's own examples ask for


def browser_definitions(
    lake_context: LakeContext,
    opened: Opened,
    rebuild: Any,
    rebuild_of: Callable[[Collection[str]], dg.JobDefinition],
) -> dg.Definitions:
    """All definitions except the tables and the job `rebuild`; `rebuild_of(tables)` returns that
    job for some tables."""
    lake, scanning, upkeep = opened.lake, scan_job(lake_context), maintain_job(lake_context)
    exporting = export_job(lake_context)
    ranged = backfill_job(lake_context, lake.settings.start_date, rebuild_of)
    proof = lake.settings.proof
    proving = [proof_job(lake_context)] if proof.days_per_day else []
    return dg.Definitions(
        asset_checks=[
            *(day_checks(opened, table.contract) for table in opened.pipeline.own),
            *(no_stale_days(opened, table.contract) for table in opened.pipeline.own),
            *control_checks(opened),
            *proof_checks(opened),
        ],
        jobs=[scanning, ranged, upkeep, exporting, *proving, *rollback_jobs(lake_context)],
        sensors=[
            *lake_sensors(lake_context, [rebuild, scanning]),
            plans_sensor(lake_context, ranged),
            controls_sensor(lake_context),
            *alert_sensors(lake.root, lake_context.appearance),
        ],
        schedules=[]
        if lake.shared is not None  # the lake beside a candidate loads, proves and exports
        else [
            *lake_schedules(lake_context, rebuild),
            *upkeep_schedules(lake_context, upkeep, exporting),
            *(proof_schedule(lake_context, job, proof.hour) for job in proving),
        ],
        resources={}
        if lake_context.appearance.is_guest
        else {PYSPARK: LakePySparkResource(folder=lake.address)},
    )


class LakePySparkResource(PySparkResource):
    """A `PySparkResource` with the session of the lake in `folder`: the same engine, settings and
    jars.

    The engine starts when `spark_session` is first read; a lost session is replaced at the next
    read. `spark_config` is not used: `[spark]` in `lake.toml` sets the engine.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    folder: str

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Start nothing."""

    @property
    def spark_session(self) -> Any:
        """A live session on the lake's engine; raises SettingsError where there is no lake,
        EngineLost without one."""
        return LakeSession(open_lake(self.folder)).spark()


def stand_in(lake_context: LakeContext) -> Opened:
    """The tables as the sample lake would have them if it were made today."""
    lake = Lake(lake_context.root, sample_settings(days_until(utc_today())))
    pipeline = pipeline_of(lake, lake_context.tables_of(lake.settings))
    return Opened(lake, pipeline, lake_context.missing, appearance=lake_context.appearance)


def upkeep_schedules(
    lake_context: LakeContext, upkeep: Any, exporting: Any
) -> list[dg.ScheduleDefinition]:
    """`maintain` on Sundays at 04:00 UTC and `export` each hour, both off until somebody turns them
    on."""
    act = dg.RunRequest(
        run_config=dg.RunConfig(ops={lake_context.naming.name(UNNEEDED): MaintainConfig(act=True)})
    )
    weekly = (
        "Off unless you turn it on: deletes weekly what no rollback needs any more (job "
        "`maintain`)."
    )
    hourly = (
        "Off unless you turn it on: brings changed days to the places of [exports] (the job "
        "`export`)."
    )
    export = dg.RunRequest()
    return [
        lake_schedule(
            lake_context, "weekly_upkeep", upkeep, "0 4 * * 0", weekly, lambda _: act, is_on=False
        ),
        lake_schedule(
            lake_context,
            "hourly_export",
            exporting,
            "30 * * * *",
            hourly,
            lambda _: export,
            is_on=False,
        ),
    ]


STANDING_PROOF, PROVEN = "standing_proof", "proven"
WORDS = (
    "Written days that the standing proof computed again from the same inputs have the same rows."
)


def proof_checks(opened: Opened) -> list[dg.AssetChecksDefinition]:
    """The check `proven` of each table; its button repeats what the proofs found."""
    wanted = opened.lake.settings.proof.days_per_day
    return [_proof_check(opened, table.name) for table in opened.pipeline.own] if wanted else []


def _proof_check(opened: Opened, table: str) -> dg.AssetChecksDefinition:
    def judge(_: dg.DagsterInstance) -> dg.AssetCheckResult:
        """Judge by the proofs that are kept."""
        failed = unproven(opened.lake, opened.pipeline).get(table, [])
        return dg.AssetCheckResult(passed=not failed, metadata=_facts(failed))

    return standing_check(opened, table, PROVEN, WORDS, judge)


def _facts(failed: list[Proof]) -> dict[str, Any]:
    return {"verdict": "; ".join(map(str, failed)) or "every proven day has the same rows"}


def proof_job(lake_context: LakeContext, prover: Prover = prove) -> dg.JobDefinition:
    """The job `standing_proof`: proves today's days, reports the checks, and raises an alarm per
    day that fails."""

    @dg.op(
        name=lake_context.naming.name("prove_days"),
        description="Compute a few written days again and compare. Commits nothing.",
    )
    def prove_drawn_days(context: dg.OpExecutionContext) -> None:
        """One proof."""
        with as_failures(), explaining_losses():
            lake, pipeline = lake_context.open()
            runs.markers_of(context.instance, lake).mark(context.run_id)
            outcomes = prove_days(lake, pipeline, utc_today(), prover)
            failed = unproven(lake, pipeline)
        for table in pipeline.own:
            context.instance.report_runless_asset_event(
                dg.AssetCheckEvaluation(
                    asset_key=lake_context.naming.key(table.name),
                    check_name=PROVEN,
                    passed=table.name not in failed,
                    metadata=_facts(failed.get(table.name, [])),
                )
            )
        report_alarms(
            lake.root, context.instance, STANDING_PROOF, proof_alarms(lake, pipeline), context.log
        )
        show_lines(context, map(str, outcomes))

    what = "Compute a few written days again, from the inputs their receipts pin, and compare."
    return one_op_job(lake_context, STANDING_PROOF, prove_drawn_days, None, what)


def proof_schedule(
    lake_context: LakeContext, job: dg.JobDefinition, hour: int
) -> dg.ScheduleDefinition:
    """Request the proof once a day at `hour` (UTC), if it is due (`compare.prove.waits`)."""

    def requested(today: date) -> dg.SkipReason | dg.RunRequest:
        """Request the proof."""
        why = waits(*lake_context.look())
        return dg.SkipReason(why) if why else dg.RunRequest(run_key=f"proof {today}")

    what = "The job `standing_proof`, where it is due."
    return lake_schedule(lake_context, "daily_proof", job, f"0 {hour} * * *", what, requested)


CONTROLS = "controls"
INTERVAL_SECONDS = 3600


def control_checks(opened: Opened) -> list[dg.AssetChecksDefinition]:
    """The check `control_NAME` of each control, on the first table that its query names; judged by
    its button, too."""
    settings = opened.lake.settings.controls
    return [
        _control_check(opened, name, contract)
        for name, contract in control_tables(opened.pipeline, settings).items()
    ]


def control_tables(pipeline: Pipeline, settings: dict[str, ControlSettings]) -> dict[str, Contract]:
    """The table of each control: the first of the pipeline that its query names; controls of
    ledgers are left out."""
    named = {name: named_tables(control.query) or frozenset() for name, control in settings.items()}
    first = {
        name: next((c for c in pipeline.contracts if c.name in tables), None)
        for name, tables in named.items()
    }
    return {name: contract for name, contract in first.items() if contract is not None}


def _control_check(opened: Opened, name: str, contract: Contract) -> dg.AssetChecksDefinition:
    words = (
        f"The known total `{name}` of [controls] in lake.toml: "
        f"{opened.lake.settings.controls[name].query}"
    )

    def judge(_: dg.DagsterInstance) -> dg.AssetCheckResult:
        """Judge the control now."""
        [outcome] = judge_controls(opened.lake, opened.pipeline, [name])
        return dg.AssetCheckResult(passed=outcome.holds, metadata={"outcome": str(outcome)})

    return standing_check(opened, contract.name, f"control_{name}", words, judge)


def controls_sensor(lake_context: LakeContext) -> dg.SensorDefinition:
    """The sensor `controls`: once an hour all controls are judged; a broken one is an alarm and a
    red check."""
    return lake_sensor(
        lake_context,
        CONTROLS,
        (),
        lambda _: controls_tick(lake_context),
        "Judges the known totals of [controls] in lake.toml.",
        INTERVAL_SECONDS,
    )


def controls_tick(lake_context: LakeContext) -> Tick:
    """Judge all controls: an alarm per broken one, an evaluation of each control's check."""
    lake, pipeline = lake_context.look()
    tick = Tick(is_kept=True)
    tables = control_tables(pipeline, lake.settings.controls)
    for outcome in judge_controls(lake, pipeline):
        if not outcome.holds:
            tick.alarm(f"control {outcome.name}", str(outcome))
        if (contract := tables.get(outcome.name)) is not None:
            evaluation = dg.AssetCheckEvaluation(
                asset_key=lake_context.naming.key(contract.name),
                check_name=f"control_{outcome.name}",
                passed=outcome.holds,
                metadata={"outcome": str(outcome)},
            )
            tick.verdicts.append(evaluation)
    return tick
