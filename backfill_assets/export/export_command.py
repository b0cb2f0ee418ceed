"""`backfill-assets export`: changed days of a table to a folder or a database.

Not here: what is brought and how (`export`, `export_sinks`).
"""

import click

from backfill_assets.cli.common import (
    SPAN,
    json_and_lake,
    newest_option,
    opened_lake,
    say_cut_periods,
    say_why_readers_wait,
)
from backfill_assets.cli.output import write_answer
from backfill_assets.export.export import Exported, export_all
from backfill_assets.export.export import export_days as export_table
from backfill_assets.kernel.core.days import DayRange

ExportAnswer = list[Exported]


@click.command()
@click.argument("name", default="")
@click.option(
    "--to",
    metavar="PLACE",
    help="A folder, s3://BUCKET/NAME, or postgresql://HOST/DATABASE#TABLE. NAME is a table then.",
)
@click.option(
    "--days", type=SPAN, help="The first and the last day, both included: A..B. [default: all]"
)
@newest_option
@json_and_lake
def export(name: str, to: str | None, days: DayRange | None, newest: bool) -> None:
    """Replace the days that changed since the last export: of the table NAME in the place --to, or
    of the export NAME in `[exports]` of lake.toml; without NAME of all exports there. All are of
    the newest lake version.

    Days that are missing, stale, incomplete or pending stay in the place as they are. Stopped at
    any moment, the place holds whole days; the next export goes on.
    """
    if to is None and days is not None:
        raise click.UsageError("--days needs --to: an export of lake.toml brings all days")
    if to is not None and not name:
        raise click.UsageError("--to needs the name of a table")
    lake, pipeline = opened_lake()
    if not newest:
        say_why_readers_wait(lake)
    if to:
        say_cut_periods([pipeline.contract(name, "Nothing was exported")], days)
        done = [export_table(lake, pipeline, name, to, days, newest)]
    else:
        done = export_all(lake, pipeline, [name] if name else [], newest)
    none = "This lake has no exports: see [exports] in the file that `backfill-assets init` writes."
    write_answer(done, done, none)
