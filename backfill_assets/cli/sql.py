"""`backfill-assets sql`: a SELECT over all tables of a lake by their names. No JVM.

Not here: answering (`operations.sql`).
"""

import csv
import re
import sys
from datetime import datetime
from typing import Any, TextIO

import click

from backfill_assets.cli.common import TEXT, json_and_lake, newest_option, opened, print_json
from backfill_assets.cli.compare import LAKE_MOMENT
from backfill_assets.cli.drawing import draw_table, number, remark
from backfill_assets.core.texts import json_of, plain
from backfill_assets.operations.sql import ask

SHOWN_ROWS = 100
# A text that begins so is computed by spreadsheets, also behind a sign that some of them take for the end of a cell.
FORMULA = re.compile("[=+\\-@\t\r\n＝＋－＠]")


@click.command()
@click.argument("query", type=TEXT)
@click.option("--csv", "form", flag_value="csv", help="Comma-separated values on stdout, with a header.")
@click.option(
    "--csv-safe",
    "form",
    flag_value="safe",
    help="So, all texts quoted, and a ' before those that spreadsheets compute.",
)
@click.option("--rows", type=click.IntRange(min=0), default=SHOWN_ROWS, show_default=True, help="Draw at most so many.")
@click.option("--at", type=LAKE_MOMENT, help="As they were then (UTC), or the number of a lake version. [default: now]")
@newest_option
@click.option("--snapshot", default="", metavar="NAME", help="The tables as this snapshot keeps them.")
@json_and_lake
def sql(  # noqa: PLR0913 - the options of a command are its arguments
    query: str, form: str | None, rows: int, at: datetime | int | None, newest: bool, snapshot: str, as_json: bool
) -> None:
    """Answer QUERY, one SELECT in DuckDB's SQL, over the lake's tables and ledgers; `-` reads it from stdin.

    All tables are read as the newest lake version has them: as the last run, plan chunk, rollback or publication left
    them together.

    Read only: no other file can be read or written. Days that are stale or incomplete are named on stderr. With --at or
    --snapshot nothing is judged: the past is what it was. Binary values are written in hexadecimal digits, and in JSON
    numbers that it lacks as the texts inf, -inf and nan.
    """
    if (at is not None) + bool(snapshot) + newest > 1:
        raise click.UsageError("--at, --newest and --snapshot say the same: give one of them.")
    text = sys.stdin.read() if query == "-" else query
    lake, pipeline = opened()
    answer = ask(lake, pipeline, text, at, snapshot, newest)
    for table, days in answer.unfit.items():
        remark(f"Note: {table} has days that are not fit to be used: {days} (see `backfill-assets status --why`)")
    if as_json:
        cells = zip(*map(_values, answer.rows.columns), strict=True)
        print_json([dict(zip(answer.rows.column_names, row, strict=True)) for row in cells])
    elif form:
        write_csv(answer.rows, sys.stdout, safe=form == "safe")
    else:
        _draw(answer.rows, rows)


def write_csv(rows: Any, to: TextIO, safe: bool) -> None:
    """Write Arrow rows as CSV; with `safe`, put a ' before texts that a spreadsheet would compute. A terminal gets
    control characters escaped."""
    # All texts in quotes: one of them may hold what a spreadsheet takes for the end of a row (CR) or of a cell (;).
    writer = csv.writer(to, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC if safe else csv.QUOTE_MINIMAL)
    screen = to.isatty()

    def cell(value: Any) -> Any:
        if safe and isinstance(value, int | float) and not isinstance(value, bool):
            return value
        text = f"'{value}" if safe and isinstance(value, str) and FORMULA.match(value) else _cell(value)
        return plain(text) if screen else text

    bare = all(name.isidentifier() for name in rows.column_names)
    (csv.writer(to, lineterminator="\n") if bare else writer).writerow(map(cell, rows.column_names))
    for batch in rows.to_batches():
        writer.writerows(zip(*(map(cell, _values(c)) for c in batch.columns), strict=True))


def _draw(answer: Any, limit: int) -> None:
    shown = answer.slice(0, limit)
    cells = [[_cell(v) for v in _values(column)] for column in shown.columns]
    draw_table(answer.column_names, [list(row) for row in zip(*cells, strict=True)])
    hidden = answer.num_rows - shown.num_rows
    click.echo(f"{number(answer.num_rows)} row(s){f', {number(hidden)} of them not shown (--rows)' if hidden else ''}")


def _values(column: Any) -> list[Any]:
    """Return the values of an Arrow column; dates and times beyond Python's range (year 12000) as text."""
    import pyarrow as pa

    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        text = pa.string()
        values = column.cast(pa.list_(text) if pa.types.is_list(column.type) else text).to_pylist()
    return values


def _cell(value: Any) -> str:
    """Write a value as text; NULL is empty."""
    found = json_of(value) if isinstance(value, bytes | datetime | list | dict) else value
    return "" if found is None else str(found)
