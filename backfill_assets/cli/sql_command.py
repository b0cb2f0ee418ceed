"""`backfill-assets sql`, `export`, `attach`, `register`, `locate`: rows of tables for people,
places elsewhere, other readers, and names in a catalog.

Not here: answering a query (`reading.sql`), and exporting (`export.export_days`).
"""

import csv
import os
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from functools import partial
from typing import Annotated, Any, TextIO
from urllib.parse import unquote

import click

from backfill_assets.cli.common import (
    LAKE_MOMENT,
    TEXT,
    json_and_lake,
    newest_option,
    opened_lake,
    say_why_readers_wait,
    wants_json,
)
from backfill_assets.cli.drawing import draw_table, number_text, remark
from backfill_assets.cli.output import write_answer
from backfill_assets.engines.confs import S3Address
from backfill_assets.engines.engine_paths import hadoop_address
from backfill_assets.kernel.core.answers import InSchema
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.tables.versions import versions_seen
from backfill_assets.kernel.tables.view import settled_view
from backfill_assets.reading.fitness import lacking_reason, unfit_text
from backfill_assets.reading.readable import readable_tables
from backfill_assets.reading.sql import answer_query

SHOWN_ROWS = 100
# A spreadsheet computes a text that begins so, and takes the others for the end of a cell or a row
# unless quoted.
FORMULA, ENDS_A_CELL = re.compile("[=+\\-@\t\r\n＝＋－＠]"), re.compile("[;\t\r]")


# Open by nature: the query names the columns.
SqlAnswer = Annotated[
    list[dict[str, Any]], InSchema(description="Rows, by the names of the query's columns.")
]
AttachAnswer = Annotated[
    dict[str, str], InSchema(description="The address of each table, by its name.")
]


@click.command()
@click.argument("query", type=TEXT)
@click.option(
    "--csv",
    "is_csv",
    is_flag=True,
    help="Comma-separated values on stdout, with a header; a ' before texts that spreadsheets "
    "compute.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=SHOWN_ROWS,
    show_default=True,
    help="Draw at most so many.",
)
@click.option(
    "--at",
    type=LAKE_MOMENT,
    help="As they were then (UTC), or the number of a lake version. [default: now]",
)
@newest_option
@click.option(
    "--snapshot", default="", metavar="NAME", help="The tables as this snapshot keeps them."
)
@json_and_lake
def sql(
    query: str, is_csv: bool, rows: int, at: datetime | int | None, newest: bool, snapshot: str
) -> None:
    """Answer QUERY, one SELECT in DuckDB's SQL, over the lake's tables and ledgers; `-` reads it
    from stdin.

    All tables are read as the newest lake version has them: as the last run, plan chunk, rollback
    or publication left them together. With --newest each table is read at its own newest commit,
    so that a run may have written one of them and not yet the next.

    Read only: no other file can be read or written. Days that are stale or incomplete are named on
    stderr. With --at or --snapshot nothing is judged: the past is what it was. Binary values are
    written in hexadecimal digits, and in JSON numbers that it lacks as the texts inf, -inf and nan.
    """
    if (at is not None) + bool(snapshot) + newest > 1:
        raise click.UsageError("--at, --newest and --snapshot say the same: give one of them.")
    text = sys.stdin.read() if query == "-" else query
    lake, pipeline = opened_lake()
    if at is None and not snapshot and not newest:
        say_why_readers_wait(lake)
    found = answer_query(lake, pipeline, text, at, snapshot, newest)
    for table, days in found.unfit.items():
        remark(
            f"Note: {table} has days that are not fit to be used: {days} (see `backfill-assets "
            "status --why`)"
        )
    drawn = partial(_draw_rows, found.rows, limit=rows)
    if is_csv:
        drawn = partial(write_csv, found.rows, to=sys.stdout)
    write_answer(partial(_json_records, found.rows), [drawn])


def _json_records(rows: Any) -> list[dict[str, Any]]:
    """Return Arrow rows as records by the names of columns."""
    cells = zip(*map(_column_values, rows.columns), strict=True)
    return [dict(zip(rows.column_names, row, strict=True)) for row in cells]


def write_csv(rows: Any, to: TextIO) -> None:
    """Write Arrow rows as CSV, with a `'` before a text or name that a spreadsheet would compute. A
    terminal gets control characters escaped."""
    plainly = csv.writer(to, lineterminator="\n")
    quoted = csv.writer(to, lineterminator="\n", quoting=csv.QUOTE_ALL)
    screen = to.isatty()

    def cell(value: Any) -> str:
        is_computed = isinstance(value, str) and FORMULA.match(value)
        text = f"'{value}" if is_computed else _cell_text(value)
        return printable_text(text) if screen else text

    def write(row: Iterable[Any]) -> None:
        cells = [*map(cell, row)]
        writer = quoted if any(map(ENDS_A_CELL.search, cells)) else plainly
        writer.writerow(cells)

    write(rows.column_names)
    for batch in rows.to_batches():
        for row in zip(*map(_column_values, batch.columns), strict=True):
            write(row)


def _draw_rows(rows: Any, limit: int) -> None:
    """Draw the first `limit` of Arrow rows as a table, and say how many there are."""
    shown = rows.slice(0, limit)
    cells = [[_cell_text(v) for v in _column_values(column)] for column in shown.columns]
    draw_table(rows.column_names, [list(row) for row in zip(*cells, strict=True)])
    hidden = rows.num_rows - shown.num_rows
    not_shown = f", {number_text(hidden)} of them not shown (--rows)" if hidden else ""
    click.echo(f"{number_text(rows.num_rows)} row(s){not_shown}")


