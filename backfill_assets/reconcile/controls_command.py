"""`backfill-assets controls`: known totals against the tables.

Not here: judging them (`reconcile`).
"""

import click

from backfill_assets.cli.common import opened_lake
from backfill_assets.cli.output import Output, reporting_command
from backfill_assets.reconcile.reconcile import judge_controls


@click.command()
@click.argument("names", nargs=-1)
@reporting_command()
def controls(names: tuple[str, ...]) -> Output:
    """Judge the controls NAMES of `[controls]` in lake.toml; without names all of them.

    Exit code 1 if one is broken, or cannot be judged because its query fails or what it expects is
    gone.
    """
    lake, pipeline = opened_lake()
    outcomes = judge_controls(lake, pipeline, names)
    none = (
        "This lake has no controls: see [controls] in the file that `backfill-assets init` writes."
    )
    lines = [*map(str, outcomes)] or [none]
    return Output(outcomes, lines, failed=not all(o.holds for o in outcomes))
