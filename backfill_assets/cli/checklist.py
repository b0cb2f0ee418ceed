"""`backfill-assets checklist`: what makes loads recoverable and a backfill sound, computed for this lake.

Not here: the judgement (`operations.checklist`).
"""

import textwrap
from itertools import groupby

import click

from backfill_assets.cli.common import json_and_lake, opened, print_json
from backfill_assets.operations.checklist import checklist as judged

WIDTH = 80


@click.command()
@json_and_lake
def checklist(as_json: bool) -> None:
    """Compute the checklist of a lake that can be trusted: six items of its loads, six of its newest plan.

    Each comes with its evidence and, where it does not hold, with what mends it. Exit code 0, whatever holds.
    """
    items = judged(*opened())
    if as_json:
        print_json({"items": items})
    else:
        for about, together in groupby(items, key=lambda item: item.about):
            click.echo(f"{about}:")
            for item in together:
                click.echo(f"[{'x' if item.holds else ' '}] {item.name}")
                click.echo(_filled(item.evidence))
                if item.fix:
                    click.echo(_filled(item.fix, "-> "))
            click.echo()
        click.echo(f"{sum(item.holds for item in items)} of {len(items)} hold")


def _filled(text: str, mark: str = "") -> str:
    """The text in lines of 80 columns below its item; options and names are not broken."""
    below = " " * 4
    return textwrap.fill(
        text, WIDTH, initial_indent=below + mark, subsequent_indent=below + " " * len(mark), break_on_hyphens=False
    )
