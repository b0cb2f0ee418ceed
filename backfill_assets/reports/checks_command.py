"""Commands that look for what is wrong in a lake: `controls`, `drift` and `prove`. None of them
commits anything.

Not here: judging, measuring and computing (`reading.check_history`, `compare`), drawing what
differs (`compare`), and `doctor`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from backfill_assets.cli.common import days_options, opened_lake
from backfill_assets.cli.drawing import Page, PageSection, TextTable, number_text, write_page
from backfill_assets.cli.output import Output, reporting_command
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges
from backfill_assets.reading.check_history import ColumnDrift, DriftReport, measure_drift
from backfill_assets.reports.plots import drift_figures

SHOWN = 20


@click.command()
@click.option("--table", help="Which table. [default: all]")
@click.option("--column", help="Which column. [default: all that receipts count]")
@days_options(default="all that were made")
@reporting_command("html")
def drift(table: str | None, column: str | None, days: "DayRange | None") -> Output:
    """Rank the days whose values differ from the 28 days before, the same weekday, or what the day
    held before.

    By the histograms that receipts keep of numbers, yes or no, texts with few values, and NULL. The
    measure is the population stability index; a day is off where the first two, or the third,
    exceed 0.25 plus chance. Exit code 0, whatever was found.
    """
    lake, pipeline = opened_lake()
    report = measure_drift(lake, pipeline, [table] if table else (), column, days)

    def write_drifts(file: Path) -> None:
        write_page(
            file,
            Page(
                command="drift", title="Drift", lake=lake.address, sections=drift_sections(report)
            ),
        )

    return Output(report, [drift_section(report, SHOWN)], files={"html": write_drifts})


def drift_section(report: "DriftReport", count: int | None = None) -> PageSection:
    """Return how many columns of days are off, and the `count` (None: all) that are off most."""
    off = report.off
    headline = (
        f"{number_text(len(off))} of {number_text(len(report.found))} column(s) of days are off"
    )
    if report.unjudged:
        headline += (
            f"; {number_text(report.unjudged)} could not be judged: too few earlier days, or too "
            "few rows"
        )
    if count is not None and len(off) > count:
        headline += f"; the {count} that are off most are shown, --json has all"
    if not off[:count]:
        return PageSection("Drift", [], [headline])
    names = ("table", "column", "day", "rows", "28 days", "weekday", "before", "moved most")
    rows = []
    for d in off[:count]:
        indexes = map(_index_text, (d.trailing, d.weekday, d.before))
        rows.append((d.table, d.column, d.day, d.rows, *indexes, d.moved))
    title = (
        "population stability index against the 28 days before, four same weekdays, what the day "
        "held before"
    )
    return PageSection("Drift", [TextTable(names, rows, title)], [headline])


def drift_sections(report: "DriftReport") -> list[PageSection]:
    """Return the sections of a page: plots of the columns that are off most, then all that are off,
    neighbouring days of a column in one row; every day by itself is folded."""
    every_day = drift_section(report)
    plots = PageSection("Drift", about=every_day.lines, figures=drift_figures(report))
    if not every_day.tables:
        return [plots]
    title = (
        "population stability index: the greatest of those against the 28 days before, same "
        "weekdays, and before"
    )
    rows = _rows_of_stretches(report.off)
    grouped = TextTable(("index", "column", "days", "moved most"), rows, title)
    folded = []
    for table in every_day.tables:
        folded.append(replace(table, title=f"Every day by itself: {table.title}"))
    return [plots, PageSection("Columns that are off", [grouped], folded=folded)]


def _rows_of_stretches(off: Iterable["ColumnDrift"]) -> list[tuple[str, str, str, str]]:
    """Return a row per column and stretch of days without a gap: the range of the index, the
    column, the days, and what moved most on the first of them."""
    by_column: dict[str, list[ColumnDrift]] = {}
    for drift in off:
        by_column.setdefault(f"{drift.table}.{drift.column}", []).append(drift)
    rows = []
    for column, drifts in by_column.items():
        for stretch in contiguous_ranges(d.day for d in drifts):
            together = [d for d in drifts if d.day in stretch]
            days = f"{stretch} ({len(stretch)})"
            rows.append((_range_of_index(together), column, days, together[0].moved))
    return rows


def _range_of_index(drifts: Sequence["ColumnDrift"]) -> str:
    """Return the least and the greatest index of several days of a column, e.g. `0.31..0.52`."""
    indexes = [_greatest_index(drift) for drift in drifts]
    least, most = _index_text(min(indexes)), _index_text(max(indexes))
    return most if least == most else f"{least}..{most}"


def _greatest_index(drift: "ColumnDrift") -> float:
    """Return the greatest of the indexes that a column of a day could be given."""
    indexes = (drift.trailing, drift.weekday, drift.before)
    return max(index for index in indexes if index is not None)


def _index_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
