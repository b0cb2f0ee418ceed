"""Assemble the Dagster definitions of a lake from a pipeline, also a user's own.

Here: the partitions definition, the in-process executor, the assets and the job `rebuild`. Not
here: what stands beside them in the browser (`lake_definitions`), which a command that runs that
job does not import.
"""

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.assets import IO_MANAGER, io_manager_of, lake_asset
from backfill_assets.dagster.adapter.context import (
    ALONE,
    Appearance,
    LakeContext,
    Opened,
    ShownLake,
    TablesOf,
)
from backfill_assets.dagster.adapter.io_manager import (
    Hears,
    RebuildIOManager,
    external_specs,
    ledger_specs,
)
from backfill_assets.dagster.adapter.runs import LAKE_TAG, REBUILD, rebuild_name
from backfill_assets.kernel.core.process import project_root
from backfill_assets.kernel.tables.folder import DAGSTER_FOLDER, close_folder

# In the metadata of a lake's own definitions, by which the doctor knows what a code server loaded.
LOADED_RELEASE, LOADED_LAKE = "backfill_assets/release", "backfill_assets/lake"


def assemble(
    root: Path,
    tables_of: TablesOf,
    rebuilt: Collection[str] | None = None,
    hears: Hears | None = None,
) -> dg.Definitions:
    """Definitions of the lake at `root`. Reads its `lake.toml` (raises SettingsError); starts no
    engine.

    With `rebuilt` only the job `rebuild` of these tables (default: everything). `hears` is called
    with every table that a run in this process has published.
    """
    lake_context = LakeContext(root, tables_of)
    return _whole_definitions(lake_context, lake_context.load(), rebuilt, hears)


def rebuild_job(opened: Opened, tables: Collection[str], hears: Hears) -> dg.JobDefinition:
    """The job `rebuild` of some tables for a command; see `assemble`."""
    with _quiet_warnings():
        defs, _ = _tables_and_rebuild(opened, tables, io_manager_of(opened, hears))
        return defs.resolve_job_def(opened.naming.name(REBUILD))


def project_definitions(
    root: Path, tables_of: TablesOf, appearance: Appearance = ALONE
) -> dg.Definitions:
    """Definitions of the lake at `root`, which shows itself by `appearance`; without a lake its
    tables say so.

    Raises SettingsError where its `lake.toml` is there and bad.
    """
    lake_context = LakeContext(root, tables_of, appearance)
    if lake_context.missing is None:
        return _whole_definitions(lake_context, lake_context.load(), None)
    from backfill_assets.dagster.adapter.lake_definitions import shown_sample

    return _whole_definitions(lake_context, shown_sample(lake_context), None)


def _whole_definitions(
    lake_context: LakeContext,
    opened: Opened,
    rebuilt: Collection[str] | None,
    hears: Hears | None = None,
) -> dg.Definitions:
    """The definitions of an opened lake: with `rebuilt` only the job `rebuild` of these tables and
    what it needs; else also what the browser shows."""
    with _quiet_warnings():
        defs, rebuilding = _tables_and_rebuild(opened, rebuilt, io_manager_of(opened, hears))
        if rebuilt is not None:
            return defs
        from backfill_assets.dagster.adapter.lake_definitions import browser_definitions

        def rebuild_of(tables: Collection[str]) -> dg.JobDefinition:
            """The job `rebuild` of some tables, for the run of a chunk."""
            defs_of_chunk = _whole_definitions(lake_context, lake_context.load(), tables)
            return defs_of_chunk.resolve_job_def(lake_context.naming.name(REBUILD))

        shown = ShownLake(lake_context, opened, rebuild_of)
        return dg.Definitions.merge(defs, browser_definitions(shown, rebuilding))


@contextmanager
def _quiet_warnings() -> Iterator[None]:
    """Without warnings of what Dagster may still change. Its version is pinned and what we use is
    tested; users can do nothing."""
    with warnings.catch_warnings():
        for kind in (dg.PreviewWarning, dg.BetaWarning):
            warnings.simplefilter("ignore", kind)
        yield


def _tables_and_rebuild(
    opened: Opened, rebuilt: Collection[str] | None, store: dg.IOManagerDefinition
) -> tuple[dg.Definitions, list[Any]]:
    """The assets with the jobs that rebuild them, and these jobs: `rebuild` first.

    Checks are no part of the job: Dagster would plan a row of each for every day. The runs log
    evaluations themselves.
    """
    lake, pipeline, naming = opened.lake, opened.pipeline, opened.naming
    is_guest = opened.appearance.is_guest
    if not is_guest:
        close_folder(project_root() / DAGSTER_FOLDER, lake.settings.access.umask)
    assets = [lake_asset(opened, table) for table in pipeline.own]
    rebuild, *others = _rebuild_jobs(opened, rebuilt)
    defs = dg.Definitions(
        assets=[*assets, *ledger_specs(opened), *external_specs(opened)],
        jobs=[rebuild, *others],
        resources={
            naming.name(IO_MANAGER): store,
            **({} if is_guest else {"io_manager": RebuildIOManager()}),
        },
        executor=None if is_guest else dg.in_process_executor,
        metadata={} if is_guest else loaded_metadata(lake.address),
    )
    return defs, [rebuild, *others]


def _rebuild_jobs(opened: Opened, rebuilt: Collection[str] | None) -> list[Any]:
    """The job `rebuild` of the tables with a partition for every day, and one of each table with
    others, as Dagster has jobs of equal partitions only; with `rebuilt` the job of these tables."""
    if rebuilt is not None:
        return [_rebuild_job(opened, REBUILD, rebuilt)]
    names = {table.name: rebuild_name(table.contract) for table in opened.pipeline.own}
    daily = [name for name, job in names.items() if job == REBUILD]
    others = [_rebuild_job(opened, job, [name]) for name, job in names.items() if job != REBUILD]
    return [_rebuild_job(opened, REBUILD, daily), *others]


def _rebuild_job(opened: Opened, name: str, tables: Collection[str]) -> Any:
    """The job of that name, over these tables (its class has no public name)."""
    naming = opened.naming
    keys = [naming.key(table.name) for table in opened.pipeline.own if table.name in tables]
    return dg.define_asset_job(
        naming.name(name),
        selection=dg.AssetSelection.assets(*keys).without_checks(),
        description="Every table over a range of days, in one run: the same load path as any other "
        "way.",
        executor_def=dg.in_process_executor,
        tags={LAKE_TAG: opened.lake.address},
    )


def loaded_metadata(lake: str) -> dict[str, str]:
    """What a code server says of the definitions that it loaded: this release, and the lake's
    address."""
    return {LOADED_RELEASE: version("backfill-assets"), LOADED_LAKE: lake}
