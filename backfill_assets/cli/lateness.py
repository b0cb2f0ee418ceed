"""`backfill-assets lateness`: how late rows come, what a look-back would miss, and up to which day tables are complete.

Not here: the report (`operations.lateness`), its metrics (`operations.lateness_metrics`) and plots (`plots`).
"""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import DAY, days_options, inclusive, json_option, lake_option, opened, print_json
from backfill_assets.cli.drawing import TextTable, number, percent, say, span, wanted
from backfill_assets.cli.pages import Figure, Page, PageSection, write_page, write_whole
from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import ONE_DAY, midnight

if TYPE_CHECKING:
    from backfill_assets.operations.lateness import DayLateness, LatenessReport

DAY_S = ONE_DAY.total_seconds()
WORST_DAYS = 10  # what fits beside the other tables; --json and the page have every day
SHOWN_LOOK_BACKS = (1, 2, 3, 7, 14, 30, 60, 90)
FILE = click.Path(dir_okay=False, path_type=Path)
LATE = (
    "Lateness is when a row arrived minus when its event happened. A row is late if it arrived on a later day (UTC) "
    "than its event's."
)
LOOK_BACK = (
    "A job that reprocesses the newest N event days every night misses each row that is N or more days late, for good. "
    "Tables of this lake need none: exactly the days that late rows touch are rebuilt."
)
WATERMARK = (
    "The data known at a cut never changes with late rows, so there the newest day is the watermark. Labels look "
    "ahead, so theirs lies a horizon before."
)


@click.command()
@days_options(required=False)
@click.option("--since", type=DAY, help="Also count labels that were mature when this day began and differ now.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    help="The share of rows that the advised look-back and the watermark are to see. [default: watermark_share]",
)
@click.option("--source", default="", help="Of which source, where the lake has several.")
@click.option("--html", type=FILE, help="Write a page with plots: one file, no network.")
@click.option("--prometheus", type=FILE, help="Write metrics in Prometheus' text format.")
@json_option
@lake_option
def lateness(  # noqa: PLR0913 - the options of a command are its arguments
    first: date | None,
    last: date | None,
    since: date | None,
    share: float | None,
    source: str,
    html: Path | None,
    prometheus: Path | None,
    as_json: bool,
) -> None:
    """How late rows arrive, what a look-back of N days would miss, and up to which day tables may be believed.

    --from and --to are days of arrival. Reads raw and receipts only: no JVM starts.
    """
    from backfill_assets.operations.lateness import LatenessScope
    from backfill_assets.operations.lateness import lateness as report_of

    lake, pipeline = opened()
    if (first is None) != (last is None):
        raise click.UsageError("--from and --to belong together")
    days = inclusive(first, last) if first and last else None
    wanted_share = share or lake.settings.lateness.watermark_share
    asked = LatenessScope(days, wanted_share, midnight(since) if since else None, source)
    report = report_of(lake, pipeline, asked, utc_now())
    if as_json:
        print_json(report.to_dict())
    else:
        _draw(report)
    if html:
        write_page(html, page(report))
    if prometheus:
        from backfill_assets.operations.lateness_metrics import prometheus as metrics_of

        write_whole(prometheus, metrics_of(report), umask=0o022)  # a scraper is another user


def _draw(report: "LatenessReport") -> None:
    for line in _head(report):
        say(line)
    for section in _sections(report, {}):
        click.echo()
        section.draw()


def page(report: "LatenessReport") -> Page:
    """Return the report as a page, with plots and every day."""
    from backfill_assets.cli.plots import lateness_figures

    figures = lateness_figures(report)
    every = [_days("every arrival day", report.by_arrival), _days("every event day", report.by_event)]
    arrived = [f"Measured are the rows that arrived on {report.asked.days}."] if report.asked.days else []
    plots = [figures[name] for name in ("distribution", "late-share") if name in figures]
    all_days = PageSection("Every day", figures=plots, folded=[table for table in every if table.rows])
    sections = [*_sections(report, figures), all_days]
    nothing = [] if report.overall else ["No upsert arrived, so there is nothing to measure."]
    return Page("lateness", "How late rows arrive", report.lake, sections, [LATE, *arrived, *nothing], _tiles(report))


def _tiles(report: "LatenessReport") -> list[tuple[str, str, str]]:
    from backfill_assets.operations.lateness import spread_days

    if report.overall is None:
        return []
    shown = {name: span(days) for name, days in spread_days(report.overall).items()}
    return [
        ("Rows (upserts)", number(report.rows), f"{number(report.deletes)} deletes apart"),
        ("Late", percent(report.late / report.rows), f"{number(report.late)} rows"),
        ("Median lateness", shown["p50"], f"90 %: {shown['p90']}"),
        ("Latest", shown["max"], f"99 %: {shown['p99']}"),
        ("Early", number(report.early), "arrived before their event"),
        ("Frontier", f"{report.frontier:%Y-%m-%d}" if report.frontier else "none", "nothing is known from then on"),
    ]


