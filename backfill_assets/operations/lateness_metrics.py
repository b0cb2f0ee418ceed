"""The lateness report in the text format of Prometheus, which the node exporter's textfile collector reads, too.

Units are in the names: seconds, ratios 0..1, rows; instants are seconds since 1970. Not here: measuring
(`operations.lateness`) and writing the file (`cli.lateness`).
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.days import end_of
from backfill_assets.core.lateness import Watermark, told
from backfill_assets.operations.lateness import LatenessReport

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PREFIX = "backfill_assets_"


def prometheus(report: LatenessReport) -> str:
    """Write the report in Prometheus' text exposition format 0.0.4. An unknown value has no sample."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    _rows(registry, report)
    _shares(registry, report)
    _watermarks(registry, report.watermarks)
    if report.frontier:
        frontier = {"": report.frontier.timestamp()}
        _gauge(
            registry, "frontier_timestamp_seconds", "The instant up to which all that landed is loaded.", "", frontier
        )
    return generate_latest(registry).decode("utf-8")


def _rows(registry: "CollectorRegistry", report: LatenessReport) -> None:
    counted = {
        "upsert": report.rows, "late": report.late, "early": report.early, "delete": report.deletes,
    }  # fmt: skip
    told_as = "Loaded deliveries: upserts, of these late (on a later day, UTC) and early ones, and deletes."
    _gauge(registry, "lateness_rows", told_as, "kind", counted)
    if report.overall:
        spread = report.overall
        quantiles = {
            "0": spread.least_s, "0.5": spread.p50_s, "0.9": spread.p90_s, "0.99": spread.p99_s,
            "1": spread.greatest_s,
        }  # fmt: skip
        _gauge(registry, "lateness_seconds", "Arrival minus event time of upserts; exact.", "quantile", quantiles)
    if report.flips is not None:
        labels = {str(f.maturity_days): f.labels for f in report.flips}
        flipped = {str(f.maturity_days): f.flipped for f in report.flips}
        _gauge(registry, "mature_labels", "Labels mature at the instant asked about.", "maturity_days", labels)
        _gauge(registry, "flipped_labels", "Of these, labels that differ as known now.", "maturity_days", flipped)


def _shares(registry: "CollectorRegistry", report: LatenessReport) -> None:
    arrived = {str(a.age_days): a.share for a in told(report.completeness)}
    _gauge(registry, "completeness_ratio", "Share of a day's rows that has arrived by an age.", "age_days", arrived)
    missed = {str(a.days): a.share for a in report.advice}
    _gauge(registry, "look_back_missed_ratio", "Share of rows that a look-back would have missed.", "days", missed)
    wanted = {f"{report.asked.share:g}": report.look_back_days}
    _gauge(registry, "look_back_days", "Smallest look-back that sees the wanted share.", "share", wanted)


def _watermarks(registry: "CollectorRegistry", marks: Iterable[Watermark]) -> None:
    newest, reached, lag, clock_lag = {}, {}, {}, {}
    for mark in marks:
        newest[mark.table], reached[mark.table] = _end(mark.newest_day), _end(mark.day)
        lag[mark.table] = mark.lag.total_seconds() if mark.lag is not None else None
        clock_lag[mark.table] = mark.clock_lag.total_seconds() if mark.clock_lag is not None else None
    for name, told_as, values in (
        ("newest_day_timestamp_seconds", "End of the newest day that is built and not pending.", newest),
        ("watermark_timestamp_seconds", "End of the watermark day.", reached),
        ("watermark_lag_seconds", "Frontier minus the end of the watermark day.", lag),
        ("watermark_clock_lag_seconds", "Clock minus the end of the watermark day, when this was written.", clock_lag),
    ):
        _gauge(registry, name, told_as, "table", values)


def _end(day: date | None) -> float | None:
    return end_of(day).timestamp() if day else None


def _gauge(
    registry: "CollectorRegistry", name: str, told_as: str, label: str, values: Mapping[str, float | None]
) -> None:
    from prometheus_client import Gauge

    known = {key: value for key, value in values.items() if value is not None}
    if known:
        gauge = Gauge(PREFIX + name, told_as, [label] if label else [], registry=registry)
        for key, value in known.items():
            (gauge.labels(key) if label else gauge).set(value)
