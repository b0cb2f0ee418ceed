"""`backfill-assets export` and `attach`: days of a table in a folder or in PostgreSQL, and the tables where they lie,
by name, for readers elsewhere. No JVM.

Not here: exporting (`operations.export`).
"""

from urllib.parse import unquote

import click

from backfill_assets.cli.common import SPAN, answer, json_and_lake, opened, print_json
from backfill_assets.core.days import DayRange

READERS = {  # per table, in the reader's own words
    "duckdb": "CREATE OR REPLACE VIEW {name} AS SELECT * FROM delta_scan('{uri}');",
    "polars": "{name} = pl.scan_delta({uri!r})",
    "spark": "CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION '{path}';",  # Spark decodes no URI here
}
BEFORE = {"duckdb": "INSTALL delta; LOAD delta;", "polars": "import polars as pl", "spark": ""}


@click.command()
@click.argument("reader", type=click.Choice(sorted(READERS)))
@json_and_lake
def attach(reader: str, as_json: bool) -> None:
    """Print what READER needs to find every table of the lake by its name, where it lies: SQL, or Python for Polars.

    Run it in that program: each table is read as of its newest commit, while days are made again, too. No row is
    copied.
    """
    lake, pipeline = opened()
    uris = {t.name: lake.table_uri(t.name) for t in pipeline.tables if lake.store.exists(t.name)}
    if as_json:
        print_json(uris)
        return
    lines = [
        READERS[reader].format(name=name, uri=uri, path=unquote(uri).replace("\\", "\\\\").replace("'", "\\'"))
        for name, uri in uris.items()
    ]
    click.echo("\n".join([BEFORE[reader], *lines] if BEFORE[reader] else lines))


@click.command()
@click.argument("name", default="")
@click.option("--to", metavar="PLACE", help="A folder, or postgresql://HOST/DATABASE#TABLE. NAME is a table then.")
@click.option("--days", type=SPAN, help="The first and the last day, both included: A..B. [default: all]")
@json_and_lake
def export(name: str, to: str | None, days: DayRange | None, as_json: bool) -> None:
    """Replace the days that changed since the last export: of the table NAME in the place --to, or of the export NAME
    in `[exports]` of lake.toml; without NAME of all exports there.

    Days that are missing, stale, incomplete or pending stay in the place as they are. Stopped at any moment, the place
    holds whole days; the next export goes on.
    """
    from backfill_assets.operations.export import export as export_table
    from backfill_assets.operations.export import export_all

    if to is None and days is not None:
        raise click.UsageError("--days needs --to: an export of lake.toml brings all days")
    if to is not None and not name:
        raise click.UsageError("--to needs the name of a table")
    lake, pipeline = opened()
    done = [export_table(lake, pipeline, name, to, days)] if to else export_all(lake, pipeline, [name] if name else [])
    none = "This lake has no exports: see [exports] in the file that `backfill-assets init` writes."
    answer(done, as_json, done, none)
