"""`backfill-assets report` and `audit`: the whole lake, and every write of every day, as JSON or as a page.

Not here: gathering (`operations.report`, `operations.writes`) and the page of the lake (`report_page`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from backfill_assets.cli.common import DAY, opened
from backfill_assets.cli.drawing import Page, PageSection, TextTable, remark, write_page
from backfill_assets.cli.output import Output, reporting
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
@reporting("html", "parquet")
def audit(**options: Any) -> Output:
    """Every write: who, when, why, plan and chunk, code, input versions, rows and fingerprints before and after.

    Read from the logs at every call. No JVM.
    """
    lake, pipeline = opened()
    found = audit_of(lake, pipeline, **options)
    if options["plan"] and not found:
        find_plan(lake, options["plan"])  # raises for a mistyped one; the file of one that wrote may be gone
    rows = [_row(list(days)) for _, days in groupby(found, lambda w: (w.at, w.table, w.version))]
    more = f"and {len(rows) - SHOWN} more: see --json, or ask with --since, --table, --day, --plan"
    shown = PageSection("Writes", [TextTable(COLUMNS, rows[:SHOWN])], [more] if len(rows) > SHOWN else [])
    writes = PageSection("Writes, newest first", [TextTable(COLUMNS, rows)])
    page = Page("audit", "Audit", lake.address, [writes], [f"{len(found)} writes of days"])
    return Output(
        found, [shown] if rows else [partial(remark, "No write is like that.")],
        files={"html": partial(write_page, page=page), "parquet": partial(_write_parquet, found=found)},
    )  # fmt: skip


def _write_parquet(file: Path, found: Sequence[DayAudit]) -> None:
    remark(f"wrote {file}: {write_parquet(DayAudit, found, file)} rows")


def _row(days: list[DayAudit]) -> tuple[object, ...]:
    """Return the cells of one commit."""
    first = days[0]
    spans = contiguous(d.day for d in days if d.day is not None)
    changed, before, rows = (sum(getattr(d, name) or 0 for d in days) for name in ("changed", "rows_before", "rows"))
    chunk = f" chunk {first.chunk}" if first.chunk else ""
    head = (first.at, first.table, str(first.version), spans or "?", changed, before, rows)
    return *head, first.by, first.reason, first.plan + chunk, first.run_id[:8], first.note


@click.command()
@reporting("html", "prometheus")
def report() -> Output:
    """States of all days, what landed, lateness, durations, checks, runs and writes; by default metrics, as a table.

    No JVM starts.
    """
    from backfill_assets.operations.report import report as report_of

    (lake, pipeline), asked = opened(), click.get_current_context().params
    lake_report = report_of(lake, pipeline, utc_now(), with_checks=bool(asked["as_json"] or asked["html"]))

    from backfill_assets.cli.dagster_home import instance_of, silenced
    from backfill_assets.orchestration.history import runs_of

    with silenced(), instance_of(lake) as instance:
        runs = runs_of(instance, lake.address)
    from backfill_assets.cli.lateness import lateness_gauges
    from backfill_assets.cli.metrics import OF_LATENESS, metrics_section, report_gauges, write_metrics

    found = list(report_gauges(lake, lake_report, runs))
    every = [*found, *(lateness_gauges(lake_report.lateness) if lake_report.lateness else ())]
    section = metrics_section(g for g in every if g in found or g[0] in OF_LATENESS)

    def write_report(file: Path) -> None:
        from backfill_assets.cli.checks import drift_sections
        from backfill_assets.cli.report_page import page
        from backfill_assets.operations.drift import measure_drift

        folded = replace(section, tables=(), folded=[replace(t, title="every metric") for t in section.tables])
        write_page(file, page(lake_report, runs, *drift_sections(measure_drift(lake, pipeline)), folded))

    metrics = {"dagster": {"runs": runs}, "metrics": {name: v for name, _, _, v in every}}
    return Output(
        {**vars(lake_report), **metrics}, [section],
        files={"html": write_report, "prometheus": partial(write_metrics, gauges=every)},
    )  # fmt: skip
