"""`backfill-assets lateness`: the report as tables, as a page, and as metrics in Prometheus' text format.

Not here: the report (`operations.lateness`) and its plots (`plots`).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.common import DAY, FILE, days_asked, days_options, json_option, lake_option, opened, print_json
from backfill_assets.cli.drawing import TextTable, number, percent, say, span, wanted
from backfill_assets.cli.pages import Figure, Page, PageSection, write_page, write_whole
from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import ONE_DAY, end_of, midnight
from backfill_assets.core.lateness import Watermark, ages_shown

if TYPE_CHECKING:
    from backfill_assets.operations.lateness import DayLateness, LatenessReport

WORST_DAYS = 10  # what fits beside the other tables; --json and the page have every day
SHOWN_LOOK_BACKS = (1, 2, 3, 7, 14, 30, 60, 90)
PREFIX = "backfill_assets_"  # of metrics
GaugeOf = tuple[str, str, str, Mapping[str, float | None]]  # name, meaning, label ("": none), values by label
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
def lateness(since: date | None, html: Path | None, prometheus: Path | None, as_json: bool, **asked: Any) -> None:
    """How late rows arrive, what a look-back of N days would miss, and up to which day tables may be believed.

    --from and --to are days of arrival. Reads raw and receipts only: no JVM starts.
    """
    from backfill_assets.operations.lateness import LatenessScope
    from backfill_assets.operations.lateness import lateness as report_of

    lake, pipeline = opened()
    share = asked["share"] or lake.settings.lateness.watermark_share
    days = days_asked(asked["first"], asked["last"])
    scope = LatenessScope(days, share, midnight(since) if since else None, asked["source"])
    report = report_of(lake, pipeline, scope, utc_now())
    if as_json:
        print_json(report.to_dict())
    else:
        for line in _head(report):
            say(line)
        for section in _sections(report, {}):
            click.echo()
            section.draw()
    if html:
        write_page(html, page(report))
    if prometheus:
        write_whole(prometheus, metrics(report), umask=0o022)  # a scraper is another user


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
    if report.overall is None:
        return []
    shown = {name: span(days) for name, days in report.overall.in_days().items()}
    return [
        ("Rows (upserts)", number(report.rows), f"{number(report.deletes)} deletes apart"),
        ("Late", percent(report.late / report.rows), f"{number(report.late)} rows"),
        ("Median lateness", shown["p50"], f"90 %: {shown['p90']}"),
        ("Latest", shown["max"], f"99 %: {shown['p99']}"),
        ("Early", number(report.early), "arrived before their event"),
        ("Frontier", f"{report.frontier:%Y-%m-%d}" if report.frontier else "none", "nothing is known from then on"),
    ]


def _head(report: "LatenessReport") -> list[str]:
    frontier = f"{report.frontier:%Y-%m-%dT%H:%M:%SZ}" if report.frontier else "none"
    arrived = f", arrived {report.asked.days}" if report.asked.days else ""
    first = f"{number(report.rows)} upserts{arrived}; {number(report.deletes)} deletes apart. Frontier {frontier}"
    if report.overall is None:
        return [first, "No upsert, so there is nothing to measure."]
    shown = ", ".join(f"{name} {span(days)}" for name, days in report.overall.in_days().items())
    return [
        first,
        f"late (a later day than the event's): {number(report.late)}, {percent(report.late / report.rows)}",
        f"early (before the event's time): {number(report.early)}",
        f"lateness: {shown}",
    ]


def _sections(report: "LatenessReport", figures: Mapping[str, Figure]) -> list[PageSection]:
    """Return the tables of the report, each with the figure of its numbers, if `figures` has one."""
    measured = [completeness(report, figures), _look_backs(report, figures)] if report.overall else []
    worst = sorted(report.by_arrival, key=lambda d: (-d.spread.p50_s, d.day))[:WORST_DAYS]
    last = PageSection("The latest days", [_days("arrival days with the greatest median lateness", worst)])
    flips = [_flips(report)] if report.flips is not None and report.asked.since else []
    return [section for section in [*measured, watermarks(report), *flips, last] if section.tables[0].rows]


def completeness(report: "LatenessReport", figures: Mapping[str, Figure]) -> PageSection:
    """Return the share of an event day's rows that has arrived by each age."""
    rows = [(_age(a.age_days), percent(a.share), a.event_days) for a in ages_shown(report.completeness)]
    title = f"share of an event day's rows that has arrived, by age (arrivals {report.watched})"
    table = TextTable(["by age", "arrived", "event days"], rows, title)
    most = report.completeness[-1].age_days if report.completeness else 0
    line = f"Rows that come more than {most} days after their day are not judged."
    return PageSection("How complete days are", [table], [line], figures=_one(figures, "completeness"))


