"""The assembler: a pipeline and a lake's folder become Dagster definitions.

Lives here: the one partitions definition, the in-process executor, the assets and the job `rebuild`, also for a user's
own pipeline. Does not live here: any particular table, and all other definitions (`lake_definitions`).
"""

import warnings
from collections.abc import Collection
from pathlib import Path

import dagster as dg

from backfill_assets.core.ownership import whoami
from backfill_assets.core.process import project_root
from backfill_assets.lake.folder import DAGSTER_FOLDER, close_folder
from backfill_assets.lake.home import Lake
from backfill_assets.orchestration.assets import GROUP, IO_MANAGER, lake_asset
from backfill_assets.orchestration.bootstrap import is_there, sample_job, stand_in
from backfill_assets.orchestration.context import LakeContext, Opened, TablesOf
from backfill_assets.orchestration.io_manager import Hears, LakeIOManager
from backfill_assets.orchestration.ledgers import ledger_specs
from backfill_assets.orchestration.runs import LAKE_TAG, REBUILD


def assemble(
    root: Path, tables_of: TablesOf, rebuilt: Collection[str] | None = None, hears: Hears | None = None
) -> dg.Definitions:
    """Definitions of the lake at `root`. Reads its `lake.toml` (raises SettingsError); starts no engine.

    `rebuilt` asks for the job `rebuild` of some tables with their checks per day, and for nothing beside it (default:
    of all, with everything). The standing check `no_stale_days` is no part of the job: a run of days would leave a
    skipped row of it for every day. `hears` is told of every table that a run in this process has published.
    """
    lake_context = LakeContext(root, tables_of)
    return _definitions(lake_context, Opened(*lake_context.open()), rebuilt, hears)


def rebuild_job(lake: Lake, tables_of: TablesOf, tables: Collection[str], hears: Hears) -> dg.JobDefinition:
    """The job `rebuild` of some tables of a lake that a command has opened, and looked at; as `assemble` makes it."""
    lake_context = LakeContext.of(lake, tables_of)
    opened = Opened(*lake_context.open(), by=whoami())
    return _definitions(lake_context, opened, tables, hears).resolve_job_def(REBUILD)


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
    names = [table.name for table in pipeline.tables if rebuilt is None or table.name in rebuilt]
    day_checks = dg.AssetSelection.checks(*(k for a in assets for k in a.check_keys if k.asset_key.path[-1] in names))
    rebuild = dg.define_asset_job(
        REBUILD,
        selection=dg.AssetSelection.assets(*names).without_checks() | day_checks,
        description="Every table over a range of days, in one run: the same load path as any other way.",
        executor_def=dg.in_process_executor,
        tags={LAKE_TAG: str(lake.root)},
    )
    defs = dg.Definitions(
        assets=[*assets, *ledger_specs(opened, GROUP)],
        jobs=[rebuild],
        resources={IO_MANAGER: store, "io_manager": store},
        executor=dg.in_process_executor,
    )
    if rebuilt is not None:
        return defs
    from backfill_assets.orchestration.lake_definitions import rest_of_definitions

    def rebuild_of(tables: Collection[str]) -> dg.JobDefinition:
        """The job `rebuild` of some tables, as a run of a chunk needs it."""
        return assemble(lake_context.root, lake_context.tables_of, tables).resolve_job_def(REBUILD)

    return dg.Definitions.merge(defs, rest_of_definitions(lake_context, opened, rebuild, rebuild_of))
