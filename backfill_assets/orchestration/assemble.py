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
from backfill_assets.orchestration.assets import IO_MANAGER, lake_asset
from backfill_assets.orchestration.io_manager import LakeIOManager
from backfill_assets.orchestration.runs import LAKE_TAG, REBUILD
from backfill_assets.orchestration.schedules import lake_schedules
from backfill_assets.orchestration.sensors import lake_sensors, scan_job
from backfill_assets.orchestration.standing import no_stale_days
from backfill_assets.orchestration.work import Shop, TablesOf


def assemble(root: Path, tables_of: TablesOf, rebuilt: Collection[str] | None = None) -> dg.Definitions:
    """Definitions of the lake at `root`. Reads its `lake.toml` (raises SettingsError); starts no engine.

    `rebuilt` restricts the job `rebuild` to some tables with their checks per day (default: all). The standing check
    `no_stale_days` is no part of the job: a run of days would leave a skipped row of it for every day.
    """
    with warnings.catch_warnings():
        # Dagster marks what it may still change. Its version is pinned and what we use is tested; users can do nothing.
        for kind in (dg.PreviewWarning, dg.BetaWarning):
            warnings.simplefilter("ignore", kind)
        return _definitions(Shop(root, tables_of), rebuilt)


def _definitions(shop: Shop, rebuilt: Collection[str] | None) -> dg.Definitions:
    lake, pipeline = shop.open()
    close_folder(project_root() / DAGSTER_FOLDER, lake.settings.access.umask)
    # No end date: with one in the past the UI draws no plots (Dagster 1.13).
    partitions = dg.DailyPartitionsDefinition(start_date=lake.settings.start_date.isoformat(), timezone="UTC")
    assets = [lake_asset(shop, table, partitions) for table in pipeline.tables]
    checks = [no_stale_days(shop, table.contract) for table in pipeline.tables]
    names = [table.name for table in pipeline.tables if rebuilt is None or table.name in rebuilt]
    day_checks = dg.AssetSelection.checks(*(k for a in assets for k in a.check_keys if k.asset_key.path[-1] in names))
    rebuild = dg.define_asset_job(
        REBUILD,
        selection=dg.AssetSelection.assets(*names).without_checks() | day_checks,
        description="Every table over a range of days, in one run: the same load path as any other way.",
        executor_def=dg.in_process_executor,
        tags={LAKE_TAG: str(lake.root)},
    )
    scanning = scan_job(shop)
    return dg.Definitions(
        assets=assets,
        asset_checks=checks,
        jobs=[rebuild, scanning],
        sensors=[*lake_sensors(shop, [rebuild, scanning]), *alert_sensors()],
        schedules=lake_schedules(shop, rebuild),
        resources={IO_MANAGER: LakeIOManager(), "io_manager": LakeIOManager()},
        executor=dg.in_process_executor,
    )
