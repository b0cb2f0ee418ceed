"""The front door for Dagster: `defs`, the tables of the lake that the environment names.

Lives here: the choice of lake and pipeline. Does not live here: how tables become definitions
(`dagster.adapter.assemble`), and what a run sets for its process (`dagster.adapter.assets`).
Loading it opens no table, starts no engine and leaves umask, environment and garbage collection
alone; without a lake its tables say what is missing.
"""

import warnings

import dagster as dg

from backfill_assets.dagster.adapter.assemble import project_definitions
from backfill_assets.kernel.core.process import lake_folder
from backfill_assets.pipeline.chosen import tables_at


def _definitions_of_environment() -> dg.Definitions:
    # Dagster copies sensors when it makes a repository of them, by a parameter that it warns of
    # itself.
    warnings.filterwarnings("ignore", r"Parameter `owners` of initializer", dg.BetaWarning)
    return project_definitions(lake_folder(), tables_at(lake_folder()))


defs = _definitions_of_environment()
