"""`backfill-assets replay-late`: rows that came too late count after all.

Not here: rebuilding their days (`catch_up`) and finding these rows (`lake.too_late`).
"""

from collections.abc import Mapping
from datetime import date

import click

from backfill_assets.cli.catch_up import days_in_need, report, until_settled
from backfill_assets.cli.common import TEXT, days_options, inclusive, json_option, lake_option, lake_root
from backfill_assets.cli.drawing import draw_table, number


@click.command("replay-late")
@days_options(required=True)
@click.option("--note", type=TEXT, required=True, help="Why these rows count after all; it is kept in the receipts.")
@click.option("--dry-run", is_flag=True, help="Only say what would be released; nothing is written.")
@json_option
@lake_option
def replay_late(first: date, last: date, note: str, dry_run: bool, as_json: bool) -> None:
    """Let rows of `too_late` count whose event days lie in --from .. --to (both included), and rebuild those days only.

    Exit code 1 if a run fails or a day still needs making afterwards.
    """
    from backfill_assets.lake.home import open_lake
    from backfill_assets.lake.session import LakeSession
    from backfill_assets.load.sources import late_rows, let_late_rows_count

    if not note.strip():
        raise click.BadParameter("say why, in a few words", param_hint="--note")
    days, lake = inclusive(first, last), open_lake(lake_root())
    if dry_run:
        _draw(late_rows(lake, days), "would count")
        return
    others = days_in_need(lake)
    released = let_late_rows_count(LakeSession(lake), days, note.strip())
    if not as_json:
        _draw(released, "count now")
    report(until_settled(lake, note.strip(), "replay-late", others), as_json)


def _draw(found: Mapping[tuple[date, date], int], verb: str) -> None:
    if not found:
        click.echo("Nothing is kept in too_late for these days.")
        return
    rows = [[str(d), str(a), number(n)] for (a, d), n in sorted(found.items(), key=lambda item: item[0][::-1])]
    draw_table(["event day", "arrived", "rows"], rows)
    click.echo(f"{number(sum(found.values()))} row(s) that came too late {verb}.")
