"""`backfill-assets init`: a commented lake.toml for the files that lie there, with the deliveries
that they would give.

Not here: the guess (`learn.first_source`) and the text of the file
(`learn.new_lake.lake_toml`).
"""

import shlex
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import click

from backfill_assets.cli.common import DAY, lake_option, lake_root
from backfill_assets.cli.drawing import draw_table, number_text, say
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.ownership import refuse_foreign_lake
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import AlreadyThere, Place
from backfill_assets.kernel.tables.folder import refuse_file
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.learn.first_columns import quoted_for_spark
from backfill_assets.learn.first_lake import (
    LandedFiles,
    Preview,
    guessed_sources,
    guessed_toml,
    landed_form,
    trial_load,
)
from backfill_assets.learn.first_source import FirstSource
from backfill_assets.learn.new_lake import lake_toml

PLAIN = "seq, arrival_ts, version_ts, event_ts, event_key, op, entity, value, flag"
ROLES = {"event_key": "key", "event_ts": "event_ts", "arrival_ts": "arrival_ts", "entity": "entity"}


@click.command()
@click.option(
    "--start-date", type=DAY, help="The lake's first day. [default: of the files' events]"
)
@click.option(
    "--files",
    help="Glob of the landed files. [default: landing/**/*.EXTENSION, whichever lies there]",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=GLOB",
    help="A source of several; once for each.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv", "jsonl"]),
    help="Their format. [default: seen]",
)
@click.option("--key", metavar="COLUMN", help="The column that names an event. [default: guessed]")
@click.option(
    "--event-ts", metavar="COLUMN", help="The time at which an event happened. [default: guessed]"
)
@click.option(
    "--arrival-ts",
    metavar="COLUMN",
    help="The time at which a row arrived. [default: guessed, or the path]",
)
@click.option(
    "--entity", metavar="COLUMN", help="What features are computed for. [default: guessed]"
)
@click.option("--select", help="Spark SQL that maps a file's columns; then no file is read.")
@lake_option
def init(
    start_date: date | None,
    sources: tuple[str, ...],
    files: str | None,
    form: str | None,
    select: str | None,
    **columns: str | None,
) -> None:
    """Write a commented lake.toml that fits the files of the landing folder, and show what they
    would give.

    Reads up to 20 files of each source, and loads them on trial by what it proposes, on the lake's
    engine. Never overwrites a lake.toml.
    """
    root = lake_root()
    refuse_file(root)
    refuse_foreign_lake(root)
    place = place_at(root)
    if place.exists(FILE_NAME):
        raise _existing_file_error(place)
    named = {} if start_date is None else {"start_date": start_date}
    roles = {role: name for role, option in ROLES.items() if (name := columns[option]) is not None}
    if sources and (files or select):
        raise click.UsageError(
            "--source names globs of its own: leave --files and --select out. Nothing was written."
        )
    globs = _named_globs(sources) or {"": files}
    landed = {} if select is not None else _landed_sources(root, form, globs)
    if not landed:
        _write_example(place, files, form, select, named)
        return
    guesses = guessed_sources(landed, roles)
    text = guessed_toml(guesses, landed, named)
    say("Trying it on these files; an engine that is not up yet takes some seconds to start.")
    for name, preview in trial_load(root, text, guesses).items():
        _show_preview(name, guesses[name], preview)
    _write_settings(place, text)
    click.echo(
        "Look it over (start_date, select, features, label), then `backfill-assets catch-up`."
    )


def _named_globs(sources: tuple[str, ...]) -> dict[str, str | None]:
    pairs = [source.partition("=") for source in sources]
    if wrong := [
        source
        for source, (name, _, glob) in zip(sources, pairs, strict=True)
        if not name or not glob
    ]:
        raise click.UsageError(
            f"--source {printable_text(wrong[0])} names no glob. Nothing was done. Say NAME=GLOB, "
            "as "
            "orders='orders/**/*.csv'."
        )
    return {name: glob for name, _, glob in pairs}


