"""The front door for Dagster: `defs`, this product's tables over the lake that the environment names.

Lives here: the choice of lake and pipeline. Does not live here: how they become definitions (`orchestration.assemble`).
Loading it opens no table and starts no engine; without a lake it fails with the command that makes one.
"""

from backfill_assets.lake.home import lake_folder
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.pipeline.tables import tables

defs = assemble(lake_folder(), tables)
