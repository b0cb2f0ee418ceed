"""`backfill-assets lateness`: the report as tables, as a page, and as metrics in Prometheus' text
format.

Not here: the report (`reports.lateness`) and its plots (`plots`).
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from backfill_assets.cli.common import days_options, opened_lake
from backfill_assets.cli.drawing import (
    Page,
    PageSection,
    TextTable,
    duration_text,
    number_text,
    percent_as_typed,
    percent_text,
    write_page,
)
from backfill_assets.cli.output import Gauge, Output, Part, reporting_command, write_metrics
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, end_of_day
from backfill_assets.reports.completeness import AGES_DAYS, Aged, Watermark
from backfill_assets.reports.lateness import DayLateness, LatenessReport, LatenessScope
from backfill_assets.reports.lateness import lateness_report as report_of
from backfill_assets.reports.plots import lateness_figures

WORST_DAYS = 10  # what fits beside the other tables; --json and the page have every day
SHOWN_LOOK_BACKS = (1, 2, 3, 7, 14, 30, 60, 90)
DAY_S = ONE_DAY.total_seconds()
NO_UPSERT = "No upsert, so there is nothing to measure."
LATE = (
    "Lateness is when a row arrived minus when its event happened. A row is late if it arrived on "
    "a later day (UTC) "
    "than its event's."
)
LOOK_BACK = (
    "A job that reprocesses the newest N event days every night misses each row that is N or more "
    "days late, for good. "
    "Tables of this lake need none: exactly the days that late rows touch are rebuilt."
)
WATERMARK = (
    "The data known at a cut never changes with late rows, so there the newest day is the "
    "watermark. Labels look "
    "ahead, so theirs lies a horizon before."
)


@click.command()
@days_options(default="all")
@click.option("--source", default="", help="Of which source, where the lake has several.")
@reporting_command("html", "prometheus")
def lateness(days: "DayRange | None", source: str) -> Output:
    """How late rows arrive, what a look-back of N days would miss, and up to which day tables may
    be believed.

    --from and --to are days of arrival. Reads raw and receipts only: no JVM starts.
    """
    lake, pipeline = opened_lake()
    scope = LatenessScope(days, lake.settings.lateness.watermark_share, source)
    report = report_of(lake, pipeline, scope, utc_now())
    parts: list[Part] = [*_head_lines(report)]
    for section in _page_sections(report):
        parts += ["", section]  # an empty line before each

    def write_html(file: Path) -> None:
        write_page(file, page_of_lateness(report))

    def write_gauges(file: Path) -> None:
        write_metrics(file, lateness_gauges(report))

    return Output(report, parts, files={"html": write_html, "prometheus": write_gauges})


def page_of_lateness(report: LatenessReport) -> Page:
    """Return the report as a page, with plots and every day."""
    every = [
        _day_table("every arrival day", report.by_arrival),
        _day_table("every event day", report.by_event),
    ]
    plots = PageSection(
        "Plots", figures=lateness_figures(report), folded=[table for table in every if table.rows]
    )
    return Page(
        command="lateness",
        title="How late rows arrive",
        lake=report.lake,
        sections=[plots, *_page_sections(report)],
        lines=[LATE, *_head_lines(report)],
    )


def _head_lines(report: LatenessReport) -> list[str]:
    """Return how many upserts were measured, up to when, and how late they were over all."""
    frontier = "frontier: none"
    if report.frontier:
        frontier = f"frontier: {report.frontier:%Y-%m-%d %H:%M} UTC"
    first = f"{_measured_upserts(report)}; {number_text(report.deletes)} deletes apart"
    if report.overall is None:
        return [first, frontier, NO_UPSERT]
    shown = ", ".join(
        f"{name} {duration_text(days)}" for name, days in report.overall.in_days().items()
    )
    return [
        first,
        frontier,
        f"late (a later day than the event's): {number_text(report.late)}, "
        f"{percent_text(report.late / report.rows)}",
        f"early (before the event's time): {number_text(report.early)}",
        f"lateness: {shown}",
    ]


def _measured_upserts(report: LatenessReport) -> str:
    """Return how many upserts were measured, of which source and arrival days."""
    text = f"{number_text(report.rows)} upserts"
    if report.scope.source:
        text += f" of the source {report.scope.source} alone (--source NAME: of another)"
    if report.scope.days:
        text += f", arrived on {report.scope.days}"
    return text


def _page_sections(report: LatenessReport) -> list[PageSection]:
    """Return the sections of screen and page; without those whose first table would be empty."""
    sections = []
    if report.overall is not None:
        sections += [completeness_section(report), _look_back_section(report)]
    sections.append(watermark_section(report))
    worst = sorted(report.by_arrival, key=lambda d: (-d.spread.p50, d.day))[:WORST_DAYS]
    latest = _day_table("arrival days with the greatest median lateness", worst)
    sections.append(PageSection("The latest days", [latest]))
    return [section for section in sections if section.tables[0].rows]


def completeness_section(report: LatenessReport) -> PageSection:
    """Return the share of an event day's rows that has arrived by the ages of `AGES_DAYS`."""
    shown = _ages_shown(report.completeness)
    rows = [(f"{a.age_days} d", percent_text(a.share), a.event_days) for a in shown]
    title = f"share of an event day's rows that has arrived, by age (arrivals {report.watched})"
    most = report.completeness[-1].age_days if report.completeness else 0
    line = f"Rows that come more than {most} days after their day are not judged."
    return PageSection(
        "How complete days are",
        [TextTable(["by age", "arrived", "event days"], rows, title)],
        [line],
    )


