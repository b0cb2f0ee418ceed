"""`backfill-assets export`: days of a table in a folder or in PostgreSQL, for readers elsewhere. No JVM.

Not here: exporting (`operations.export`).
"""

import click

from backfill_assets.cli.common import SPAN, json_and_lake, opened, print_json
from backfill_assets.cli.drawing import say
from backfill_assets.core.days import DayRange


@click.command()
@click.argument("name", default="")
@click.option("--to", metavar="PLACE", help="A folder, or postgresql://HOST/DATABASE#TABLE. NAME is a table then.")
@click.option("--days", type=SPAN, help="The first and the last day, both included: A..B. [default: all]")
@json_and_lake
def export(name: str, to: str | None, days: DayRange | None, as_json: bool) -> None:
    """Replace the days that changed since the last export: of the table NAME in the place --to, or of the export NAME
    in `[exports]` of lake.toml; without NAME of all exports there.

    Days that are missing, stale, incomplete or pending stay in the place as they are. Stopped at any moment, the place
    holds whole days; the next export goes on.
    """
    from backfill_assets.operations.export import export as export_table
    from backfill_assets.operations.export import export_all

    if to is None and days is not None:
        raise click.UsageError("--days needs --to: an export of lake.toml brings all days")
    if to is not None and not name:
        raise click.UsageError("--to needs the name of a table")
    lake, pipeline = opened()
    done = [export_table(lake, pipeline, name, to, days)] if to else export_all(lake, pipeline, [name] if name else [])
    if as_json:
        print_json(done)
        return
    for one in done:
        say(str(one))
    if not done:
        say("This lake has no exports: see [exports] in the file that `backfill-assets init` writes.")