def _landed_sources(
    root: Path, form: str | None, globs: dict[str, str | None]
) -> dict[str, LandedFiles]:
    """The files of each source; none where the only one has none yet. Raises SettingsError where
    one of several has."""
    found = {name: landed_form(root, form, glob) for name, glob in globs.items()}
    if "" not in found and (empty := [name for name, seen in found.items() if seen is None]):
        fix = (
            f"Correct its glob {globs[empty[0]]}, which begins at the lake's folder, or name the "
            "others first"
        )
        raise SettingsError(
            f"--source {empty[0]}", "no file lies there", "No lake.toml was written", fix
        )
    return {name: seen for name, seen in found.items() if seen is not None}


def _write_example(
    place: Place, files: str | None, form: str | None, select: str | None, named: dict[str, Any]
) -> None:
    form = form or next((f for f in ("csv", "jsonl") if f".{f}" in (files or "")), "parquet")
    first = {
        "start_date": utc_today().replace(month=1, day=1),
        "files": files or f"landing/**/*.{form}",
    }
    _write_settings(place, lake_toml({**first, "format": form, "select": select or PLAIN, **named}))
    if select is None:
        where = (
            printable_text(files)
            if files is not None
            else "landing/: .parquet, .csv, .jsonl, also .gz"
        )
        click.echo(f"No file was found ({where}), so it holds an example. To have yours described:")
        click.echo(f"  rm {shlex.quote(place.uri(FILE_NAME))}")
        click.echo(f"  backfill-assets init --files GLOB --lake {shlex.quote(place.uri())}")
    click.echo("Look it over (start_date, files, select), then `backfill-assets scan`.")


def _show_preview(name: str, guess: FirstSource, preview: Preview) -> None:
    read = (
        f"{number_text(len(guess.files))} of {number_text(len(guess.files) + guess.others)} file(s)"
    )
    say(
        f"{f'{name}: ' if name else ''}{number_text(preview.rows)} row(s) of {guess.form} in "
        f"{read}; "
        "the first deliveries:"
    )
    click.echo()
    draw_table(list(preview.header), [list(row) for row in preview.deliveries])
    click.echo()
    if preview.refused:
        click.echo("to quarantine would go:")
        draw_table(["rows", "because"], [[n, why] for why, n in preview.refused.items()])
    else:
        click.echo("No row of it would go to quarantine.")
    for line in (*_doubt_lines(guess), *guess.remarks):
        say(line)
    click.echo()


def _doubt_lines(guess: FirstSource) -> Iterator[str]:
    """What was not looked at or cannot be known, in a sentence each."""
    yield from (f"{name} gives no row: {why}." for name, why in guess.unreadable.items())
    if guess.key_is_guessed:
        yield (
            f"{guess.roles['event_key']} is taken for the key: two rows with one value of it are "
            "one event. If another "
            "column names an event, remove lake.toml and call this again with --key COLUMN."
        )
    if guess.others:
        yield (
            f"{number_text(guess.others)} file(s) were not read, and may hold what these do not: "
            "see "
            "what `scan` says."
        )
    if guess.form == "jsonl" and (nested := [c.name for c in guess.columns if c.is_nested]):
        example = f"get_json_object({quoted_for_spark(nested[0])}, '$.NAME') AS NAME"
        yield (
            f"Nested JSON is text here ({', '.join(nested)}). Write e.g. {example} in select, "
            "NAME in payload."
        )
    if "arrival_ts" not in guess.roles and not guess.path_names_day:
        yield (
            "No column says when a row arrived, and not every path a day, so it counts as arrived "
            "when it happened: no "
            "row is late."
        )
    if not guess.is_ordered:
        yield (
            "Of a key's rows in several files of one day the one counts whose file has the "
            "greatest number at the end "
            "of its name, in which alone the names of a day differ. A name without one sends its "
            "rows to quarantine."
            if guess.numbered
            else "No column says which of a key's rows is the newest. Name one as version_ts, or "
            "give seq as lake.toml "
            "says, if several files of one day may hold the same key."
        )


def _write_settings(place: Place, text: str) -> None:
    try:
        place.write(FILE_NAME, text.encode(), if_absent=True)
    except AlreadyThere:
        raise _existing_file_error(place) from None
    say(f"wrote {place.uri(FILE_NAME)}")


def _existing_file_error(place: Place) -> SettingsError:
    path = place.uri(FILE_NAME)
    fix = (
        f"Edit it; or `rm {shlex.quote(path)}` before the lake has tables; or name another folder "
        "with --lake"
    )
    return SettingsError(path, "it exists already", "Nothing was written", fix)