def _ages_shown(shares: Iterable[Aged]) -> list[Aged]:
    """Return the few shares that a table of the terminal has place for."""
    return [a for a in shares if a.age_days in AGES_DAYS]


def _look_back_section(report: LatenessReport) -> PageSection:
    """Return what some look-backs would have missed, and the smallest one that sees the wanted
    share of the rows."""
    shown = {*SHOWN_LOOK_BACKS, report.look_back_days}
    rows = []
    for advice in report.look_backs:
        if advice.days in shown:
            interval = f"{percent_text(advice.low)} .. {percent_text(advice.high)}"
            rows.append((advice.days, advice.missed, percent_text(advice.missed_share), interval))
    title = "what a nightly look-back of N days would have missed"
    table = TextTable(["N", "rows missed", "share", "95 % interval"], rows, title)
    sought, days = percent_as_typed(report.scope.share), report.look_back_days
    line = f"The smallest that sees {sought} of the rows: {days} day(s)."
    if days is None:
        line = f"No look-back of up to {report.look_backs[-1].days} days sees {sought} of the rows."
    return PageSection("Look-backs", [table], [line], [LOOK_BACK])


def watermark_section(report: LatenessReport) -> PageSection:
    """Return the newest day of each table, and the day up to which its rows are expected to be
    in."""
    rows = [
        (w.table, w.newest_day, w.day, duration_text(w.lag_days), duration_text(w.clock_lag_days))
        for w in report.watermarks
    ]
    title = (
        f"watermark: the day up to which {percent_as_typed(report.scope.share)} of the rows are "
        "expected to be in"
    )
    table = TextTable(
        ["table", "newest day", "watermark", "behind the frontier", "behind the clock"], rows, title
    )
    lines = []
    if report.age_days is None:
        lines = ["There is none: too few days were watched to know when that share has arrived."]
    return PageSection("Watermarks", [table], lines, [WATERMARK])


def _day_table(title: str, days: Iterable[DayLateness]) -> TextTable:
    """Return a table of days with their rows, the late ones, and quantiles of their lateness."""
    rows = []
    for d in days:
        shown = d.spread.in_days()
        late = percent_text(d.late / d.spread.rows)
        quantiles = (
            duration_text(shown["p50"]),
            duration_text(shown["p90"]),
            duration_text(shown["max"]),
        )
        rows.append((d.day, d.spread.rows, late, *quantiles))
    return TextTable(["arrived", "rows", "late", "p50", "p90", "max"], rows, title)


def lateness_gauges(report: LatenessReport) -> "Iterator[Gauge]":
    """Yield the metrics of the report."""
    yield from _row_gauges(report)
    yield from _share_gauges(report)
    yield from _watermark_gauges(report.watermarks)
    until = {"": report.frontier.timestamp() if report.frontier else None}
    meaning = "The instant up to which all that landed is loaded."
    yield Gauge("frontier_timestamp_seconds", meaning, "", until)


def _row_gauges(report: LatenessReport) -> "Iterator[Gauge]":
    """Yield the counted rows of `report`, and how late its upserts are if it has any."""
    counted = {
        "upsert": report.rows,
        "late": report.late,
        "early": report.early,
        "delete": report.deletes,
    }
    meaning = (
        "Loaded deliveries: upserts, of these late (on a later day, UTC) and early ones, and "
        "deletes."
    )
    yield Gauge("lateness_rows", meaning, "kind", counted)
    if s := report.overall:
        exact = {"0": s.min, "0.5": s.p50, "0.9": s.p90, "0.95": s.p95, "0.99": s.p99, "1": s.max}
        meaning = "Arrival minus event time of upserts; exact."
        yield Gauge("lateness_seconds", meaning, "quantile", exact)


def _share_gauges(report: LatenessReport) -> "Iterator[Gauge]":
    """Yield which shares of the rows of `report` arrive by an age or miss a look-back."""
    arrived = {str(a.age_days): a.share for a in _ages_shown(report.completeness)}
    meaning = "Share of a day's rows that has arrived by an age."
    yield Gauge("completeness_ratio", meaning, "age_days", arrived)
    missed = {str(a.days): a.missed_share for a in report.look_backs}
    meaning = "Share of rows that a look-back would have missed."
    yield Gauge("look_back_missed_ratio", meaning, "days", missed)
    least = {f"{report.scope.share:g}": report.look_back_days}
    meaning = "Smallest look-back that sees the wanted share."
    yield Gauge("look_back_days", meaning, "share", least)


def _watermark_gauges(marks: Sequence[Watermark]) -> "Iterator[Gauge]":
    """Yield the newest day, the watermark day and its lags per table of `marks`."""
    newest = {w.table: end_of_day(w.newest_day).timestamp() for w in marks if w.newest_day}
    meaning = "End of the newest day that is built and not pending."
    yield Gauge("newest_day_timestamp_seconds", meaning, "table", newest)
    days = {w.table: end_of_day(w.day).timestamp() for w in marks if w.day}
    yield Gauge("watermark_timestamp_seconds", "End of the watermark day.", "table", days)
    lags = {w.table: w.lag_days * DAY_S for w in marks if w.lag_days is not None}
    meaning = "Frontier minus the end of the watermark day."
    yield Gauge("watermark_lag_seconds", meaning, "table", lags)
    lags = {w.table: w.clock_lag_days * DAY_S for w in marks if w.clock_lag_days is not None}
    meaning = "Clock minus the end of the watermark day, at writing."
    yield Gauge("watermark_clock_lag_seconds", meaning, "table", lags)
