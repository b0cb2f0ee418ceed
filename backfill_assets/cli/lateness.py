"""`backfill-assets lateness`: how late rows come, what a look-back would miss, and what may be believed.

Lives here: the command and its tables. Does not live here: the report (`operations.lateness`) and its page
(`lateness_page`).
"""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import DAY, days_options, inclusive, json_option, lake_option, opened, print_json
from backfill_assets.cli.drawing import draw_table, number, percent, say, span, wanted
from backfill_assets.cli.pages import write_whole
from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import midnight

if TYPE_CHECKING:
    from backfill_assets.operations.lateness import DayLateness, LatenessReport

WORST_DAYS = 10  # what fits beside the other tables; --json and the page have every day
TOLD_LOOK_BACKS = (1, 2, 3, 7, 14, 30, 60, 90)
FILE = click.Path(dir_okay=False, path_type=Path)


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
    wanted = share or lake.settings.lateness.watermark_share
    asked = LatenessScope(days, wanted, midnight(since) if since else None, source)
    report = report_of(lake, pipeline, asked, utc_now())
    if as_json:
        print_json(report.to_dict())
    else:
        _draw(report)
    if html:
        from backfill_assets.cli.lateness_page import page

        write_whole(html, page(report))
    if prometheus:
        from backfill_assets.operations.lateness_metrics import prometheus as metrics_of

        write_whole(prometheus, metrics_of(report), umask=0o022)  # a scraper is somebody else


def _draw(report: "LatenessReport") -> None:
    frontier = f"{report.frontier:%Y-%m-%dT%H:%M:%SZ}" if report.frontier else "none"
    span = f", arrived {report.asked.days}" if report.asked.days else ""
    say(f"{number(report.rows)} upserts{span}; {number(report.deletes)} deletes apart. Frontier {frontier}")
    if report.overall is None:
        say("No upsert, so there is nothing to measure.")
    else:
        _draw_overall(report)
        _draw_completeness(report)
        _draw_look_backs(report)
    _draw_watermarks(report)
    _draw_flips(report)
    _draw_worst("arrival days with the greatest median lateness", report.by_arrival)


def _draw_overall(report: "LatenessReport") -> None:
    from backfill_assets.operations.lateness import spread_days

    if report.overall is None:
        return
    spread = spread_days(report.overall)
    shown = ", ".join(f"{name} {span(days)}" for name, days in spread.items())
    say(f"late (a later day than the event's): {number(report.late)}, {percent(report.late / report.rows)}")
    say(f"early (before the event's time): {number(report.early)}")
    say(f"lateness: {shown}")


def _draw_completeness(report: "LatenessReport") -> None:
    from backfill_assets.core.lateness import told

    rows = [[_age(a.age_days), percent(a.share), number(a.event_days)] for a in told(report.completeness)]
    if rows:
        title = f"share of an event day's rows that has arrived, by age (arrivals {report.watched})"
        _table(title, ["by age", "arrived", "event days"], rows)
        say(f"Rows that come more than {report.completeness[-1].age_days} days after their day are not judged.")


def _draw_look_backs(report: "LatenessReport") -> None:
    told = [a for a in report.advice if a.days in (*TOLD_LOOK_BACKS, report.look_back_days)]
    rows = [
        [str(a.days), number(a.missed), percent(a.share), f"{percent(a.interval.low)} .. {percent(a.interval.high)}"]
        for a in told
    ]
    title = "what a nightly look-back of N days would have missed"
    _table(title, ["N", "rows missed", "share", "95 % interval"], rows)
    sought, days = wanted(report.asked.share), report.look_back_days
    if days is None:
        say(f"No look-back of up to {report.advice[-1].days} days sees {sought} of the rows.")
    else:
        say(f"The smallest that sees {sought} of the rows: {days} day(s).")


def _draw_watermarks(report: "LatenessReport") -> None:
    from backfill_assets.operations.lateness import in_days

    rows = [
        [
            w.table,
            str(w.newest_day or "-"),
            str(w.day or "-"),
            span(in_days(w.lag)),
            span(in_days(w.clock_lag)),
        ]
        for w in report.watermarks
    ]
    title = f"watermark: the day up to which {wanted(report.asked.share)} of the rows are expected to be in"
    columns = ["table", "newest day", "watermark", "behind the frontier", "behind the clock"]
    _table(title, columns, rows)
    if report.age_days is None:
        say("There is none: too few days were watched to know when that share has arrived.")


def _draw_flips(report: "LatenessReport") -> None:
    if report.flips is None:
        return
    rows = [
        [str(f.maturity_days), number(f.labels), number(f.flipped), percent(f.flipped / f.labels) if f.labels else "-"]
        for f in report.flips
    ]
    title = f"labels that were mature on {report.asked.since:%Y-%m-%d} and differ now, by maturity days"
    _table(title, ["maturity", "mature labels", "flipped", "share"], rows)


def _draw_worst(title: str, days: "Sequence[DayLateness]") -> None:
    from backfill_assets.operations.lateness import DAY_S

    worst = sorted(days, key=lambda d: (-d.spread.p50_s, d.day))[:WORST_DAYS]
    rows = [
        [
            str(d.day),
            number(d.spread.rows),
            percent(d.late / d.spread.rows),
            span(d.spread.p50_s / DAY_S),
            span(d.spread.p90_s / DAY_S),
            span(d.spread.greatest_s / DAY_S),
        ]
        for d in worst
    ]
    if rows:
        _table(title, ["arrived", "rows", "late", "p50", "p90", "max"], rows)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    click.echo()
    draw_table(columns, rows, title)


def _age(days: int) -> str:
    return "same day" if days == 0 else f"{days} day" if days == 1 else f"{days} days"
