"""`backfill-assets report` and `audit`: the whole lake, its metrics, and every write of every day, as JSON or a page.

Not here: gathering (`operations.report`, `operations.writes`), the page of the lake (`report_page`), and metrics of
`lateness`.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.common import DAY, FILE, json_and_lake, opened, print_json
from backfill_assets.cli.drawing import Page, PageSection, TextTable, aside, draw_table, write_page, write_whole
from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import contiguous
from backfill_assets.lake.home import Lake
from backfill_assets.operations.rejected import kinds
from backfill_assets.operations.writes import DayAudit, write_table
from backfill_assets.operations.writes import audit as audit_of

if TYPE_CHECKING:
    from backfill_assets.operations.report import LakeReport
    from backfill_assets.orchestration.history import History

COLUMNS = ("at", "table", "version", "days", "changed", "rows before", "rows", "by", "reason", "plan", "run", "note")
SHOWN = 200  # writes on a screen; --json, --html and --parquet have all


@click.command()
@click.option("--table", default="", help="Only of this table.")
@click.option("--day", type=DAY, help="Only of this day.")
@click.option("--plan", default="", metavar="ID", help="Only what this plan wrote, put back or released.")
@click.option("--since", type=DAY, help="Only what was committed on this day (UTC) or later.")
@click.option("--html", type=FILE, help="Write a page: one file, no network.")
@click.option("--parquet", type=FILE, help="Write the table `audit`, a row per write and day, for any engine.")
@json_and_lake
def audit(html: Path | None, parquet: Path | None, as_json: bool, **which: Any) -> None:
    """Every write: who, when, why, plan and chunk, code, input versions, rows and fingerprints before and after.

    Read from the logs at every call. No JVM.
    """
    lake, pipeline = opened()
    found = audit_of(lake, pipeline, **which)
    if parquet:
        aside(f"wrote {parquet}: {write_table(found, parquet)} rows")
    rows = [_row(list(days)) for _, days in groupby(found, lambda w: (w.at, w.table, w.version))]
    if html:
        writes = PageSection("Writes, newest first", [TextTable(COLUMNS, rows)])
        write_page(html, Page("audit", "Audit", str(lake.root), [writes], [f"{len(found)} writes of days"]))
    if as_json:
        print_json(found)
    elif not html and not parquet:
        draw_table(COLUMNS, rows[:SHOWN])
        if len(rows) > SHOWN:
            click.echo(f"and {len(rows) - SHOWN} more: see --json, or ask with --since, --table, --day, --plan")


def _row(days: list[DayAudit]) -> tuple[object, ...]:
    """Return the cells of one commit."""
    first = days[0]
    spans = contiguous(d.day for d in days if d.day is not None)
    changed, before, rows = (sum(getattr(d, name) or 0 for d in days) for name in ("changed", "rows_before", "rows"))
    chunk = f" chunk {first.chunk}" if first.chunk else ""
    head = (first.at, first.table, str(first.version), spans or "?", changed, before, rows)
    return *head, first.by, first.reason, first.plan + chunk, first.run_id[:8], first.note


@click.command()
@click.option("--html", type=FILE, help="Write a page: one file, no network.")
@click.option("--prometheus", type=FILE, help="Write metrics in Prometheus' text format.")
@json_and_lake
def report(html: Path | None, prometheus: Path | None, as_json: bool) -> None:
    """States of all days, what landed, lateness, durations, checks, runs and writes; by default metrics, as a table.

    No JVM starts.
    """
    from backfill_assets.operations.report import report as report_of

    lake, pipeline = opened()
    gathered = report_of(lake, pipeline, utc_now(), with_checks=as_json or html is not None)

    from backfill_assets.cli.dagster_home import instance_of, silenced
    from backfill_assets.lake.gates import ALL_CHECKS
    from backfill_assets.orchestration.history import history as history_of

    with silenced(), instance_of(lake) as instance:
        history = history_of(instance, str(lake.root), [t.name for t in pipeline.tables], tuple(ALL_CHECKS))
    from backfill_assets.cli.lateness import lateness_gauges

    found = list(report_gauges(lake, gathered, history))
    every = [*found, *(lateness_gauges(gathered.lateness) if gathered.lateness else ())]
    section = metrics_section(g for g in every if g in found or g[0] in OF_LATENESS)
    if as_json:
        print_json({**vars(gathered), "dagster": history, "metrics": {name: values for name, _, _, values in every}})
    if html:
        from backfill_assets.cli.checks import drift_page
        from backfill_assets.cli.report_page import page
        from backfill_assets.operations.drift import measure_drift

        write_page(html, page(gathered, history, drift_page(measure_drift(lake, pipeline)), section))
    if prometheus:
        write_whole(prometheus, exposition(every), umask=0o022)  # a scraper is another user
    if not (as_json or html or prometheus):
        section.draw()


PREFIX = "backfill_assets_"
OTHERS = "other reasons"
OF_LATENESS = ("lateness_seconds", "watermark_lag_seconds")  # in the table; the others have too many values
Gauge = tuple[
    str, str, str, Mapping[str, float | None]
]  # name, meaning, label ("": none), values by label (None: unknown)


def exposition(gauges: Iterable[Gauge]) -> str:
    """Write gauges in Prometheus' text exposition format 0.0.4. An unknown value has no sample.

    Units are in the names: seconds, ratios 0..1, rows; instants are seconds since 1970.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client import Gauge as Family

    registry = CollectorRegistry()
    for name, meaning, label, values in gauges:
        known = {key: value for key, value in values.items() if value is not None}
        if known:
            family = Family(PREFIX + name, meaning, [label] if label else [], registry=registry)
            for key, value in known.items():
                (family.labels(key) if label else family).set(value)
    return generate_latest(registry).decode("utf-8")


