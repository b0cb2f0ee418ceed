"""`backfill-assets import-log`: an append-only table becomes a lake.

Not here: the import itself (`operations.import_log`).
"""

import shlex
from pathlib import Path
from typing import Any

import click

from backfill_assets.cli.catch_up import report, until_settled
from backfill_assets.cli.common import LAKE_KEY, TEXT, json_and_lake, opened, print_json
from backfill_assets.cli.compare import names_of
from backfill_assets.cli.drawing import number, remark
from backfill_assets.cli.landing import scan_as_needed


@click.command("import-log")
@click.argument("source", type=TEXT)
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), required=True, help="The new lake's folder.")
@click.option("--key", required=True, help="Columns that identify a row, comma-separated.")
@click.option("--event-ts", required=True, help="The column with the time of the event.")
@click.option("--arrival-ts", default="", help="The column with the time of arrival. [default: --event-ts]")
@click.option("--columns", help="Columns to keep, comma-separated. [default: all others]")
@click.option("--entity", help="Columns that name an entity, comma-separated. [default: the first that can]")
@click.option("--load", is_flag=True, help="Load the lake, too, and hold it against the log.")
@json_and_lake
def import_log(into: Path, load: bool, as_json: bool, **options: Any) -> None:
    """Make a lake of an append-only table SOURCE: Parquet, CSV or Delta, duckdb:SELECT … over files, or
    postgresql://…#TABLE or #SELECT.

    Killed, it goes on when it is run again. Exit code 1 if the loaded lake differs from the newest row of each key.
    """
    from backfill_assets.operations.import_log import ImportRequest, held_against_log
    from backfill_assets.operations.import_log import import_log as importing

    lists = {name: tuple(names_of(options[name]) or ()) for name in ("key", "columns", "entity")}
    root = into.expanduser().resolve()
    done = importing(root, ImportRequest(**{**options, **lists}))
    facts: dict[str, Any] = {**vars(done), "duplicates": done.duplicates, "lake": root}
    remark(
        f"{number(done.rows)} rows of {number(done.keys)} keys: {number(done.duplicates)} duplicate(s), "
        f"{number(done.unusable)} row(s) without key or time; {len(done.days)} file(s), {done.written} written now"
    )
    if load:
        click.get_current_context().meta[LAKE_KEY] = str(root)
        lake, pipeline = opened()
        scan_as_needed(lake)
        loaded = until_settled(lake, "import-log", "catch-up")
        if not (as_json and loaded.success):
            report(loaded, as_json)
        twice, mismatches = held_against_log(root, lake, pipeline, done.payload)
        facts |= {"duplicates_left": twice, "mismatches": mismatches}
        wrong = f"{twice} duplicate(s) left; {mismatches} mismatch(es)"
        remark(f"loaded: {wrong} with the newest row of each key in the log")
    else:
        remark(f"Next: backfill-assets catch-up --lake {shlex.quote(str(root))}, or this command again with --load")
    if as_json:
        print_json(facts)
    if facts.get("duplicates_left") or facts.get("mismatches"):
        click.get_current_context().exit(1)
