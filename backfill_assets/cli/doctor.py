"""`backfill-assets doctor`: everything that can be wrong with a lake and the machine below it.

Lives here: the command and its drawing. Does not live here: the examinations (`operations.doctor`,
`cli.deep`).
"""

from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import json_option, lake_option, lake_root, print_json
from backfill_assets.cli.drawing import STYLES, say
from backfill_assets.core.texts import plain

if TYPE_CHECKING:
    from backfill_assets.operations.diagnosis import Diagnosis

HANG = 6  # characters: the level and a space


@click.command()
@click.option("--deep", is_flag=True, help="Read every row: recompute the fingerprints, without Spark.")
@json_option
@lake_option
@click.pass_context
def doctor(ctx: click.Context, deep: bool, as_json: bool) -> None:
    """Look at Java, server, settings, landing, logs, files and receipts. Changes nothing. Exit code 1 if one is odd."""
    from backfill_assets.operations.diagnosis import Level
    from backfill_assets.operations.doctor import doctor as examine
    from backfill_assets.pipeline.chosen import tables_at

    root = lake_root()
    found = examine(root, tables_at(root))
    if (root / "lake.toml").exists() and not any(d.level is Level.ERROR for d in found):
        found.append(_who_sees_pages())
    if deep and not any(d.level is Level.ERROR for d in found):
        from backfill_assets.cli.deep import examine_contents

        found += examine_contents(root)
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


def _who_sees_pages() -> "Diagnosis":
    """Who can use Dagster's pages of the lake: a property of the machine, not of its files."""
    from backfill_assets.operations.diagnosis import fine

    dev = "`dagster dev` answers every user of this machine, who may then start runs and roll back, too; "
    return fine("Dagster's pages", f"{dev}`backfill-assets ui` answers only who has its address")
