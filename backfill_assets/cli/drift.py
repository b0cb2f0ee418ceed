"""`backfill-assets drift`: the days whose values are off, in all of a lake's history, ranked. No JVM.

Not here: the statistic (`core.profiles`) and reading receipts (`operations.drift`).
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import FILE, SPAN, json_and_lake, opened, print_json
from backfill_assets.cli.drawing import TextTable, number, say
from backfill_assets.cli.pages import Page, PageSection, write_page

if TYPE_CHECKING:
    from backfill_assets.core.days import DayRange
    from backfill_assets.operations.drift import ColumnDrift

SHOWN = 20


@click.command()
@click.option("--table", help="Which table. [default: all]")
@click.option("--column", help="Which column. [default: all that receipts count]")
@click.option("--days", type=SPAN, help="Which days: A..B, both included, or one. [default: all that were made]")
@click.option("--rows", type=click.IntRange(min=0), default=SHOWN, show_default=True, help="Draw at most so many.")
@click.option("--html", type=FILE, help="Write a page: one file, no network.")
@json_and_lake
def drift(
    table: str | None, column: str | None, days: "DayRange | None", rows: int, html: Path | None, as_json: bool
) -> None:
    """Rank the days whose values differ from the 28 days before, the same weekday, or what the day held before.

    By the histograms that receipts keep of numbers, yes or no, texts with few values, and NULL. The measure is the
    population stability index; a day is off where the first two, or the third, exceed 0.25 plus chance. Exit code 0,
    whatever was found.
    """
    from backfill_assets.operations.drift import measure_drift

    lake, pipeline = opened()
    report = measure_drift(lake, pipeline, [table] if table else (), column, days)
    off, compared = report.off, len(report.found)
    headline = f"{number(len(off))} of {number(compared)} column(s) of days are off"
    if html:
        from backfill_assets.cli.plots import drift_figures

        page = replace(_section(off), figures=drift_figures(report))
        write_page(html, Page("drift", "Drift", str(lake.root), [page], [headline]))
    if as_json:
        print_json(report)
    elif not html:
        say(headline)
        if off:
            _section(off[:rows]).draw()


def _section(off: "list[ColumnDrift]") -> PageSection:
    names = ("table", "column", "day", "rows", "28 days", "weekday", "before", "moved most")
    cells = [(d.table, d.column, d.day, d.rows, *map(_index, (d.trailing, d.weekday, d.before)), d.moved) for d in off]
    title = "population stability index against the 28 days before, four same weekdays, what the day held before"
    return PageSection("Days that are off", [TextTable(names, cells, title)])


def _index(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
