"""The front door for Dagster: `defs`, the tables of the lake that the environment names.

Lives here: the choice of lake and pipeline. Does not live here: how they become definitions (`orchestration.assemble`).
Loading it opens no table and starts no engine; without a lake its tables say what is missing.
"""

from backfill_assets.lake.home import lake_folder
from backfill_assets.orchestration.assemble import assemble_anyway
from backfill_assets.pipeline.chosen import tables_at

defs = assemble_anyway(lake_folder(), tables_at(lake_folder()))
