"""`backfill-assets init` and `import-log`: a commented lake.toml for the files that lie there, with the deliveries that
they would give; and an append-only table as a lake.

Not here: the guess (`operations.first_source`), the import (`operations.import_log`), and the text of the file
(`lake.settings.lake_toml`).
"""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from backfill_assets.cli.catch_up import report, until_settled
from backfill_assets.cli.common import DAY, LAKE_KEY, TEXT, json_and_lake, lake_option, lake_root, opened, print_json
from backfill_assets.cli.compare import names_of
from backfill_assets.cli.drawing import aside, draw_table, number
from backfill_assets.cli.landing import scan_as_needed
from backfill_assets.core.clock import utc_today
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.ownership import refuse_foreign
from backfill_assets.lake.folder import refuse_file
from backfill_assets.lake.settings import lake_toml
from backfill_assets.operations.first_source import FirstSource, Preview, first_source, first_toml, landed_form

ANYWHERE = "landing/**/*"
PLAIN = "seq, arrival_ts, version_ts, event_ts, event_key, op, entity, value, flag"
ROLES = {"event_key": "key", "event_ts": "event_ts", "arrival_ts": "arrival_ts", "entity": "entity"}


@click.command()
@click.option("--start-date", type=DAY, help="The lake's first day. [default: the month of the first events]")
@click.option("--files", help="Glob of the landed files. [default: landing/**/*.EXTENSION, whichever lies there]")
@click.option("--format", "form", type=click.Choice(["parquet", "csv", "jsonl"]), help="Their format. [default: seen]")
@click.option("--key", metavar="COLUMN", help="The column that names an event. [default: guessed]")
@click.option("--event-ts", metavar="COLUMN", help="The time at which an event happened. [default: guessed]")
@click.option("--arrival-ts", metavar="COLUMN", help="The time at which a row arrived. [default: guessed, or the path]")
@click.option("--entity", metavar="COLUMN", help="What features are computed for. [default: guessed]")
@click.option("--select", help="Spark SQL that maps a file's columns; then no file is read.")
@click.option("--windows-days", type=(int, int), help="Trailing windows, without a payload. [default: 7 28]")
@click.option("--horizon-days", type=int, default=7, show_default=True, help="How far labels look ahead.")
@click.option("--maturity-days", type=int, default=7, show_default=True, help="How long labels wait for late data.")
@click.option("--memory", default="2g", show_default=True, help="Heap of the embedded engine.")
@click.option("--ask/--no-ask", default=None, help="Ask for what no option names. [default: on a terminal]")
@lake_option
def init(files: str | None, form: str | None, select: str | None, ask: bool | None, **others: Any) -> None:
    """Write a commented lake.toml that fits the files of the landing folder, and show what they would give.

    Reads one file. On a terminal it asks where files lie and which columns are which. Never overwrites a lake.toml.
    """
    root = lake_root()
    refuse_file(root)
    refuse_foreign(root)
    if (path := root / "lake.toml").exists():
        raise _exists(path)
    named = {k: list(v) if isinstance(v, tuple) else v for k, v in others.items() if v is not None}
    given = {role: str(named.pop(option)) for role, option in ROLES.items() if option in named}
    ask = (sys.stdin.isatty() if ask is None else ask) and select is None
    files = click.prompt("Files, as a glob from the lake's folder", ANYWHERE) if ask and files is None else files
    seen = landed_form(root, form, None if files == ANYWHERE else files) if select is None else None
    if seen is None:
        form = form or "parquet"
        plain = {"start_date": utc_today().replace(month=1, day=1), "files": files or f"landing/**/*.{form}"}
        _write(path, lake_toml({**plain, "format": form, "select": select or PLAIN, **named}))
        if select is None:
            where = files if files not in (None, ANYWHERE) else "landing/: .parquet, .csv, .jsonl, also .gz"
            click.echo(f"No file was found ({where}), so it holds an example. To have yours described, delete it and")
            click.echo("run `backfill-assets init --files GLOB`.")
        click.echo("Look it over (start_date, files, select), then `backfill-assets scan`.")
        return
    guess, preview = _settled(seen, given, ask)
    text = first_toml(guess, seen[0], named)
    _show(guess, preview)
    _write(path, text)
    click.echo("Look it over (start_date, select, features, label), then `backfill-assets catch-up`.")


def _settled(seen: tuple[str, str, Any], given: dict[str, str], asks: bool) -> tuple[FirstSource, Preview]:
    """The guess; on a terminal each role that no option names is put to the person, and the guess made again."""
    _, form, file = seen
    guess, preview = first_source(file, form, given)
    if not asks:
        return guess, preview
    click.echo(f"{file.name} has the columns {', '.join(c.name for c in guess.columns)}.")
    roles = {**guess.roles, "entity": guess.payload[guess.entity].name}
    words = {"event_key": "Names an event", "event_ts": "Time of the event", "arrival_ts": "Time of arrival"}
    asked = {
        role: click.prompt(word, roles.get(role, "-"))
        for role, word in {**words, "entity": "Features are of"}.items()
        if role not in given
    }
    return first_source(file, form, given | {role: name for role, name in asked.items() if name != "-"})


def _show(guess: FirstSource, preview: Preview) -> None:
    click.echo(f"{guess.file.name}: {number(preview.rows)} row(s) of {guess.form}; the first deliveries:")
    click.echo()
    draw_table(list(preview.header), [list(row) for row in preview.deliveries])
    click.echo()
    if preview.refused:
        click.echo("to quarantine would go:")
        draw_table(["rows", "because"], [[n, why] for why, n in preview.refused.items()])
    else:
        click.echo("No row of it would go to quarantine.")
    if "arrival_ts" not in guess.roles and not guess.path_names_day:
        click.echo(
            "No column and no path says when a row arrived, so it counts as arrived when it happened: no row is late."
        )
    click.echo()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _exists(path) from None
    click.echo(f"wrote {path}")


def _exists(path: Path) -> SettingsError:
    return SettingsError(
        str(path), "it exists already", "Nothing was written", "Edit it, or name another folder with --lake"
    )


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
def import_log(into: Path, load: bool, as_json: bool, **asked: Any) -> None:
    """Make a lake of an append-only table SOURCE: Parquet, CSV or Delta, or postgresql://…#TABLE or #SELECT.

    Killed, it goes on when it is run again. Exit code 1 if the loaded lake differs from the newest row of each key.
    """
    from backfill_assets.operations.import_log import ImportRequest, held_against_log
    from backfill_assets.operations.import_log import import_log as importing

    lists = {name: tuple(names_of(asked[name]) or ()) for name in ("key", "columns", "entity")}
    root = into.expanduser().resolve()
    done = importing(root, ImportRequest(**{**asked, **lists}))
    facts: dict[str, Any] = {**vars(done), "duplicates": done.duplicates, "lake": root}
    aside(
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
        left, mismatches = held_against_log(root, lake, pipeline, done.payload)
        facts |= {"duplicates_left": left, "mismatches": mismatches}
        aside(f"loaded: {left} duplicate(s) left; {mismatches} mismatch(es) with the newest row of each key in the log")
    else:
        aside(f"Next: backfill-assets catch-up --lake {shlex.quote(str(root))}, or this command again with --load")
    if as_json:
        print_json(facts)
    if facts.get("duplicates_left") or facts.get("mismatches"):
        click.get_current_context().exit(1)
