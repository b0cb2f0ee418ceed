"""`backfill-assets adopt`: a Delta table that others wrote becomes one of the lake.

Not here: what is adopted or refused (`adopting`, `adoptable`).
"""

from pathlib import Path

import click

from backfill_assets.assets.lakes import lake_for_asset
from backfill_assets.cli.common import (
    TEXT,
    json_and_lake,
    lake_root,
    pipeline_in,
)
from backfill_assets.cli.output import write_answer
from backfill_assets.foreign.adoptable import Adoption, first_day, readers_of, refuse_other_store
from backfill_assets.foreign.adopting import adopt_table as adopt_table
from backfill_assets.foreign.external import external_place
from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.calendars import parse_calendar
from backfill_assets.kernel.tables.home import read_lake, restricted_access
from backfill_assets.kernel.tables.sections import TABLE_NAME
from backfill_assets.kernel.tables.settings import AccessSettings
from backfill_assets.kernel.tables.versions import record_versions


@click.command()
@click.argument("table", type=TEXT)
@click.option(
    "--from",
    "place",
    required=True,
    metavar="PLACE",
    type=TEXT,
    help="Its folder, or its address in a bucket.",
)
@click.option(
    "--day", required=True, metavar="COLUMN", type=TEXT, help="Its column with a row's day."
)
@click.option(
    "--key", default="", metavar="COLUMNS", type=TEXT, help="Unique within a day and never NULL."
)
@click.option(
    "--every",
    default="",
    type=TEXT,
    help="What each day of that column stands for: month, week, …; day if left out.",
)
@click.option("--note", default="", type=TEXT, help="Why; it is kept in the receipt.")
@json_and_lake
def adopt(table: str, place: str, day: str, key: str, every: str, note: str) -> None:
    """Make a Delta table by days, or by months and others, that others wrote a table of the lake,
    in its place: TABLE is its name there.

    No data file is touched or copied. One commit to the table's own log gives each day a receipt;
    from then on days are rebuilt, put back, compared and watched as of any table, and readers of
    the folder see them. Where there is no lake, one is made. Killed at any moment, the same command
    goes on. Tables that cannot be kept so are refused by name.
    """
    if not TABLE_NAME.fullmatch(table):
        raise click.BadParameter(
            "use small letters, digits and _, a letter first", param_hint="TABLE"
        )
    columns = tuple(dict.fromkeys(c.strip() for c in key.split(",") if c.strip()))
    try:
        calendar = parse_calendar(every) if every else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--every") from None
    there = external_place(table, place, Path.cwd())
    wanted = Adoption(table, there, day, columns, note, calendar)
    refuse_other_store(wanted, address_of(lake_root()))
    start = first_day(wanted)
    readers = ""  # of a bucket, whose rights are no file's
    if not wanted.there.is_store:
        readers = readers_of(Path(wanted.place), AccessSettings().umask)
    lake = lake_for_asset(lake_root(), start, readers)
    with restricted_access(lake):
        adopted = adopt_table(lake, wanted, pipeline_in(lake).contracts)
        lake = read_lake(lake.root)  # which knows now where the table lies
        pipeline = pipeline_in(lake)
        record_versions(lake, pipeline.contracts, f"adopt {table}")
    asset = pipeline.table(table).contract.made_by
    maker = "the lake makes its days"
    if asset:
        maker = f"the asset {asset} makes its days, by a LakeIOManager"
    write_answer(adopted, [adopted, f"from now on {maker}"])
