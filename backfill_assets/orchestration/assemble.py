"""The assembler: a pipeline and a lake's folder become Dagster definitions.

Lives here: the one partitions definition, the in-process executor, and the list of assets, checks, jobs, sensors and
schedules. Does not live here: any particular table. A user's own pipeline goes through the same door.
"""

import warnings
from collections.abc import Collection
from pathlib import Path

import dagster as dg

from backfill_assets.lake.home import DAGSTER_FOLDER, close_folder, project_root
from backfill_assets.orchestration.alerts import alert_sensors
from backfill_assets.orchestration.assets import GROUP, IO_MANAGER, lake_asset
from backfill_assets.orchestration.beginning import is_there, sample_job, stand_in
from backfill_assets.orchestration.context import LakeContext, Opened, TablesOf
from backfill_assets.orchestration.io_manager import Hears, LakeIOManager
from backfill_assets.orchestration.ledgers import ledger_specs
from backfill_assets.orchestration.plan_job import backfill_job
from backfill_assets.orchestration.plan_sensor import plans_sensor
from backfill_assets.orchestration.rollbacks import rollback_jobs
from backfill_assets.orchestration.runs import LAKE_TAG, REBUILD
from backfill_assets.orchestration.schedules import lake_schedules
from backfill_assets.orchestration.sensors import lake_sensors, scan_job
from backfill_assets.orchestration.spark_resource import PYSPARK, LakePySparkResource
from backfill_assets.orchestration.standing import no_stale_days


def assemble(
    root: Path, tables_of: TablesOf, rebuilt: Collection[str] | None = None, hears: Hears | None = None
) -> dg.Definitions:
    """Definitions of the lake at `root`. Reads its `lake.toml` (raises SettingsError); starts no engine.

    `rebuilt` restricts the job `rebuild` to some tables with their checks per day (default: all). The standing check
    `no_stale_days` is no part of the job: a run of days would leave a skipped row of it for every day. `hears` is told
    of every table that a run in this process has published.
    """
    lake_context = LakeContext(root, tables_of)
    return _definitions(lake_context, Opened(*lake_context.open()), rebuilt, hears)


def assemble_anyway(root: Path, tables_of: TablesOf) -> dg.Definitions:
    """Definitions of the lake at `root`, also where there is none: the tables then say so, and a job makes a sample.

    Raises SettingsError where its `lake.toml` is there and bad.
    """
    if is_there(root):
        return assemble(root, tables_of)
    lake_context = LakeContext(root, tables_of)
    return dg.Definitions.merge(
        _definitions(lake_context, stand_in(lake_context), None), dg.Definitions(jobs=[sample_job(root)])
    )


def _definitions(
    lake_context: LakeContext, opened: Opened, rebuilt: Collection[str] | None, hears: Hears | None = None
) -> dg.Definitions:
    with warnings.catch_warnings():
        # Dagster marks what it may still change. Its version is pinned and what we use is tested; users can do nothing.
        for kind in (dg.PreviewWarning, dg.BetaWarning):
            warnings.simplefilter("ignore", kind)
        return _made(lake_context, opened, rebuilt, LakeIOManager(hears))


def _made(
    lake_context: LakeContext, opened: Opened, rebuilt: Collection[str] | None, store: LakeIOManager
) -> dg.Definitions:
    lake, pipeline = opened.lake, opened.pipeline
    close_folder(project_root() / DAGSTER_FOLDER, lake.settings.access.umask)
    # No end date: with one in the past the UI draws no plots (Dagster 1.13).
    partitions = dg.DailyPartitionsDefinition(start_date=lake.settings.start_date.isoformat(), timezone="UTC")
    assets = [lake_asset(opened, table, partitions) for table in pipeline.tables]
    checks = [no_stale_days(opened, table.contract) for table in pipeline.tables]
    names = [table.name for table in pipeline.tables if rebuilt is None or table.name in rebuilt]
    day_checks = dg.AssetSelection.checks(*(k for a in assets for k in a.check_keys if k.asset_key.path[-1] in names))
    rebuild = dg.define_asset_job(
        REBUILD,
        selection=dg.AssetSelection.assets(*names).without_checks() | day_checks,
        description="Every table over a range of days, in one run: the same load path as any other way.",
        executor_def=dg.in_process_executor,
        tags={LAKE_TAG: str(lake.root)},
    )
    scanning = scan_job(lake_context)

    def rebuild_of(tables: Collection[str]) -> dg.JobDefinition:
        """The job `rebuild` of some tables, as a run of a chunk needs it."""
        return assemble(lake_context.root, lake_context.tables_of, tables).resolve_job_def(REBUILD)

    ranged = backfill_job(lake_context, lake.settings.start_date, rebuild_of)
    return dg.Definitions(
        assets=[*assets, *ledger_specs(opened, GROUP)],
        asset_checks=checks,
        jobs=[
            rebuild,
            scanning,
            ranged,
            *rollback_jobs(lake_context),
        ],
        sensors=[
            *lake_sensors(lake_context, [rebuild, scanning]),
            plans_sensor(lake_context, ranged),
            *alert_sensors(lake.root),
        ],
        schedules=lake_schedules(lake_context, rebuild),
        resources={IO_MANAGER: store, "io_manager": store, PYSPARK: LakePySparkResource(folder=str(lake.root))},
        executor=dg.in_process_executor,
    )
