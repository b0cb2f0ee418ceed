"""Every write of a lake's tables, newest first, and how long writes take.

Lives here: reading receipts as a history over all tables, and durations with their 95th percentile. Does not live
here: the history of one day (`show`) and Dagster's runs (`orchestration.history`), which also know of work that wrote
nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from statistics import quantiles
from typing import Any

from backfill_assets.core.days import DayRange, contiguous
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.store import Commit


@dataclass(frozen=True)
class TableWrite:
    """One commit with a receipt: when (aware), which days with how many rows now, why, by whom, in how many seconds."""

    table: str
    version: int
    at: datetime
    days: tuple[date, ...]
    rows: int
    reason: str
    note: str
    run_id: str
    seconds: float | None

    @property
    def ranges(self) -> tuple[DayRange, ...]:
        """Its days as ranges, ascending."""
        return tuple(contiguous(self.days))

    def to_dict(self) -> dict[str, Any]:
        """The write as JSON values; days as ranges, both ends included."""
        return {
            "table": self.table, "version": self.version, "at": self.at.isoformat(), "rows": self.rows,
            "days": [{"from": str(r.start), "to": str(r.last)} for r in self.ranges], "reason": self.reason,
            "note": self.note, "run_id": self.run_id, "seconds": self.seconds,
        }  # fmt: skip


@dataclass(frozen=True)
class Durations:
    """Seconds of the writes of one table: how many were measured, their median, 95th percentile and maximum.

    `per_day` is their total, divided by the days they wrote.
    """

    table: str
    writes: int
    median: float
    p95: float
    greatest: float
    per_day: float

    def to_dict(self) -> dict[str, Any]:
        """The durations as JSON values, in seconds."""
        return {
            "table": self.table, "writes": self.writes, "median_s": self.median, "p95_s": self.p95,
            "greatest_s": self.greatest, "seconds_per_day": self.per_day,
        }  # fmt: skip


def writes(lake: Lake, pipeline: Pipeline) -> tuple[TableWrite, ...]:
    """Every commit with a receipt that names days, of every table of the pipeline, newest first."""
    found = [
        _written(table.name, commit)
        for table in pipeline.tables
        for commit in lake.store.commits(table.name)
        if commit.receipt is not None and commit.receipt.days
    ]
    return tuple(sorted(found, key=lambda w: (w.at, w.table, w.version), reverse=True))


def _written(table: str, commit: Commit) -> TableWrite:
    said = commit.receipt
    if said is None:
        raise ValueError(f"version {commit.version} has no receipt")
    return TableWrite(
        table,
        commit.version,
        commit.at,
        tuple(sorted(said.days)),
        sum(entry.rows for entry in said.days.values()),
        said.reason,
        said.note,
        said.run_id,
        said.seconds,
    )


def durations(found: Iterable[TableWrite], tables: Sequence[str]) -> tuple[Durations, ...]:
    """Per table, in their order, what its measured writes took; tables without one are left out.

    The 95th percentile interpolates between the writes there are (`statistics.quantiles`, inclusive): it is never
    beyond the greatest.
    """
    measured = [(w.table, w.seconds, len(w.days)) for w in found if w.seconds is not None]
    told = []
    for table in tables:
        seconds = [s for name, s, _ in measured if name == table]
        if seconds:
            days = sum(n for name, _, n in measured if name == table)
            told.append(
                Durations(table, len(seconds), _at(seconds, 50), _at(seconds, 95), max(seconds), sum(seconds) / days)
            )
    return tuple(told)


def _at(values: Sequence[float], percent: int) -> float:
    return values[0] if len(values) == 1 else quantiles(values, n=100, method="inclusive")[percent - 1]
