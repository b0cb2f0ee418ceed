"""`backfill-assets sql`: a SELECT over all tables of a lake by their names.

Lives here: the command and how rows are printed. Does not live here: answering (`operations.sql`). No JVM.
"""

import csv
import sys
from datetime import UTC, datetime
from typing import Any

import click

from backfill_assets.cli.common import TEXT, json_option, lake_option, opened, print_json
from backfill_assets.cli.compare import INSTANT
from backfill_assets.cli.drawing import aside, draw_table, number

SHOWN_ROWS = 100


@click.command()
@click.argument("query", type=TEXT)
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values on stdout, with a header.")
@click.option("--rows", type=click.IntRange(min=0), default=SHOWN_ROWS, show_default=True, help="Draw at most so many.")
@click.option("--at", type=INSTANT, help="The tables as they were then (UTC). [default: now]")
@click.option("--snapshot", default="", metavar="NAME", help="The tables as this snapshot keeps them.")
@json_option
@lake_option
def sql(query: str, as_csv: bool, rows: int, at: datetime | None, snapshot: str, as_json: bool) -> None:
    """Answer QUERY, one SELECT in DuckDB's SQL, over the lake's tables and ledgers; `-` reads it from stdin.

    Read only: no other file can be read or written. Days that are stale or incomplete are told on stderr. With --at or
    --snapshot nothing is judged: the past is what it was.
    """
    from backfill_assets.operations.sql import Question, ask

    if at is not None and snapshot:
        raise click.UsageError("--at and --snapshot say the same: give one of them.")
    text = sys.stdin.read() if query == "-" else query
    lake, pipeline = opened()
    answer = ask(lake, pipeline, Question(text, at.replace(tzinfo=UTC) if at else None, snapshot))
    for table, told in answer.unfit.items():
        aside(f"Note: {table} has days that are not fit to be used: {told} (see `backfill-assets status --why`)")
    if as_json:
        cells = zip(*map(_values, answer.rows.columns), strict=True)
        print_json([dict(zip(answer.rows.column_names, row, strict=True)) for row in cells])
    elif as_csv:
        _write_csv(answer.rows)
    else:
        _draw(answer.rows, rows)


def _write_csv(found: Any) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found.column_names)
    for batch in found.to_batches():
        writer.writerows(zip(*(map(_cell, _values(c)) for c in batch.columns), strict=True))


def _draw(found: Any, most: int) -> None:
    shown = found.slice(0, most)
    cells = [[_cell(v) for v in _values(column)] for column in shown.columns]
    draw_table(found.column_names, [list(row) for row in zip(*cells, strict=True)])
    left = found.num_rows - shown.num_rows
    click.echo(f"{number(found.num_rows)} row(s){f', {number(left)} of them not shown (--rows)' if left else ''}")


def _values(column: Any) -> list[Any]:
    """The values of an Arrow column; dates and times as text where Python has none for one, e.g. of the year 12000."""
    import pyarrow as pa

    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        text = pa.string()
        found = column.cast(pa.list_(text) if pa.types.is_list(column.type) else text).to_pylist()
    return found


def _cell(value: Any) -> str:
    """A value as people read it; NULL is empty."""
    if value is None:
        return ""
    return value.isoformat() if isinstance(value, datetime) else str(value)
