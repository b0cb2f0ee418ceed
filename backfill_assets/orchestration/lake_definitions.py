"""What the browser shows beside a lake's tables and the job `rebuild`: checks, jobs, sensors, schedules, Spark.

Here: their list, the resource `pyspark` (dagster-pyspark's over the lake's engine), and the tables that are shown where
there is no lake. Not here: tables and `rebuild` (`assemble`).
"""

from collections.abc import Callable, Collection
from typing import Any

import dagster as dg
from dagster_pyspark import PySparkResource
from pydantic import Field

from backfill_assets.core.clock import utc_today
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.model import pipeline_of
from backfill_assets.lake.session import LakeSession
from backfill_assets.operations.example_lakes import days_until, sample_settings
from backfill_assets.orchestration.alerts import alert_sensors
from backfill_assets.orchestration.checks import day_checks, no_stale_days
from backfill_assets.orchestration.context import LakeContext, Opened
from backfill_assets.orchestration.plan_job import backfill_job, plans_sensor
from backfill_assets.orchestration.proofs import (
    control_checks,
    controls_sensor,
    proof_checks,
    proof_job,
    proof_schedule,
)
from backfill_assets.orchestration.rollbacks import rollback_jobs
from backfill_assets.orchestration.sensors import lake_schedules, lake_sensors, scan_job
from backfill_assets.orchestration.upkeep import export_job, export_schedule, maintain_job, maintain_schedule

PYSPARK = "pyspark"  # the name that Dagster's own examples ask for


def browser_definitions(
    lake_context: LakeContext,
    opened: Opened,
    rebuild: Any,
    rebuild_of: Callable[[Collection[str]], dg.JobDefinition],
) -> dg.Definitions:
    """All definitions except the tables and the job `rebuild`; `rebuild_of(tables)` returns that job for some
    tables."""
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
            maintain_schedule(upkeep, lake_context.naming),
            export_schedule(exporting, lake_context.naming),
            *(proof_schedule(lake_context, job, proof.hour) for job in proving),
        ],
        resources={} if lake_context.appearance.is_guest else {PYSPARK: LakePySparkResource(folder=lake.address)},
    )


class LakePySparkResource(PySparkResource):
    """A `PySparkResource` with the session of the lake in `folder`: the same engine, settings and jars.

    The engine starts when `spark_session` is first read; a lost session is replaced at the next read. `spark_config`
    is not used: `[spark]` in `lake.toml` sets the engine.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    folder: str

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Start nothing."""

    @property
    def spark_session(self) -> Any:
        """A live session on the lake's engine; raises SettingsError where there is no lake, EngineLost without one."""
        return LakeSession(open_lake(self.folder)).spark()


def stand_in(lake_context: LakeContext) -> Opened:
    """The tables as the sample lake would have them if it were made today."""
    lake = Lake(lake_context.root, sample_settings(days_until(utc_today())))
    pipeline = pipeline_of(lake, lake_context.tables_of(lake.settings))
    return Opened(lake, pipeline, lake_context.missing, appearance=lake_context.appearance)
