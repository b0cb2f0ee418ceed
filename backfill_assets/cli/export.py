"""`backfill-assets export` and `attach`: days of a table in a folder or in PostgreSQL, and the tables where they lie,
by name, for readers elsewhere. No JVM.

Not here: exporting (`operations.export`).
"""

from datetime import date
from urllib.parse import unquote

import click

from backfill_assets.cli.common import SPAN, answer, json_and_lake, newest_option, opened, print_json
from backfill_assets.core.days import DayRange
from backfill_assets.core.states import States
from backfill_assets.lake.versions import NEVER_MADE, versions_seen
from backfill_assets.lake.view import settled_view
from backfill_assets.operations.fitness import unfit_text, without

READERS = {  # per table, in the reader's own words; Spark decodes no URI
    "duckdb": "CREATE OR REPLACE VIEW {name} AS SELECT * FROM delta_scan('{uri}', version => {version});",
    "polars": "{name} = pl.scan_delta({uri!r}, version={version})",
    "spark": "CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM delta.`{path}@v{version}`;",
}
NEWEST = {  # the same for the heads of the tables
    "duckdb": "CREATE OR REPLACE VIEW {name} AS SELECT * FROM delta_scan('{uri}');",
    "polars": "{name} = pl.scan_delta({uri!r})",
    "spark": "CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION '{literal}';",
}
BEFORE = {"duckdb": "INSTALL delta; LOAD delta;", "polars": "import polars as pl", "spark": ""}


@click.command()
@click.argument("reader", type=click.Choice(sorted(READERS)))
@click.option("--newest", is_flag=True, help="Follow each table to its newest commit, also while a run writes others.")
@json_and_lake
def attach(reader: str, newest: bool, as_json: bool) -> None:
    """Print what READER needs to find every table of the lake by its name, where it lies: SQL, or Python for Polars.

    Run it in that program. All tables are of the newest lake version, and stay so: run it again to see newer days. No
    row is copied.
    """
    lake, pipeline = opened()
    uris = {t.name: lake.table_uri(t.name) for t in pipeline.tables if lake.store.exists(t.name)}
    if as_json:
        print_json(uris)
        return
    seen = None if newest else versions_seen(lake)
    lines = [BEFORE[reader]] if BEFORE[reader] else []
    for name, uri in uris.items():
        version = (seen or {}).get(name)
        if version != NEVER_MADE:
            line = (NEWEST if version is None else READERS)[reader]
            path = unquote(uri)
            literal = path.replace("\\", "\\\\").replace("'", "\\'")
            lines.append(
                line.format(name=name, uri=uri, path=path.replace("`", "``"), literal=literal, version=version)
            )
    click.echo("\n".join(lines))
    for name, days in _lacking(pipeline.states(settled_view(lake, pipeline.contracts))).items():
        click.echo(f"Note: {reader} finds NULL in columns of {name}: {unfit_text(days)}", err=True)


def _lacking(states: States) -> dict[str, dict[date, str]]:
    """Per table the days whose files lack a column, each with the words for it."""
    words = {t: {d: without(states.lacks(t, d)) for d in states.view.table(t).latest} for t in states.contracts}
    return {t: found for t, days in words.items() if (found := {d: text for d, text in days.items() if text})}


@click.command()
@click.argument("name", default="")
@click.option("--to", metavar="PLACE", help="A folder, or postgresql://HOST/DATABASE#TABLE. NAME is a table then.")
@click.option("--days", type=SPAN, help="The first and the last day, both included: A..B. [default: all]")
@newest_option
@json_and_lake
def export(name: str, to: str | None, days: DayRange | None, newest: bool, as_json: bool) -> None:
    """Replace the days that changed since the last export: of the table NAME in the place --to, or of the export NAME
    in `[exports]` of lake.toml; without NAME of all exports there. All are of the newest lake version.

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
    if to:
        done = [export_table(lake, pipeline, name, to, days, newest)]
    else:
        done = export_all(lake, pipeline, [name] if name else [], newest)
    none = "This lake has no exports: see [exports] in the file that `backfill-assets init` writes."
    answer(done, as_json, done, none)