def _column_values(column: Any) -> list[Any]:
    """Return the values of an Arrow column; dates and times beyond Python's range (year 12000) as
    text."""
    import pyarrow as pa

    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        text = pa.string()
        values = column.cast(pa.list_(text) if pa.types.is_list(column.type) else text).to_pylist()
    return values


def _cell_text(value: Any) -> str:
    """Write a value as text; NULL is empty."""
    found = json_of(value) if isinstance(value, bytes | datetime | list | dict) else value
    return "" if found is None else str(found)


# The line for one table by the reader: at a version, or at the table's head. Spark decodes no URI.
VERSION_TEMPLATES = {
    "duckdb": "CREATE OR REPLACE VIEW {name} AS SELECT * FROM delta_scan('{uri}', version => "
    "{version});",
    "polars": "{name} = pl.scan_delta({uri!r}, version={version})",
    "spark": "CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM delta.`{path}@v{version}`;",
}
NEWEST_TEMPLATES = {
    "duckdb": "CREATE OR REPLACE VIEW {name} AS SELECT * FROM delta_scan('{uri}');",
    "polars": "{name} = pl.scan_delta({uri!r})",
    "spark": "CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION '{literal}';",
}
# What a reader runs first; "": nothing.
OPENING_LINES = {
    "duckdb": "INSTALL delta; LOAD delta;",
    "polars": "import polars as pl",
    "spark": "",
}
# DuckDB's word for a store, by the scheme of its addresses; it reaches them by a secret alone.
DUCKDB_STORES = {"s3": "s3", "az": "azure"}


@click.command()
@click.argument("reader", type=click.Choice(sorted(VERSION_TEMPLATES)))
@click.option(
    "--newest",
    is_flag=True,
    help="Follow each table to its newest commit, also while a run writes others.",
)
@json_and_lake
def attach(reader: str, newest: bool) -> None:
    """Print what READER needs to find every table of the lake by its name, where it lies: SQL, or
    Python for Polars.

    Run it in that program. All tables are of the newest lake version, and stay so: run it again to
    see newer days. No row is copied.
    """
    lake, pipeline = opened_lake()
    uris = {t.name: lake.table_uri(t.name) for t in pipeline.tables if lake.store.exists(t.name)}
    if wants_json():
        write_answer(uris)
        return
    seen = None if newest else versions_seen(lake)
    if not newest:
        say_why_readers_wait(lake)
    lines = _opening_lines(reader, lake.address)
    for name, uri in uris.items():
        version = (seen or {}).get(name)
        if version is None or exists_at(version):
            lines.append(_attaching_line(reader, name, uri, version))
    click.echo("\n".join(lines))
    known, unread = readable_tables(lake, pipeline)
    for error in unread.values():
        click.echo(f"Note: {error}", err=True)
    for name, days in _lacking_days(known.states(settled_view(lake, known.contracts))).items():
        click.echo(f"Note: {reader} finds NULL in columns of {name}: {unfit_text(days)}", err=True)


def _opening_lines(reader: str, address: str) -> list[str]:
    """Return what a reader runs before it attaches tables: its extensions, and the way to the
    store."""
    lines = [OPENING_LINES[reader]] if OPENING_LINES[reader] else []
    kind = DUCKDB_STORES.get(address.partition("://")[0])
    if reader == "duckdb" and kind is not None:
        lines.append(_secret_statement(kind, os.environ, address))
    return lines


def _attaching_line(reader: str, name: str, uri: str, version: int | None) -> str:
    """Return the line by which a reader finds a table at a version (None: its newest)."""
    template = NEWEST_TEMPLATES[reader] if version is None else VERSION_TEMPLATES[reader]
    path = hadoop_address(unquote(uri)) if reader == "spark" else unquote(uri)
    literal = path.replace("\\", "\\\\").replace("'", "\\'")
    identifier = path.replace("`", "``")
    return template.format(name=name, uri=uri, path=identifier, literal=literal, version=version)


def _secret_statement(kind: str, environ: Mapping[str, str], address: str) -> str:
    """The statement by which DuckDB reaches a store: with no key of it, but where a store of one's
    own lies."""
    options = [f"TYPE {kind}", "PROVIDER credential_chain"]
    account = environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if kind == "azure" and account:
        options.append(f"ACCOUNT_NAME '{account}'")
    endpoint = S3Address.of(environ, address).endpoint if kind == "s3" else None
    if endpoint:
        scheme, _, host = endpoint.partition("://")
        style = "path" if S3Address.of(environ, address).by_path else "vhost"
        uses_tls = "true" if scheme == "https" else "false"
        options += [f"ENDPOINT '{host}'", f"URL_STYLE '{style}'", f"USE_SSL {uses_tls}"]
    return f"CREATE OR REPLACE SECRET backfill_assets ({', '.join(options)});"


def _lacking_days(states: States) -> dict[str, dict[date, str]]:
    """Return per table the days whose files lack a column, each with the words for it."""
    lacking: dict[str, dict[date, str]] = {}
    for table in states.contracts:
        for day in states.view.table(table).latest:
            reason = lacking_reason(states.lacking_columns(table, day))
            if reason:
                lacking.setdefault(table, {})[day] = reason
    return lacking
