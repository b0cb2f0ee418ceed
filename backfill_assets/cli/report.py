"""`backfill-assets report` and `audit`: the whole lake, and every write of every day, as JSON or as a page.

Not here: gathering (`operations.report`, `operations.writes`) and the page of the lake (`report_page`).
"""

from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from backfill_assets.cli.common import DAY, FILE, json_and_lake, opened, print_json
from backfill_assets.cli.drawing import Page, PageSection, TextTable, draw_table, remark, write_page, write_whole
from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import contiguous
from backfill_assets.operations.system_tables import write_parquet
from backfill_assets.operations.writes import DayAudit
from backfill_assets.operations.writes import audit as audit_of
from backfill_assets.plans.files import find_plan

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
def audit(html: Path | None, parquet: Path | None, as_json: bool, **options: Any) -> None:
    """Every write: who, when, why, plan and chunk, code, input versions, rows and fingerprints before and after.

    Read from the logs at every call. No JVM.
    """
    lake, pipeline = opened()
    found = audit_of(lake, pipeline, **options)
    if options["plan"] and not found:
        find_plan(lake, options["plan"])  # raises for a mistyped one; the file of one that wrote may be gone
    if parquet:
        remark(f"wrote {parquet}: {write_parquet(DayAudit, found, parquet)} rows")
    rows = [_row(list(days)) for _, days in groupby(found, lambda w: (w.at, w.table, w.version))]
    if html:
        writes = PageSection("Writes, newest first", [TextTable(COLUMNS, rows)])
        write_page(html, Page("audit", "Audit", str(lake.root), [writes], [f"{len(found)} writes of days"]))
    if as_json:
        print_json(found)
    elif not html and not parquet:
        if rows:
            draw_table(COLUMNS, rows[:SHOWN])
        else:
            remark("No write is like that.")
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
    lake_report = report_of(lake, pipeline, utc_now(), with_checks=as_json or html is not None)

    from backfill_assets.cli.dagster_home import instance_of, silenced
    from backfill_assets.orchestration.history import runs_of

    with silenced(), instance_of(lake) as instance:
        runs = runs_of(instance, str(lake.root))
    from backfill_assets.cli.lateness import lateness_gauges
    from backfill_assets.cli.metrics import OF_LATENESS, exposition, metrics_section, report_gauges

    found = list(report_gauges(lake, lake_report, runs))
    every = [*found, *(lateness_gauges(lake_report.lateness) if lake_report.lateness else ())]
    section = metrics_section(g for g in every if g in found or g[0] in OF_LATENESS)
    if as_json:
        print_json({**vars(lake_report), "dagster": {"runs": runs}, "metrics": {name: v for name, _, _, v in every}})
    if html:
        from backfill_assets.cli.checks import drift_sections
        from backfill_assets.cli.report_page import page
        from backfill_assets.operations.drift import measure_drift

        folded = replace(section, tables=(), folded=[replace(t, title="every metric") for t in section.tables])
        write_page(html, page(lake_report, runs, *drift_sections(measure_drift(lake, pipeline)), folded))
    if prometheus:
        write_whole(prometheus, exposition(every), umask=0o022)  # a scraper is another user
    if not (as_json or html or prometheus):
        section.draw()
