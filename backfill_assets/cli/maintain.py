"""`backfill-assets maintain`: deletes files that no rollback needs, writes small files again as larger ones. No JVM.

Not here: what can go (`operations.maintain`).
"""

import click

from backfill_assets.cli.common import answer, json_and_lake, opened
from backfill_assets.cli.compare import names_of


@click.command()
@click.option("--tables", "named", default="", help="Tables and ledgers, comma-separated. [default: all]")
@click.option(
    "--keep-days", type=click.IntRange(1), help="Days that replaced files stay. [default: [retention] rollback_days]"
)
@click.option("--yes", is_flag=True, help="Do it; without it nothing is written.")
@json_and_lake
def maintain(named: str, keep_days: int | None, yes: bool, as_json: bool) -> None:
    """Show what can go: data files replaced so long ago that no rollback is promised, files that no version names, old
    checkpoints; and ledgers and days in many small files, or in too large
    ones. With --yes it is done.

    No row of any table changes, snapshots keep their files, and an unfinished plan keeps what it needs.
    """
    from backfill_assets.operations.maintain import maintain as do

    lake, pipeline = opened()
    tables = names_of(named) or []
    found = do(lake, pipeline, tables, keep_days, act=yes)
    lines = found.lines() or ["Nothing can go."]
    lines.append(f"Every version since {found.since:%Y-%m-%d %H:%M} UTC keeps its files.")
    if found.lines() and not yes:
        lines.append("Nothing was done. `backfill-assets maintain --yes` does it.")
    answer(found, as_json, lines)
