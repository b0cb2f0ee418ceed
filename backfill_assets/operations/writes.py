"""The writes of a lake from its receipts: a list of commits with durations, and an audit of every write of every day.

Elsewhere: the history of one day (`show`), data files (`lake.audit`), runs of Dagster that wrote nothing
(`orchestration.history`). Logs are read at every call: they are the only truth.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from statistics import quantiles
from typing import Any

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import DayRange, contiguous
from backfill_assets.core.ownership import BY
from backfill_assets.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.lake.home import Lake
from backfill_assets.lake.inspection import inspect
from backfill_assets.lake.log import Commit
from backfill_assets.lake.model import Pipeline

ASKED_BY = ("dagster/sensor_name", "dagster/schedule_name")  # tags of receipts of runs that Dagster requested
FOREIGN = "a program that leaves no receipt"


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


@dataclass(frozen=True)
class DayAudit:
    """One write of one day. `day` is None for a commit without a receipt; `rows_before` and `fingerprint_before` are
    None for the first receipt of a day. `at` is aware. `changed`: its rows differ, or are not known to be the same."""

    table: str
    day: date | None
    version: int
    at: datetime
    by: str
    reason: str
    note: str = ""
    plan: str = ""
    chunk: str = ""
    run_id: str = ""
    code: str = ""
    settings: str = ""
    inputs: str = ""
    built: str = ""
    rows_before: int | None = None
    rows: int | None = None
    fingerprint_before: str | None = None
    fingerprint: str | None = None
    changed: bool = True


@dataclass(frozen=True)
class AuditRequest:
    """Which writes: of one `table`, one `day`, one `plan` ("" or None: of all), and committed on or after `since`."""

    table: str = ""
    day: date | None = None
    plan: str = ""
    since: date | None = None


def audit(lake: Lake, pipeline: Pipeline, asked: AuditRequest = AuditRequest()) -> tuple[DayAudit, ...]:
    """The selected writes, newest first. No JVM, no data file is read. Raises BackfillError for an unknown table."""
    if asked.table:
        pipeline.contract(asked.table, "There is nothing to show")
    found = [
        write
        for contract in pipeline.contracts
        if asked.table in ("", contract.name)
        for write in _of_table(lake, contract)
        if _is_asked(write, asked)
    ]
    return tuple(sorted(found, key=lambda w: (w.at, w.table, w.version, w.day or date.min), reverse=True))


def _is_asked(write: DayAudit, asked: AuditRequest) -> bool:
    return (
        asked.day in (None, write.day)
        and asked.plan in ("", write.plan)
        and (asked.since is None or write.at.date() >= asked.since)
    )


def _of_table(lake: Lake, contract: Contract) -> Iterator[DayAudit]:
    foreign: set[int] | None = None
    last: dict[date, DayEntry] = {}
    for commit in lake.store.commits(contract.name):
        if commit.receipt is not None:
            yield from _of_receipt(contract.name, commit, commit.receipt, last)
            last.update(commit.receipt.days)
            continue
        if foreign is None:
            foreign = set(inspect(lake, contract).foreign)
        if commit.version in foreign:
            yield DayAudit(contract.name, None, commit.version, commit.at, FOREIGN, commit.operation)


def _of_receipt(table: str, commit: Commit, said: Receipt, last: dict[date, DayEntry]) -> Iterator[DayAudit]:
    by = _who(said)
    inputs = ", ".join(f"{name} v{version}" for name, version in sorted(said.inputs.items()))
    for day, entry in said.days.items():
        before = last.get(day)
        yield DayAudit(
            table, day, commit.version, commit.at, by, said.reason, said.note, said.tags.get(PLAN_TAG, ""),
            said.tags.get(CHUNK_TAG, ""), said.run_id, said.code_digest, said.settings_digest, inputs,
            entry.built.value, before.rows if before else None, entry.rows,
            before.fingerprint if before else None, entry.fingerprint,
            before is None or before.content != entry.content,
        )  # fmt: skip


def _who(said: Receipt) -> str:
    """The person, or the sensor or schedule with the user of its process; "" in older receipts."""
    asked = next((said.tags[k] for k in ASKED_BY if k in said.tags), "")
    person = said.tags.get(BY, "")
    return f"{asked} ({person})" if asked and person else asked or person


def write_table(found: Iterable[DayAudit], file: Path) -> int:
    """The writes as one Parquet file, for any engine; how many those are. Raises OSError where it cannot be written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = ("table", "by", "reason", "note", "plan", "chunk", "run_id", "code", "settings", "inputs", "built")
    kinds = dict.fromkeys(texts, pa.string()) | {
        "day": pa.date32(), "version": pa.int64(), "at": pa.timestamp("us", "UTC"), "rows_before": pa.int64(),
        "rows": pa.int64(), "fingerprint_before": pa.string(), "fingerprint": pa.string(), "changed": pa.bool_(),
    }  # fmt: skip
    rows = [asdict(write) for write in found]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(kinds.items()))), file)
    return len(rows)
