"""What the browser shows beside a lake's tables and the job `rebuild`: checks, jobs, sensors,
schedules, Spark.

Here: those that every lake has, the resource `pyspark` (dagster-pyspark's over the lake's engine),
the list with what rooms add, and the tables that are shown where there is no lake. Not here: tables
and `rebuild` (`assemble`), and what a room adds, which its module `in_dagster` says.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from dagster_pyspark import PySparkResource
from pydantic import Field

from backfill_assets.dagster.adapter.alerts import alert_sensors
from backfill_assets.dagster.adapter.catch_up_job import catch_up_job
from backfill_assets.dagster.adapter.checks import day_checks, no_stale_days
from backfill_assets.dagster.adapter.context import LakeContext, Opened, ShownLake
from backfill_assets.dagster.adapter.sensors import lake_schedules, lake_sensors, scan_job
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.rooms import installed_rooms, offered_function, resolve_reference
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import lake_model

PYSPARK = "pyspark"  # the name that Dagster's own examples ask for


def browser_definitions(shown: ShownLake, rebuilding: Sequence[Any]) -> dg.Definitions:
    """All definitions except the tables and the jobs `rebuilding` them: those that every lake has,
    and then what each room of this installation adds (`Room.dagster`)."""
    added = [resolve_reference(room.dagster)(shown) for room in installed_rooms() if room.dagster]
    return dg.Definitions.merge(_own_definitions(shown, rebuilding), *added)


def _own_definitions(shown: ShownLake, rebuilding: Sequence[Any]) -> dg.Definitions:
    """The checks, the scan, the sensors and schedules of a lake, around the jobs that rebuild its
    tables: `rebuild` first."""
    lake_context, opened = shown.lake_context, shown.opened
    scanning, tables = scan_job(lake_context), opened.pipeline.own
    return dg.Definitions(
        asset_checks=[
            *(day_checks(opened, table.contract) for table in tables),
            *(no_stale_days(opened, table.contract) for table in tables),
        ],
        jobs=[scanning, catch_up_job(shown)],
        sensors=[
            *lake_sensors(lake_context, [*rebuilding, scanning]),
            *alert_sensors(opened.lake.root, lake_context.appearance),
        ],
        schedules=lake_schedules(lake_context, rebuilding[0]) if shown.has_schedules else [],
        resources={}
        if lake_context.appearance.is_guest
        else {PYSPARK: LakePySparkResource(folder=opened.lake.address)},
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


def shown_sample(lake_context: LakeContext) -> Opened:
    """The tables as the sample lake would have them if it were made today; none in an installation
    without samples."""
    today = utc_today()
    samples = sample_module()
    settings = (
        lake_model()(start_date=today, assets_only=True)
        if samples is None
        else samples.sample_settings(samples.days_until(today))
    )
    lake = Lake(lake_context.root, settings)
    return Opened(
        lake, lake_context.pipeline(lake), lake_context.missing, appearance=lake_context.appearance
    )


def sample_module() -> Any:
    """The module that makes sample lakes; None in an installation without it."""
    return offered_function("sample_lakes")
