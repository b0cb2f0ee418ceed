"""The front door for Dagster: `defs`, the tables of the lake that the environment names.

Lives here: the choice of lake and pipeline, and how the processes of a code location and of its runs, which import
this first of all, look for garbage. Does not live here: how tables become definitions (`orchestration.assemble`).
Loading it opens no table and starts no engine; without a lake its tables say what is missing.
"""

import warnings

import dagster as dg

from backfill_assets.core.process import collect_seldom


def _of_environment() -> dg.Definitions:
    """Imports after the thresholds are set: each run in the browser is a process of its own, which pays them all."""
    collect_seldom()
    # Dagster copies sensors when it makes a repository of them, by a parameter that it warns of itself.
    warnings.filterwarnings("ignore", r"Parameter `owners` of initializer", dg.BetaWarning)
    from backfill_assets.core.process import lake_folder
    from backfill_assets.orchestration.assemble import assemble_anyway
    from backfill_assets.pipeline.chosen import tables_at

    return assemble_anyway(lake_folder(), tables_at(lake_folder()))


defs = _of_environment()
