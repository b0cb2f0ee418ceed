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
BY_FILE_NUMBER = (
    "Of a key's rows in several files of one day the one counts whose file has the greatest number "
    "at the end of its name, in which alone the names of a day differ. A name without one sends "
    "its rows to quarantine."
)
NO_ORDER = (
    "No column says which of a key's rows is the newest. Name one as version_ts, or give seq as "
    "lake.toml says, if several files of one day may hold the same key."
)
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
    place = _new_place(root)
    named = {} if start_date is None else {"start_date": start_date}
    roles = {role: columns[option] for role, option in ROLES.items()}
    chosen = {role: name for role, name in roles.items() if name is not None}
    if sources and (files or select):
        raise click.UsageError(
            "--source names globs of its own: leave --files and --select out. Nothing was written."
        )
    globs = _named_globs(sources) or {"": files}
    landed = {} if select is not None else _landed_sources(root, form, globs)
    if not landed:
        _write_example(place, files, form, select, named)
        return
    guesses = guessed_sources(landed, chosen)
    text = guessed_toml(guesses, landed, named)
    say("Trying it on these files; an engine that is not up yet takes some seconds to start.")
    for name, preview in trial_load(root, text, guesses).items():
        _show_preview(name, guesses[name], preview)
    _write_settings(place, text)
    click.echo(
        "Look it over (start_date, select, features, label), then `backfill-assets catch-up`."
    )


def _new_place(root: Path) -> Place:
    """The place of a lake that is to be made. Raises SettingsError where one is, and for a folder
    of somebody else."""
    refuse_file(root)
    refuse_foreign_lake(root)
    place = place_at(root)
    if place.exists(FILE_NAME):
        raise _existing_file_error(place)
    return place


def _named_globs(sources: tuple[str, ...]) -> dict[str, str | None]:
    """The glob of each source that is given as NAME=GLOB."""
    globs = dict[str, str | None]()
    for source in sources:
        name, _, glob = source.partition("=")
        if not name or not glob:
            raise click.UsageError(
                f"--source {printable_text(source)} names no glob. Nothing was done. Say "
                "NAME=GLOB, as "
                "orders='orders/**/*.csv'."
            )
        globs[name] = glob
    return globs


def _landed_sources(
    root: Path, form: str | None, globs: dict[str, str | None]
) -> dict[str, LandedFiles]:
    """The files of each source; none where the only one has none yet. Raises SettingsError where
    one of several has."""
    landed = dict[str, LandedFiles]()
    for name, glob in globs.items():
        found = landed_form(root, form, glob)
        if found is not None:
            landed[name] = found
        elif name:
            raise SettingsError(
                f"--source {name}",
                "no file lies there",
                "No lake.toml was written",
                f"Correct its glob {glob}, which begins at the lake's folder, or name the others "
                "first",
            )
    return landed


def _write_example(
    place: Place, files: str | None, form: str | None, select: str | None, named: dict[str, Any]
) -> None:
    """Write a lake.toml without having seen a file: by what a person says, else an example."""
    form = form or _form_of_glob(files or "")
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


def _form_of_glob(glob: str) -> str:
    """The format of files that a glob names by their ending; Parquet if it names none."""
    for form in ("csv", "jsonl"):
        if f".{form}" in glob:
            return form
    return "parquet"


def _show_preview(name: str, guess: FirstSource, preview: Preview) -> None:
    """Draw how the first deliveries of a source would be read, what would go to quarantine, and
    what is in doubt."""
    read = (
        f"{number_text(len(guess.files))} of {number_text(len(guess.files) + guess.others)} file(s)"
    )
    rows = f"{number_text(preview.rows)} row(s) of {guess.form} in {read}; the first deliveries:"
    say(f"{name}: {rows}" if name else rows)
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
    for name, why in guess.unreadable.items():
        yield f"{name} gives no row: {why}."
    if guess.key_is_guessed:
        yield (
            f"{guess.roles['event_key']} is taken for the key: two rows with one value of it are "
            "one event. If another column names an event, remove lake.toml and call this again "
            "with --key COLUMN."
        )
    if guess.others:
        yield (
            f"{number_text(guess.others)} file(s) were not read, and may hold what these do not: "
            "see "
            "what `scan` says."
        )
    nested = [c.name for c in guess.columns if c.is_nested]
    if nested and guess.form == "jsonl":
        example = f"get_json_object({quoted_for_spark(nested[0])}, '$.NAME') AS NAME"
        yield (
            f"Nested JSON is text here ({', '.join(nested)}). Write e.g. {example} in select, "
            "NAME in payload."
        )
    if "arrival_ts" not in guess.roles and not guess.path_names_day:
        yield (
            "No column says when a row arrived, and not every path a day, so it counts as arrived "
            "when it happened: no row is late."
        )
    if not guess.is_ordered:
        yield BY_FILE_NUMBER if guess.numbered else NO_ORDER


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
