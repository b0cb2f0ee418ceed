"""`backfill-assets doctor`: checks of a lake and of the machine below it.

Not here: the checks (`operations.doctor`, `operations.doctor_tables`).
"""

from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import json_option, lake_option, lake_root, print_json
from backfill_assets.cli.drawing import STYLES, say
from backfill_assets.core.texts import plain

if TYPE_CHECKING:
    from backfill_assets.operations.diagnosis import Diagnosis

HANG = 6  # characters: the level and a space
PAGES = (
    "`dagster dev` answers every user of this machine, who may then start runs and roll back, too; "
    "`backfill-assets ui` answers only who has its address"
)


@click.command()
@click.option("--deep", is_flag=True, help="Read every row: recompute the fingerprints, without Spark.")
@json_option
@lake_option
@click.pass_context
def doctor(ctx: click.Context, deep: bool, as_json: bool) -> None:
    """Look at Java, server, settings, landing, logs, files and receipts. Changes nothing. Exit code 1 if one is odd."""
    from backfill_assets.operations.diagnosis import Level, fine
    from backfill_assets.operations.doctor import doctor as examine
    from backfill_assets.pipeline.chosen import tables_at

    root = lake_root()
    found = examine(root, tables_at(root))
    if (root / "lake.toml").exists() and not any(d.level is Level.ERROR for d in found):
        found.append(fine("Dagster's pages", PAGES))
    if deep and not any(d.level is Level.ERROR for d in found):
        from backfill_assets.lake.home import open_lake
        from backfill_assets.operations.doctor_tables import examine_contents
        from backfill_assets.pipeline.chosen import chosen_pipeline

        lake = open_lake(root)
        found += examine_contents(lake, chosen_pipeline(lake))
    elif deep and not as_json:
        click.echo("The contents are not read while something is broken.", err=True)
    if as_json:
        print_json({"lake": str(root), "findings": [d.to_dict() for d in found]})
    else:
        for diagnosis in found:
            _draw(diagnosis)
    if any(d.level is not Level.OK for d in found):
        ctx.exit(1)


def _draw(diagnosis: "Diagnosis") -> None:
    level = click.style(f"{diagnosis.level.value:5s}", **STYLES[diagnosis.level.value])
    click.echo(f"{level} ", nl=False)
    say(f"{diagnosis.object}: {diagnosis.what}", HANG, first=HANG)
    if diagnosis.advice:
        click.echo(f"{' ' * HANG}{plain(diagnosis.advice)}")  # on one line: it holds commands to copy