def _head(report: "LatenessReport") -> list[str]:
    from backfill_assets.operations.lateness import spread_days

    frontier = f"{report.frontier:%Y-%m-%dT%H:%M:%SZ}" if report.frontier else "none"
    arrived = f", arrived {report.asked.days}" if report.asked.days else ""
    first = f"{number(report.rows)} upserts{arrived}; {number(report.deletes)} deletes apart. Frontier {frontier}"
    if report.overall is None:
        return [first, "No upsert, so there is nothing to measure."]
    shown = ", ".join(f"{name} {span(days)}" for name, days in spread_days(report.overall).items())
    return [
        first,
        f"late (a later day than the event's): {number(report.late)}, {percent(report.late / report.rows)}",
        f"early (before the event's time): {number(report.early)}",
        f"lateness: {shown}",
    ]


def _sections(report: "LatenessReport", figures: Mapping[str, Figure]) -> list[PageSection]:
    """The tables of the report, each with the figure of its numbers, if `figures` has one."""
    measured = [completeness(report, figures), _look_backs(report, figures)] if report.overall else []
    flips = [_flips(report)] if report.flips is not None and report.asked.since else []
    worst = sorted(report.by_arrival, key=lambda d: (-d.spread.p50_s, d.day))[:WORST_DAYS]
    last = PageSection("The latest days", [_days("arrival days with the greatest median lateness", worst)])
    found = [*measured, watermarks(report), *flips, last]
    return [section for section in found if section.tables[0].rows]


def completeness(report: "LatenessReport", figures: Mapping[str, Figure]) -> PageSection:
    """The share of an event day's rows that has arrived by each age."""
    from backfill_assets.core.lateness import told

    rows = [[_age(a.age_days), percent(a.share), number(a.event_days)] for a in told(report.completeness)]
    title = f"share of an event day's rows that has arrived, by age (arrivals {report.watched})"
    table = TextTable(["by age", "arrived", "event days"], rows, title)
    most = report.completeness[-1].age_days if report.completeness else 0
    line = f"Rows that come more than {most} days after their day are not judged."
    return PageSection("How complete days are", [table], [line], figures=_one(figures, "completeness"))


def _look_backs(report: "LatenessReport", figures: Mapping[str, Figure]) -> PageSection:
    shown = [a for a in report.advice if a.days in (*SHOWN_LOOK_BACKS, report.look_back_days)]
    rows = [
        [str(a.days), number(a.missed), percent(a.share), f"{percent(a.interval.low)} .. {percent(a.interval.high)}"]
        for a in shown
    ]
    title = "what a nightly look-back of N days would have missed"
    table = TextTable(["N", "rows missed", "share", "95 % interval"], rows, title)
    sought, days = wanted(report.asked.share), report.look_back_days
    line = f"The smallest that sees {sought} of the rows: {days} day(s)."
    if days is None:
        line = f"No look-back of up to {report.advice[-1].days} days sees {sought} of the rows."
    return PageSection("Look-backs", [table], [line], [LOOK_BACK], figures=_one(figures, "look-back"))


def _one(figures: Mapping[str, Figure], name: str) -> list[Figure]:
    return [figures[name]] if name in figures else []


def watermarks(report: "LatenessReport") -> PageSection:
    """The newest day of each table, and the day up to which its rows are expected to be in."""
    rows = [
        [
            w.table, str(w.newest_day or "-"), str(w.day or "-"),
            *(span(lag / ONE_DAY if lag is not None else None) for lag in (w.lag, w.clock_lag)),
        ]
        for w in report.watermarks
    ]  # fmt: skip
    title = f"watermark: the day up to which {wanted(report.asked.share)} of the rows are expected to be in"
    columns = ["table", "newest day", "watermark", "behind the frontier", "behind the clock"]
    none = "There is none: too few days were watched to know when that share has arrived."
    return PageSection(
        "Watermarks", [TextTable(columns, rows, title)], [none] if report.age_days is None else [], [WATERMARK]
    )


def _flips(report: "LatenessReport") -> PageSection:
    rows = [
        [str(f.maturity_days), number(f.labels), number(f.flipped), percent(f.flipped / f.labels) if f.labels else "-"]
        for f in report.flips or ()
    ]
    title = f"labels that were mature on {report.asked.since:%Y-%m-%d} and differ now, by maturity days"
    return PageSection("Label flips", [TextTable(["maturity", "mature labels", "flipped", "share"], rows, title)])


def _days(title: str, days: "Sequence[DayLateness]") -> TextTable:
    rows = [
        [
            str(d.day), number(d.spread.rows), percent(d.late / d.spread.rows),
            *(span(seconds / DAY_S) for seconds in (d.spread.p50_s, d.spread.p90_s, d.spread.greatest_s)),
        ]
        for d in days
    ]  # fmt: skip
    return TextTable(["arrived", "rows", "late", "p50", "p90", "max"], rows, title)


def _age(days: int) -> str:
    return "same day" if days == 0 else f"{days} day" if days == 1 else f"{days} days"
