"""`backfill-assets report` and `audit`: the whole lake, and every write of every day, as JSON,
metrics or a page.

Metrics are the numbers of `report` with names and units, in a table and in Prometheus' text format.
Not here: gathering (`reports.report`, `dagster.adapter.history`), the page of the lake
(`report_page`), metrics of `lateness`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any, TypedDict

import click

from backfill_assets.cli.common import DAY, keep_garbage, opened_lake, wants_json
from backfill_assets.cli.drawing import Page, PageSection, TextTable, remark, write_page
from backfill_assets.cli.output import Gauge, Output, Part, reporting_command, write_metrics
from backfill_assets.kernel.core.answers import InstantText
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.days import contiguous_ranges
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.reading.check_history import measure_drift
from backfill_assets.reading.outcomes import recorded_mismatches
from backfill_assets.reading.rejected import reason_kinds
from backfill_assets.reading.system_tables import write_parquet
from backfill_assets.reading.writes import DayAudit
from backfill_assets.reading.writes import day_audits as audit_of
from backfill_assets.reports.checks_command import drift_sections
from backfill_assets.reports.lateness_command import lateness_gauges
from backfill_assets.reports.report import (
    Delivered,
    Durations,
    LakeReport,
    LakeReportForm,
)
from backfill_assets.reports.report import report_of_lake as report_of

if TYPE_CHECKING:
    from backfill_assets.dagster.adapter.history import PastRun

COLUMNS = (
    "at",
    "table",
    "version",
    "days",
    "changed",
    "rows before",
    "rows",
    "by",
    "reason",
    "plan",
    "run",
    "note",
)
SHOWN = 200  # writes on a screen; --json, --html and --parquet have all


AuditAnswer = list[DayAudit]


@click.command()
@click.option("--table", default="", help="Only of this table.")
@click.option("--day", type=DAY, help="Only of this day.")
@click.option(
    "--plan", default="", metavar="ID", help="Only what this plan wrote, put back or released."
)
@click.option("--since", type=DAY, help="Only what was committed on this day (UTC) or later.")
@reporting_command("html", "parquet")
def audit(**options: Any) -> Output:
    """Every write: who, when, why, plan and chunk, code, input versions, rows and fingerprints
    before and after.

    Read from the logs at every call. No JVM.
    """
    lake, pipeline = opened_lake()
    found = audit_of(lake, pipeline, **options)
    find_plan: Callable[[Lake, str], object] | None = offered_function("find_plan")
    if options["plan"] and not found and find_plan is not None:
        find_plan(lake, options["plan"])  # raises for a mistyped one; that of a writer may be gone
    rows = []
    for _, days in groupby(found, lambda day: (day.at, day.table, day.version)):
        rows.append(_commit_cells(list(days)))
    writes = PageSection("Writes, newest first", [TextTable(COLUMNS, rows)])
    page = Page(
        command="audit",
        title="Audit",
        lake=lake.address,
        sections=[writes],
        lines=[f"{len(found)} writes of days"],
    )
    shown: Part = partial(remark, "No write is like that.")
    if rows:
        shown = _newest_writes(rows)
    files: dict[str, Callable[[Path], None]] = {
        "html": partial(write_page, page=page),
        "parquet": partial(_write_parquet, found=found),
    }
    return Output(found, [shown], files=files)


def _newest_writes(rows: Sequence[Sequence[object]]) -> PageSection:
    """Return the section of a screen, with as many writes as one shows."""
    hidden = len(rows) - SHOWN
    more = f"and {hidden} more: see --json, or ask with --since, --table, --day, --plan"
    return PageSection("Writes", [TextTable(COLUMNS, rows[:SHOWN])], [more] if hidden > 0 else [])


def _write_parquet(file: Path, found: Sequence[DayAudit]) -> None:
    remark(f"wrote {file}: {write_parquet(DayAudit, found, file)} rows")


def _commit_cells(days: list[DayAudit]) -> tuple[object, ...]:
    """Return the cells of one commit."""
    first = days[0]
    spans = contiguous_ranges(d.day for d in days if d.day is not None)
    changed = sum(d.changed for d in days)
    before = sum(d.rows_before or 0 for d in days)
    rows = sum(d.rows or 0 for d in days)
    plan = f"{first.plan} chunk {first.chunk}" if first.chunk else first.plan
    head = (first.at, first.table, str(first.version), spans or "?", changed, before, rows)
    return *head, first.by, first.reason, plan, first.run_id[:8], first.note


class PastRunForm(TypedDict):
    """A run as Dagster remembers it; days as text, "": it has none."""

    run_id: str
    job: str
    status: str
    reason: str
    began: InstantText | None
    seconds: float | None
    queued_seconds: float | None
    cause: str
    tables: Sequence[str]
    first: str
    last: str


class DagsterForm(TypedDict):
    """What Dagster remembers."""

    runs: Sequence[PastRunForm]


class ReportAnswer(LakeReportForm):
    """All that is reported of a lake, and its metrics by name and label."""

    dagster: DagsterForm
    metrics: Mapping[str, Mapping[str, float | None]]


@click.command()
@reporting_command("html", "prometheus")
def report() -> Output:
    """States of all days, what landed, lateness, durations, checks, runs and writes; by default
    metrics, as a table.

    No JVM starts.
    """
    keep_garbage()
    lake, pipeline = opened_lake()
    is_page = click.get_current_context().params["html"] is not None
    lake_report = report_of(lake, pipeline, utc_now(), with_checks=wants_json() or is_page)
    runs = _runs_of(lake)
    shown = list(report_gauges(lake, lake_report, runs))
    every = [*shown]
    if lake_report.lateness is not None:
        of_lateness = list(lateness_gauges(lake_report.lateness))
        every += of_lateness
        shown += [gauge for gauge in of_lateness if gauge.name in SHOWN_LATENESS_METRICS]
    section = metrics_section(shown)

    def write_report(file: Path) -> None:
        """Write the page of the lake, with drift and every shown metric at its end."""
        from backfill_assets.reports.report_page import lake_page

        tables = [replace(table, title="every metric") for table in section.tables]
        folded = replace(section, tables=(), folded=tables)
        drifts = drift_sections(measure_drift(lake, pipeline))
        write_page(file, lake_page(lake_report, runs, *drifts, folded))

    values = {gauge.name: gauge.values for gauge in every}
    document = {**vars(lake_report), "dagster": {"runs": runs}, "metrics": values}
    files: dict[str, Callable[[Path], None]] = {
        "html": write_report,
        "prometheus": partial(write_metrics, gauges=every),
    }
    return Output(document, [section], files=files)


def _runs_of(lake: Lake) -> "Sequence[PastRun]":
    """Return the runs that Dagster keeps of a lake, newest first."""
    from backfill_assets.cli.dagster_home import instance_of, silence_dagster
    from backfill_assets.dagster.adapter.history import newest_runs

    with silence_dagster(), instance_of(lake) as instance:
        return newest_runs(instance, lake.address)


OTHER_REASONS = "other reasons"
MEANINGS_OF_REPEATS = {  # by the kind of `Repeats.per_1000`
    "exact": "Rows of the newest week that repeat another one of it but for its delivery, per "
    "1,000.",
    "key": "Rows of the newest week that repeat the key of another one of it, per 1,000.",
}
# Metrics of lateness in the report's table; the others have too many values for it.
SHOWN_LATENESS_METRICS = ("lateness_seconds", "watermark_lag_seconds")


# Metric, meaning, and the attribute of `Durations` that holds its value.
WRITE_METRICS = (
    (
        "write_p95_seconds",
        "95th percentile of a table's writes, from request to commit.",
        "p95_s",
    ),
    (
        "write_rows_per_second",
        "Rows per second of the newest writes, engine start left out.",
        "rows_per_second",
    ),
    (
        "write_bytes_per_second",
        "Bytes per second of the newest writes, engine start left out.",
        "bytes_per_second",
    ),
    (
        "write_rows_per_second_trend_ratio",
        "These rows per second by those of the writes before.",
        "trend",
    ),
)


def report_gauges(lake: Lake, report: LakeReport, runs: "Sequence[PastRun]") -> Iterator[Gauge]:
    """Yield the metrics of a report, all from what it has computed or from records of commands."""
    yield from _delivery_gauges(report.delivered)
    yield from _agreement_gauges(lake, report)
    yield from _run_gauges(runs)
    yield from _write_gauges(report.durations)


def _delivery_gauges(delivered: Delivered) -> Iterator[Gauge]:
    """Yield what `delivered` counts per source, and its rows in quarantine per reason."""
    sources = delivered.sources or {"": delivered}
    doubled = {name: source.account.duplicates_per_1000 for name, source in sources.items()}
    meaning = "Deliveries whose number came twice, per 1,000 loaded rows."
    yield Gauge("duplicates_per_1000_rows", meaning, "source", doubled)
    for kind, meaning in MEANINGS_OF_REPEATS.items():
        repeated = {name: source.repeats.per_1000[kind] for name, source in sources.items()}
        yield Gauge(f"{kind}_repeats_per_1000_rows", meaning, "source", repeated)
    late = {name: source.account.too_late for name, source in sources.items()}
    meaning = "Rows that came too late and wait for replay-late."
    yield Gauge("late_rows_in_quarantine", meaning, "source", late)
    kinds = reason_kinds(delivered.quarantine)
    rows_by_reason = dict(kinds.shown)
    if kinds.more_rows:
        rows_by_reason[OTHER_REASONS] = kinds.more_rows
    yield Gauge("quarantined_rows", "Rows in quarantine.", "reason", rows_by_reason)


def _agreement_gauges(lake: Lake, report: LakeReport) -> Iterator[Gauge]:
    """Yield the mismatches that `lake` has on record, and which controls of `report` fail."""
    meaning = "Mismatches at the newest reconciliation."
    yield Gauge("reconcile_mismatches", meaning, "sides", recorded_mismatches(lake))
    broken = {c.name: int(not c.holds) for c in report.controls}
    meaning = "1 for a control that did not hold or could not be judged."
    yield Gauge("control_broken", meaning, "control", broken)


def _run_gauges(runs: "Sequence[PastRun]") -> Iterator[Gauge]:
    """Yield the times of those `runs` that ended."""
    took, queued = list[float](), list[float]()
    for run in runs:
        if run.seconds is None:
            continue
        took.append(run.seconds)
        if run.queued_seconds is not None:
            queued.append(run.queued_seconds)
    meaning = "95th percentile of the newest runs, from start to end."
    yield Gauge("run_p95_seconds", meaning, "", {"": _p95_of(took)})
    meaning = "95th percentile of their time in the queue, before the start."
    yield Gauge("run_queue_p95_seconds", meaning, "", {"": _p95_of(queued)})


def _write_gauges(durations: Iterable[Durations]) -> Iterator[Gauge]:
    """Yield the metrics `WRITE_METRICS` per table of `durations`."""
    by_table = {d.table: d for d in durations}
    for metric, meaning, attribute in WRITE_METRICS:
        values = {name: getattr(d, attribute) for name, d in by_table.items()}
        yield Gauge(metric, meaning, "table", values)


def _p95_of(seconds: list[float]) -> float | None:
    """Return the 95th percentile of some times, interpolated; None without any."""
    if not seconds:
        return None
    at_least_two = seconds * 2 if len(seconds) == 1 else seconds  # as `quantiles` wants
    return quantiles(at_least_two, n=20, method="inclusive")[-1]


def metrics_section(gauges: Iterable[Gauge]) -> PageSection:
    """Return the known values as a section of the report, a row each: metric, label, value."""
    rows = []
    for gauge in gauges:
        for key, value in gauge.values.items():
            if value is not None:
                text = f"{value:,.3f}".rstrip("0").removesuffix(".")
                rows.append((gauge.name, f"{gauge.label} {key}" if key else "–", text))
    line = (
        "`backfill-assets report --prometheus FILE` writes these, and those of `lateness`, for a "
        "scraper."
    )
    return PageSection("Metrics", [TextTable(("metric", "of", "value"), rows)], [line])
