"""`backfill-assets checklist`: what makes a lake trustworthy, an item a line.

Not here: judging the items (`checklist`).
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import (
    opened_lake,
)
from backfill_assets.cli.drawing import say
from backfill_assets.cli.output import Output, reporting_command

if TYPE_CHECKING:
    from backfill_assets.reports.checklist import Item


@click.command()
@reporting_command()
def checklist() -> Output:
    """Compute the checklist of a lake that can be trusted: six items of its loads, six of its
    newest plan.

    Each comes with its evidence and, where it does not hold, with what mends it. Exit code 0,
    whatever holds.
    """
    from backfill_assets.reports.checklist import judge_checklist as judged

    items = judged(*opened_lake())
    return Output({"items": items}, [partial(_draw_items, items)])


def _draw_items(items: "Sequence[Item]") -> None:
    """Draw the items below what they are about, e.g. `[x] one load path`, each with its evidence
    and its fix."""
    for about, together in groupby(items, key=lambda item: item.about):
        click.echo(f"{about}:")
        for item in together:
            box = "[x]" if item.holds else "[ ]"
            click.echo(f"{box} {item.name}")
            say(f"    {item.evidence}", 4)
            if item.fix:
                say(f"    -> {item.fix}", 7)
        click.echo()
    click.echo(f"{sum(item.holds for item in items)} of {len(items)} hold")
