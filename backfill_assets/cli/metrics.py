"""Metrics of a lake: the numbers of `report` with names and units, in a table and in Prometheus' text format.

Not here: metrics of `lateness`, and computing any of them (`operations.report`, `orchestration.history`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

from backfill_assets.cli.drawing import PageSection, TextTable, write_whole
from backfill_assets.lake.home import Lake
from backfill_assets.operations.reconcile import kept_mismatches
from backfill_assets.operations.rejected import kinds
from backfill_assets.operations.report import LakeReport

if TYPE_CHECKING:
    from backfill_assets.orchestration.history import PastRun

PREFIX = "backfill_assets_"
OTHERS = "other reasons"
REPEATS = {
    "exact": "Rows of the newest week that repeat another one of it but for its delivery, per 1,000.",
    "key": "Rows of the newest week that repeat the key of another one of it, per 1,000.",
}
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


def write_metrics(file: Path, gauges: Iterable[Gauge]) -> None:
    """Write gauges to a file that every user may read, as a scraper is another one."""
    write_whole(file, exposition(gauges), umask=0o022)


def report_gauges(lake: Lake, report: LakeReport, runs: "Sequence[PastRun]") -> Iterator[Gauge]:
    """Yield the metrics of a report, all from what it has computed or from records of commands."""
    sources = report.delivered.sources or {"": report.delivered}
    doubled = {name: source.account.duplicates_per_1000 for name, source in sources.items()}
    yield "duplicates_per_1000_rows", "Deliveries whose number came twice, per 1,000 loaded rows.", "source", doubled
    for kind, meaning in REPEATS.items():
        repeated = {name: source.repeats.per_1000[kind] for name, source in sources.items()}
        yield f"{kind}_repeats_per_1000_rows", meaning, "source", repeated
    late = {name: source.account.too_late for name, source in sources.items()}
    yield "late_rows_in_quarantine", "Rows that came too late and wait for replay-late.", "source", late
    shown, _, more_rows = kinds(report.delivered.quarantine)
    reasons = dict(shown) | ({OTHERS: more_rows} if more_rows else {})
    yield "quarantined_rows", "Rows in quarantine.", "reason", reasons
    yield "reconcile_mismatches", "Mismatches at the newest reconciliation.", "sides", kept_mismatches(lake)
    broken = {c.name: int(not c.holds) for c in report.controls}
    yield "control_broken", "1 for a control that did not hold or could not be judged.", "control", broken
    took = _p95([r.seconds for r in runs if r.seconds is not None])
    yield "run_p95_seconds", "95th percentile of the newest runs, from start to end.", "", took
    queued = _p95([r.queued_seconds for r in runs if r.queued_seconds is not None and r.seconds is not None])
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