def _look_backs(report: "LatenessReport", figures: Mapping[str, Figure]) -> PageSection:
    rows = [
        (a.days, a.missed, percent(a.share), f"{percent(a.interval.low)} .. {percent(a.interval.high)}")
        for a in report.advice
        if a.days in (*SHOWN_LOOK_BACKS, report.look_back_days)
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
    """Return the newest day of each table, and the day up to which its rows are expected to be in."""
    rows = [
        (
            w.table,
            w.newest_day,
            w.day,
            *(span(lag / ONE_DAY if lag is not None else None) for lag in (w.lag, w.clock_lag)),
        )
        for w in report.watermarks
    ]
    title = f"watermark: the day up to which {wanted(report.asked.share)} of the rows are expected to be in"
    table = TextTable(["table", "newest day", "watermark", "behind the frontier", "behind the clock"], rows, title)
    none = "There is none: too few days were watched to know when that share has arrived."
    return PageSection("Watermarks", [table], [none] if report.age_days is None else [], [WATERMARK])


def _flips(report: "LatenessReport") -> PageSection:
    rows = [
        (f.maturity_days, f.labels, f.flipped, percent(f.flipped / f.labels) if f.labels else "-")
        for f in report.flips or ()
    ]
    title = f"labels that were mature on {report.asked.since:%Y-%m-%d} and differ now, by maturity days"
    return PageSection("Label flips", [TextTable(["maturity", "mature labels", "flipped", "share"], rows, title)])


def _days(title: str, days: "Sequence[DayLateness]") -> TextTable:
    rows = []
    for d in days:
        shown = d.spread.in_days()
        late = percent(d.late / d.spread.rows)
        rows.append((d.day, d.spread.rows, late, *(span(shown[name]) for name in ("p50", "p90", "max"))))
    return TextTable(["arrived", "rows", "late", "p50", "p90", "max"], rows, title)


def _age(days: int) -> str:
    return "same day" if days == 0 else f"{days} day" if days == 1 else f"{days} days"


def metrics(report: "LatenessReport") -> str:
    """Write the report in Prometheus' text exposition format 0.0.4. An unknown value has no sample.

    Units are in the names: seconds, ratios 0..1, rows; instants are seconds since 1970.
    """
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    for name, meaning, label, values in _gauges(report):
        known = {key: value for key, value in values.items() if value is not None}
        if known:
            gauge = Gauge(PREFIX + name, meaning, [label] if label else [], registry=registry)
            for key, value in known.items():
                (gauge.labels(key) if label else gauge).set(value)
    return generate_latest(registry).decode("utf-8")


def _gauges(report: "LatenessReport") -> Iterator[GaugeOf]:
    counted = {"upsert": report.rows, "late": report.late, "early": report.early, "delete": report.deletes}
    rows = "Loaded deliveries: upserts, of these late (on a later day, UTC) and early ones, and deletes."
    yield "lateness_rows", rows, "kind", counted
    if spread := report.overall:
        seconds = (spread.least_s, spread.p50_s, spread.p90_s, spread.p99_s, spread.greatest_s)
        exact = dict(zip(("0", "0.5", "0.9", "0.99", "1"), seconds, strict=True))
        yield "lateness_seconds", "Arrival minus event time of upserts; exact.", "quantile", exact
    flips = report.flips or ()
    mature = {str(f.maturity_days): f.labels for f in flips}
    yield "mature_labels", "Labels mature at the instant asked about.", "maturity_days", mature
    flipped = {str(f.maturity_days): f.flipped for f in flips}
    yield "flipped_labels", "Of these, labels that differ as known now.", "maturity_days", flipped
    arrived = {str(a.age_days): a.share for a in ages_shown(report.completeness)}
    yield "completeness_ratio", "Share of a day's rows that has arrived by an age.", "age_days", arrived
    missed = {str(a.days): a.share for a in report.advice}
    yield "look_back_missed_ratio", "Share of rows that a look-back would have missed.", "days", missed
    least = {f"{report.asked.share:g}": report.look_back_days}
    yield "look_back_days", "Smallest look-back that sees the wanted share.", "share", least
    yield from _watermark_gauges(report.watermarks)
    if report.frontier:
        until = {"": report.frontier.timestamp()}
        yield "frontier_timestamp_seconds", "The instant up to which all that landed is loaded.", "", until


def _watermark_gauges(marks: Sequence[Watermark]) -> Iterator[GaugeOf]:
    newest = {w.table: end_of(w.newest_day).timestamp() for w in marks if w.newest_day}
    yield "newest_day_timestamp_seconds", "End of the newest day that is built and not pending.", "table", newest
    days = {w.table: end_of(w.day).timestamp() for w in marks if w.day}
    yield "watermark_timestamp_seconds", "End of the watermark day.", "table", days
    lags = {w.table: w.lag.total_seconds() for w in marks if w.lag is not None}
    yield "watermark_lag_seconds", "Frontier minus the end of the watermark day.", "table", lags
    lags = {w.table: w.clock_lag.total_seconds() for w in marks if w.clock_lag is not None}
    meaning = "Clock minus the end of the watermark day, when this was written."
    yield "watermark_clock_lag_seconds", meaning, "table", lags
