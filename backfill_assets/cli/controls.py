"""`backfill-assets controls`: known totals held against the tables, now. No JVM.

Not here: judging (`operations.controls`).
"""

import click

from backfill_assets.cli.common import json_and_lake, opened, print_json
from backfill_assets.cli.drawing import say


@click.command()
@click.argument("names", nargs=-1)
@json_and_lake
def controls(names: tuple[str, ...], as_json: bool) -> None:
    """Judge the controls NAMES of `[controls]` in lake.toml; without names all of them.

    Exit code 1 if one is broken, or cannot be judged because its query fails or what it expects is gone.
    """
    from backfill_assets.operations.controls import judge_controls

    lake, pipeline = opened()
    found = judge_controls(lake, pipeline, names)
    if as_json:
        print_json(found)
    else:
        for outcome in found:
            say(str(outcome))
        if not found:
            say("This lake has no controls: see [controls] in the file that `backfill-assets init` writes.")
    if not all(outcome.holds for outcome in found):
        click.get_current_context().exit(1)
