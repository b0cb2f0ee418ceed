"""`backfill-assets server start | stop | status`: the server of the lake's own engine; `production`: Dagster's settings
where its processes run apart.

Not here: the server (`engine.server`), which commands start by themselves; Dagster's home of a lake (`dagster_home`).
"""

from pathlib import Path

import click

from backfill_assets.cli.common import answer, json_and_lake, lake_option, lake_root, named_lake
from backfill_assets.engine.confs import scrub
from backfill_assets.engine.server import ensure_server, server_status, stop_server
from backfill_assets.lake.home import Lake
from backfill_assets.lake.session import LakeSession

TITLE = "# Dagster's settings for the code server, the web server and the daemon: $DAGSTER_HOME/dagster.yaml."
POSTGRES = """# By psycopg2, of dagster-postgres: postgresql+psycopg2://USER@HOST/DATABASE; the password in ~/.pgpass.
storage:
  postgres:
    postgres_url: { env: DAGSTER_POSTGRES_URL }"""


@click.group()
def server() -> None:
    """The server of the lake's engine. It starts by itself at the first use, and ends when idle."""


@server.command(short_help="Start it now.")
@json_and_lake
def start(as_json: bool) -> None:
    """Start it now, so that the next command need not wait."""
    lake = _lake()
    ensure_server(lake.root, LakeSession(lake).engine)
    _draw(lake.root, as_json)


@server.command(short_help="Stop it; the next use starts one.")
@click.option("--force", is_flag=True, help="Even while others use it: their queries fail.")
@json_and_lake
def stop(force: bool, as_json: bool) -> None:
    """Stop it; the next use starts a fresh one."""
    stopped = stop_server(lake_root(), force=force)
    if not stopped:
        _lake()  # refused where there can be none; one that runs is stopped whatever lake.toml says by now
    answer({"stopped": stopped}, as_json, ["stopped" if stopped else "it was not running"])


@server.command(short_help="Whether it runs, since when.")
@json_and_lake
def status(as_json: bool) -> None:
    """Whether it runs, since when, and how much memory it takes. Starts nothing."""
    if server_status(lake_root()) is None:
        _lake()
    _draw(lake_root(), as_json)


def _lake() -> Lake:
    lake = named_lake()
    if not LakeSession(lake).engine.has_server:
        raise click.UsageError(f"[spark] engine is {scrub(lake.settings.spark.engine)!r}, no server of the lake's own.")
    return lake


def _draw(lake: Path, as_json: bool) -> None:
    if (running := server_status(lake)) is None:
        answer({"running": False}, as_json, ["not running; it starts at the first use"])
        return
    answer({"running": True, **vars(running)}, as_json, [f"{running}, {running.version}"])


@click.command()
@click.option("--postgres", is_flag=True, help="Dagster's storage in PostgreSQL, at $DAGSTER_POSTGRES_URL.")
@lake_option
def production(postgres: bool) -> None:
    """Print a dagster.yaml for a code server, a web server and a daemon that run apart.

    Put it into the folder that DAGSTER_HOME names for all three. Without --postgres the storage is SQLite in that
    folder, for processes of one machine. See `backfill-assets guide servers`.
    """
    from backfill_assets.cli.dagster_home import OF_A_LAKE

    _, storage, *others = OF_A_LAKE.read_text(encoding="utf-8").split("\n\n")
    click.echo("\n\n".join([TITLE, POSTGRES if postgres else storage, *others]), nl=False)
