"""`backfill-assets production`: Dagster's settings for servers, and the files that keep its three
processes running there.

Not here: the text of those files (`site_files`), and the pages for one person (`server`).
"""

from pathlib import Path

import click

from backfill_assets.cli.common import lake_option, named_lake
from backfill_assets.cli.dagster_names import SETTINGS_OF_A_LAKE
from backfill_assets.cli.drawing import write_file_whole
from backfill_assets.kernel.core.errors import SettingsError

SETTINGS_TITLE = (
    "# Dagster's settings for the code server, the web server and the daemon: "
    "$DAGSTER_HOME/dagster.yaml."
)
POSTGRES_SETTINGS = """# By psycopg2, of dagster-postgres: postgresql+psycopg2://USER@HOST/DATABASE.
# The password is in ~/.pgpass.
storage:
  postgres:
    postgres_url: { env: DAGSTER_POSTGRES_URL }"""


@click.command()
@click.option(
    "--postgres", is_flag=True, help="Dagster's storage in PostgreSQL, at $DAGSTER_POSTGRES_URL."
)
@click.option("--units", is_flag=True, help="Three units for systemd, in its place.")
@click.option("--compose", is_flag=True, help="A Dockerfile and a compose file, in its place.")
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the files of --units or --compose into this folder.",
)
@lake_option
def production(postgres: bool, units: bool, compose: bool, folder: Path | None) -> None:
    """Print a dagster.yaml for a code server, a web server and a daemon that run apart.

    Put it into the folder that DAGSTER_HOME names for all three. Without --postgres the storage is
    SQLite in that folder, for processes of one machine. --units and --compose print what keeps the
    three running, for this lake, this user, this Python and this DAGSTER_HOME; they start nothing.
    See `backfill-assets guide servers`.
    """
    if units and compose:
        raise click.UsageError("Choose one of --units and --compose.")
    if not (units or compose):
        if folder is not None:
            raise click.UsageError("--to goes with --units or --compose.")
        click.echo(settings_text(postgres), nl=False)
        return
    files = _files_of_site(postgres, of_containers=compose)
    if folder is None:
        click.echo("\n".join(f"# ---- {name}\n{text}" for name, text in files.items()), nl=False)
        return
    _write_new_files(folder, files)


def settings_text(has_postgres: bool) -> str:
    """`dagster.yaml` for servers, with Dagster's records in PostgreSQL or in SQLite files of the
    home."""
    # The paragraphs of the settings of one lake: a title, the storage, and what is alike here.
    _, storage, *others = SETTINGS_OF_A_LAKE.read_text(encoding="utf-8").split("\n\n")
    if has_postgres:
        storage = POSTGRES_SETTINGS
    return "\n\n".join([SETTINGS_TITLE, storage, *others])


def _files_of_site(has_postgres: bool, of_containers: bool) -> dict[str, str]:
    """The files for the chosen lake on this machine, text by name."""
    from backfill_assets.cli.site_files import container_files, site_of, unit_files

    lake = named_lake()
    site = site_of(lake.address, lake.settings.access.umask, has_postgres)
    made = container_files(site) if of_containers else unit_files(site)
    return {**made, "dagster.yaml": settings_text(has_postgres)}


def _write_new_files(folder: Path, files: dict[str, str]) -> None:
    """Write the files into the folder, which is made, and name them on stderr. Raises
    SettingsError, and writes none, where one of them is there with another content: a person may
    have changed it."""
    for name, text in files.items():
        file = folder / name
        if file.exists() and file.read_bytes() != text.encode():
            raise SettingsError(
                f"the file {file}",
                "it is there already, with another content",
                "No file was written",
                "Move it away, or name another folder with --to",
            )
    for name, text in files.items():
        write_file_whole(folder / name, text)
