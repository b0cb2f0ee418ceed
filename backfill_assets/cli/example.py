"""`backfill-assets example`: lists the lakes to learn from, and makes one of them in a folder.

Lives here: the command. Does not live here: making the lake (`operations.example_lakes`) and what is in it
(`examples`).
"""

import click

from backfill_assets.cli.common import json_option, lake_option, lake_root, print_json
from backfill_assets.cli.drawing import draw_table


@click.command()
@click.argument("name", required=False)
@json_option
@lake_option
def example(name: str | None, as_json: bool) -> None:
    """List the lakes to learn from, or make the one called NAME in the folder of --lake, which must be empty.

    Each tells in its STEPS.md what it shows, which commands to run, and what comes out.
    """
    from backfill_assets.operations.example_lakes import STEPS, examples, make_example

    known = examples()
    if name is None:
        if as_json:
            print_json(known)
            return
        draw_table(["example", "shows"], [[n, told] for n, told in known.items()])
        click.echo("`backfill-assets example NAME --lake DIR` makes one; its STEPS.md leads through it.")
        return
    root = lake_root()
    make_example(name, root)
    if as_json:
        print_json({"example": name, "lake": str(root), "steps": str(root / STEPS)})
        return
    click.echo(f"made {root}: {known[name]}")
    click.echo(f"Read {root / STEPS}, and follow it.")
