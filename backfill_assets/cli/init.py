"""`backfill-assets init`: a commented lake.toml for the files that lie there, with the deliveries that they would give.

Not here: the guess (`operations.first_source`) and the text of the file (`lake.settings.lake_toml`).
"""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from backfill_assets.cli.common import DAY, lake_option, lake_root
from backfill_assets.cli.drawing import draw_table, number
from backfill_assets.core.clock import utc_today
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.ownership import refuse_foreign
from backfill_assets.lake.folder import refuse_file
from backfill_assets.lake.settings import lake_toml
from backfill_assets.landing.listing import landed_form
from backfill_assets.operations.first_source import FirstSource, Preview, first_source, first_toml

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
    named_roles = {role: str(named.pop(option)) for role, option in ROLES.items() if option in named}
    ask = (sys.stdin.isatty() if ask is None else ask) and select is None
    files = click.prompt("Files, as a glob from the lake's folder", ANYWHERE) if ask and files is None else files
    landed = landed_form(root, form, None if files == ANYWHERE else files) if select is None else None
    if landed is None:
        form = form or next((f for f in ("csv", "jsonl") if f".{f}" in (files or "")), "parquet")
        plain = {"start_date": utc_today().replace(month=1, day=1), "files": files or f"landing/**/*.{form}"}
        _write(path, lake_toml({**plain, "format": form, "select": select or PLAIN, **named}))
        if select is None:
            where = files if files not in (None, ANYWHERE) else "landing/: .parquet, .csv, .jsonl, also .gz"
            click.echo(f"No file was found ({where}), so it holds an example. To have yours described, delete it and")
            click.echo(f"run `backfill-assets init --files GLOB --lake {shlex.quote(str(root))}`.")
        click.echo("Look it over (start_date, files, select), then `backfill-assets scan`.")
        return
    guess, preview = _settled(landed, named_roles, ask)
    text = first_toml(guess, landed[0], named)
    _show(guess, preview)
    _write(path, text)
    click.echo("Look it over (start_date, select, features, label), then `backfill-assets catch-up`.")


def _settled(landed: tuple[str, str, Any], named_roles: dict[str, str], asks: bool) -> tuple[FirstSource, Preview]:
    """The guess; on a terminal each role that no option names is put to the person, and the guess made again."""
    _, form, files = landed
    guess, preview = first_source(files, form, named_roles)
    if not asks:
        return guess, preview
    click.echo(f"{files[0].name} has the columns {', '.join(c.name for c in guess.columns)}.")
    roles = {**guess.roles, "entity": guess.payload[guess.entity].name}
    words = {"event_key": "Names an event", "event_ts": "Time of the event", "arrival_ts": "Time of arrival"}
    answers = {
        role: click.prompt(word, roles.get(role, "-"))
        for role, word in {**words, "entity": "Features are of"}.items()
        if role not in named_roles
    }
    return first_source(files, form, named_roles | {role: name for role, name in answers.items() if name != "-"})


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
    if guess.form == "jsonl" and (nested := [c.name for c in guess.columns if c.is_nested]):
        example = f"get_json_object({nested[0]}, '$.NAME') AS NAME"
        click.echo(f"Nested JSON is text here ({', '.join(nested)}). Write e.g. {example} in select, NAME in payload.")
    if "arrival_ts" not in guess.roles and not guess.path_names_day:
        click.echo(
            "No column and no path says when a row arrived, so it counts as arrived when it happened: no row is late."
        )
    if not guess.is_ordered:
        click.echo(
            "Of a key's rows in several files of one day the one counts whose file has the greatest number in its name."
            if guess.numbered
            else "No column says which of a key's rows is the newest. Name one as version_ts, or give seq as lake.toml "
            "says, if several files of one day may hold the same key."
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
