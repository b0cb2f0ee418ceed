"""What Dagster shows of a write through the IO manager: figures of each day, and the verdict of each check.

Does not live here: the days that stand failed (`orchestration.verdicts`), and the same for a lake's own tables
(`orchestration.assets`).
"""

from collections.abc import Collection
from datetime import date

import dagster as dg

from backfill_assets.core.days import parse_day
from backfill_assets.dagster.rules import DECLARED
from backfill_assets.lake.replace import Published
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.metadata import data_version, day_metadata
from backfill_assets.orchestration.verdicts import log_verdicts

DATA_VERSION = "dagster/data_version"


def report_written(context: dg.OutputContext, rebuild: Rebuild, published: Published) -> None:
    """Add the figures of each written day to its materialization, which Dagster makes, and log the verdicts."""
    step = dg.AssetExecutionContext.get()
    for partition, metadata in day_metadata(rebuild, published, {}).items():
        step.add_asset_metadata(metadata, asset_key=context.asset_key, partition_key=partition)
    report_verdicts(context, rebuild, rebuild.days)


def report_good_days(context: dg.OutputContext, rebuild: Rebuild, published: Published) -> None:
    """Log a materialization of each written day, and the verdicts: the step fails for the days that were kept back, so
    that Dagster makes none."""
    entries = rebuild.ready.entries
    for partition, metadata in day_metadata(rebuild, published, {}).items():
        tags = {DATA_VERSION: data_version(entries[parse_day(partition)]), f"{DATA_VERSION}_is_user_provided": "true"}
        context.log_event(dg.AssetMaterialization(context.asset_key, partition=partition, metadata=metadata, tags=tags))
    report_verdicts(context, rebuild, rebuild.days)


def report_verdicts(context: dg.OutputContext, rebuild: Rebuild, written: Collection[date] = ()) -> None:
    """Log an evaluation of each declared check, after the `written` days, none where the run was refused: the step of
    the check does not run then. Each is stored with the run, although no step planned it."""
    log_verdicts(dg.AssetExecutionContext.get(), rebuild, written, only=DECLARED.of(context.op_def).checks)
