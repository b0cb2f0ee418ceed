"""What stands beside the tables and the job `rebuild` in a lake's definitions: standing checks, other jobs, sensors,
schedules, and the resource that a user's own ops ask for.

Lives here: their list. Does not live here: tables and `rebuild` (`assemble`), which a command that runs that job needs
alone, and without importing this.
"""

from collections.abc import Callable, Collection
from typing import Any

import dagster as dg

from backfill_assets.orchestration.alerts import alert_sensors
from backfill_assets.orchestration.context import LakeContext, Opened
from backfill_assets.orchestration.plan_job import backfill_job
from backfill_assets.orchestration.plan_sensor import plans_sensor
from backfill_assets.orchestration.rollbacks import rollback_jobs
from backfill_assets.orchestration.schedules import lake_schedules
from backfill_assets.orchestration.sensors import lake_sensors, scan_job
from backfill_assets.orchestration.spark_resource import PYSPARK, LakePySparkResource
from backfill_assets.orchestration.standing import no_stale_days


def besides(
    lake_context: LakeContext,
    opened: Opened,
    rebuild: Any,
    rebuild_of: Callable[[Collection[str]], dg.JobDefinition],
) -> dg.Definitions:
    """The rest of the definitions beside the job `rebuild` (Any: its class has no public name); `rebuild_of` gives that
    job of some tables, as a run of a chunk needs it."""
    lake, scanning = opened.lake, scan_job(lake_context)
    ranged = backfill_job(lake_context, lake.settings.start_date, rebuild_of)
    return dg.Definitions(
        asset_checks=[no_stale_days(opened, table.contract) for table in opened.pipeline.tables],
        jobs=[scanning, ranged, *rollback_jobs(lake_context)],
        sensors=[
            *lake_sensors(lake_context, [rebuild, scanning]),
            plans_sensor(lake_context, ranged),
            *alert_sensors(lake.root),
        ],
        schedules=lake_schedules(lake_context, rebuild),
        resources={PYSPARK: LakePySparkResource(folder=str(lake.root))},
    )