def report_gauges(lake: Lake, report: "LakeReport", history: "History") -> Iterator[Gauge]:
    """Yield the metrics of a report, all from what it has computed or from records of commands."""
    from backfill_assets.operations.reconcile import kept_mismatches

    sources = report.delivered.sources or {"": report.delivered}
    doubled = {name: one.account.duplicates_per_1000 for name, one in sources.items()}
    yield "duplicates_per_1000_rows", "Repeated deliveries per 1,000 loaded rows.", "source", doubled
    late = {name: one.account.too_late for name, one in sources.items()}
    yield "late_rows_in_quarantine", "Rows that came too late and wait for replay-late.", "source", late
    shown, _, others = kinds(report.delivered.quarantine)
    reasons = dict(shown) | ({OTHERS: others} if others else {})
    yield "quarantined_rows", "Rows in quarantine.", "reason", reasons
    yield "reconcile_mismatches", "Mismatches at the newest reconciliation.", "sides", kept_mismatches(lake)
    broken = {c.name: int(not c.holds) for c in report.controls}
    yield "control_broken", "1 for a control that did not hold or could not be judged.", "control", broken
    runs = [r for r in history.runs if r.seconds is not None]
    took = _p95([r.seconds for r in runs if r.seconds is not None])
    yield "run_p95_seconds", "95th percentile of the newest runs, from start to end.", "", took
    queued = _p95([r.queued_seconds for r in runs if r.queued_seconds is not None])
    yield "run_queue_p95_seconds", "95th percentile of their time in the queue, before the start.", "", queued
    each = {d.table: d for d in report.durations}
    wrote = {name: d.p95_s for name, d in each.items()}
    yield "write_p95_seconds", "95th percentile of a table's writes, from request to commit.", "table", wrote
    rates = {name: d.rows_per_second for name, d in each.items()}
    yield "write_rows_per_second", "Rows per second of the newest writes, engine start left out.", "table", rates
    rates = {name: d.bytes_per_second for name, d in each.items()}
    yield "write_bytes_per_second", "Bytes per second of the newest writes, engine start left out.", "table", rates
    trend = {name: d.trend for name, d in each.items()}
    yield "write_rows_per_second_trend_ratio", "These rows per second by those of the writes before.", "table", trend


def _p95(seconds: list[float]) -> dict[str, float | None]:
    cuts = quantiles(seconds * 2 if len(seconds) == 1 else seconds, n=20, method="inclusive") if seconds else [None]
    return {"": cuts[-1]}


def metrics_section(gauges: Iterable[Gauge]) -> PageSection:
    """Return the known values as a section of the report."""
    rows = [
        (name, f"{label} {key}" if key else "–", f"{value:,.3f}".rstrip("0").removesuffix("."))
        for name, _, label, values in gauges
        for key, value in values.items()
        if value is not None
    ]
    line = "`backfill-assets report --prometheus FILE` writes these, and those of `lateness`, for a scraper."
    return PageSection("Metrics", [TextTable(("metric", "of", "value"), rows)], [line])
