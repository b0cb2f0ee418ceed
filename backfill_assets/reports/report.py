"""The report of a lake, and its writes: commits with durations, and an audit of every write of
every day.

Not here: its other parts (`status`, `lateness`, `check_history`), the history of one day (`show`),
the runs that Dagster keeps (`dagster.adapter.history`), and the page (`reports.report_page`). No
JVM, no Dagster.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from statistics import quantiles
from typing import Annotated, Any

from backfill_assets.compare.proofs import Proof, proofs
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, contiguous
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ownership import BY
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.log.log import Commit
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.account import (
    Account,
    Repeats,
    accounts,
    repeats_of,
    sum_of_accounts,
)
from backfill_assets.reading.readable import readable
from backfill_assets.reading.rejected import NEWEST_DAYS, refused_rows
from backfill_assets.reconcile.outcomes import ControlOutcome, last_outcomes
from backfill_assets.reports.check_history import CheckHistory, check_history
from backfill_assets.reports.lateness import LatenessReport, LatenessScope, lateness_of
from backfill_assets.reports.status import StatusReport, status_of, with_unread
from backfill_assets.upkeep.inspection import inspect

# Enough that one slow write does not decide, few enough that a change shows within days.
NEWEST_WRITES = 10
ASKED_BY = (
    "dagster/sensor_name",
    "dagster/schedule_name",
)  # tags of receipts of runs that Dagster requested
FOREIGN = "a program that leaves no receipt"


@dataclass(frozen=True)
class TableWrite:
    """One commit with a receipt: a row of `report` and of `system.writes`."""

    table: Annotated[str, "the table"]
    version: Annotated[int, "the table's version that the commit made"]
    at: Annotated[datetime, "when it was committed"]
    days: Annotated[tuple[DayRange, ...], "the days it wrote, as ranges with both ends"]
    rows: Annotated[int, "the rows of these days after it"]
    reason: Annotated[str, "why: manual, landing, late_data, plan, rollback, …"]
    note: Annotated[str, "what a person wrote down with it"]
    run_id: Annotated[str, "the run of Dagster, or of a command"]
    seconds: Annotated[float | None, "from the request to the commit; NULL where nobody measured"]
    work_seconds: Annotated[float, "of these after an engine was open"] = 0.0
    bytes: Annotated[int | None, "of the data files that it added; NULL where nobody measured"] = (
        None
    )


@dataclass(frozen=True)
class Durations:
    """Seconds of the measured writes of one table."""

    table: str
    writes: int  # how many were measured
    median_s: float
    p95_s: float
    greatest_s: float
    seconds_per_day: float  # their total divided by the days they wrote
    rows_per_second: float | None = None  # of the newest writes (NEWEST_WRITES)
    bytes_per_second: float | None = None  # of the newest writes
    # Rows per second divided by the same of as many writes before; None: there are none.
    trend: float | None = None


def writes(lake: Lake, pipeline: Pipeline) -> tuple[TableWrite, ...]:
    """Return every commit with a receipt that names days, of every table of the pipeline, newest
    first."""
    listed = []
    for table in pipeline.tables:
        for commit in lake.store.commits(table.name):
            receipt = commit.receipt
            if receipt is not None and receipt.days:
                days, rows = (
                    tuple(contiguous(receipt.days)),
                    sum(entry.rows for entry in receipt.days.values()),
                )
                listed.append(
                    TableWrite(
                        table.name,
                        commit.version,
                        commit.at,
                        days,
                        rows,
                        receipt.reason,
                        receipt.note,
                        receipt.run_id,
                        receipt.seconds,
                        receipt.work_seconds,
                        receipt.bytes,
                    )
                )
    return tuple(sorted(listed, key=lambda w: (w.at, w.table, w.version), reverse=True))


def durations(all_writes: Iterable[TableWrite], tables: Sequence[str]) -> tuple[Durations, ...]:
    """Return the durations of measured writes per table, in their order; tables without one are
    left out.

    The 95th percentile interpolates between the writes there are (`statistics.quantiles`,
    inclusive).
    """
    measured, counted = [(w, w.seconds) for w in all_writes if w.seconds is not None], []
    for table in tables:
        own = [w for w, _ in measured if w.table == table]
        seconds = [s for w, s in measured if w.table == table]
        if seconds:
            days = sum(sum(map(len, w.days)) for w in own)
            cuts = quantiles(
                seconds * 2 if len(seconds) == 1 else seconds, n=100, method="inclusive"
            )
            newest, before = own[:NEWEST_WRITES], own[NEWEST_WRITES : 2 * NEWEST_WRITES]
            rows, past = _rate((w.rows, w) for w in newest), _rate((w.rows, w) for w in before)
            rates = (
                rows,
                _rate((w.bytes, w) for w in newest),
                rows / past if rows is not None and past else None,
            )
            of_all = (cuts[49], cuts[94], max(seconds), sum(seconds) / days)
            counted.append(Durations(table, len(seconds), *of_all, *rates))
    return tuple(counted)


def _rate(amounts: Iterable[tuple[int | None, TableWrite]]) -> float | None:
    """Amounts per second of work; None where neither was measured."""
    known = [(n, w.work_seconds) for n, w in amounts if n is not None and w.work_seconds]
    return sum(n for n, _ in known) / sum(s for _, s in known) if known else None


@dataclass(frozen=True)
class DayAudit:
    """One write of one day: a row of `audit` and of `system.day_writes`."""

    table: Annotated[str, "the table"]
    day: Annotated[date | None, "the day; NULL for a commit without a receipt"]
    version: Annotated[int, "the table's version that the commit made"]
    at: Annotated[datetime, "when it was committed"]
    by: Annotated[str, "who asked for it: a person, a sensor, a schedule"]
    reason: Annotated[str, "why: manual, landing, late_data, plan, rollback, …"]
    note: Annotated[str, "what a person wrote down with it"] = ""
    plan: Annotated[str, "the plan that it belongs to"] = ""
    chunk: Annotated[str, "the chunk of that plan"] = ""
    run_id: Annotated[str, "the run of Dagster, or of a command"] = ""
    code: Annotated[str, "the digest of the code that made it"] = ""
    settings: Annotated[str, "the digest of the settings that the table reads"] = ""
    inputs: Annotated[str, "the versions of its inputs"] = ""
    built: Annotated[str, "complete, incomplete, pending, held or merged"] = ""
    rows_before: Annotated[int | None, "rows before; NULL for the first receipt of a day"] = None
    rows: Annotated[int | None, "rows after"] = None
    fingerprint_before: Annotated[
        str | None, "content before; NULL for the first receipt of a day"
    ] = None
    fingerprint: Annotated[str | None, "content after"] = None
    changed: Annotated[bool, "its rows differ, or nobody knows that they are the same"] = True


def audit(
    lake: Lake,
    pipeline: Pipeline,
    table: str = "",
    day: date | None = None,
    plan: str = "",
    since: date | None = None,
) -> tuple[DayAudit, ...]:
    """Return the writes, newest first, of one `table`, `day` or `plan` ("" or None: of all),
    committed on the day `since` or later. No JVM, no data file is read. Raises BackfillError for an
    unknown table."""
    contracts = (
        [pipeline.contract(table, "There is nothing to show")] if table else pipeline.contracts
    )
    chosen = [
        write
        for contract in contracts
        for write in _audits_of_table(lake, contract)
        if day in (None, write.day)
        and plan in ("", write.plan)
        and (since is None or write.at.date() >= since)
    ]
    return tuple(
        sorted(chosen, key=lambda w: (w.at, w.table, w.version, w.day or date.min), reverse=True)
    )


def _audits_of_table(lake: Lake, contract: Contract) -> Iterator[DayAudit]:
    table, commits = contract.name, list(lake.store.commits(contract.name))
    foreign = inspect(lake, contract).foreign if any(c.receipt is None for c in commits) else ()
    last: dict[date, DayEntry] = {}
    for commit in commits:
        if commit.receipt is not None:
            yield from _audits_of_receipt(table, commit, commit.receipt, last)
            last.update(commit.receipt.days)
        elif commit.version in foreign:
            yield DayAudit(table, None, commit.version, commit.at, FOREIGN, commit.operation)


def _audits_of_receipt(
    table: str, commit: Commit, receipt: Receipt, last: dict[date, DayEntry]
) -> Iterator[DayAudit]:
    requester, person = (
        next((receipt.tags[k] for k in ASKED_BY if k in receipt.tags), ""),
        receipt.tags.get(BY, ""),
    )
    for day, entry in receipt.days.items():
        before = last.get(day)
        yield DayAudit(
            table=table,
            day=day,
            version=commit.version,
            at=commit.at,
            by=f"{requester} ({person})" if requester and person else requester or person,
            reason=receipt.reason,
            note=receipt.note,
            plan=receipt.tags.get(PLAN_TAG, ""),
            chunk=receipt.tags.get(CHUNK_TAG, ""),
            run_id=receipt.run_id,
            code=receipt.code_digest,
            settings=receipt.settings_digest,
            inputs=", ".join(
                f"{name} v{version}" for name, version in sorted(receipt.inputs.items())
            ),
            built=entry.built.value,
            rows_before=before.rows if before else None,
            rows=entry.rows,
            fingerprint_before=before.fingerprint if before else None,
            fingerprint=entry.fingerprint,
            changed=before is None or before.content != entry.content,
        )


@dataclass(frozen=True)
class Delivered:
    """Landed files and the account of their rows."""

    account: Account
    quarantine: Mapping[str, int]  # rows by reason, the most frequent first
    # the same per source, where a lake has several; the other fields are then sums
    sources: Mapping[str, "Delivered"] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=Repeats)  # among the rows of the NEWEST_DAYS

    def to_dict(self) -> dict[str, Any]:
        """Return the account as JSON values."""
        each = {"sources": json_of(self.sources)} if self.sources else {}
        repeated = {f"{kind}_repeats_per_1000": n for kind, n in self.repeats.per_1000.items()}
        return {**self.account.to_dict(), **repeated, "quarantine": dict(self.quarantine), **each}


@dataclass(frozen=True)
class LakeReport:
    """Everything that is reported of a lake."""

    made_at: datetime  # by the clock
    status: StatusReport
    delivered: Delivered
    lateness: LatenessReport | None  # None: nothing is loaded
    durations: tuple[Durations, ...]
    writes: tuple[TableWrite, ...]
    controls: tuple[ControlOutcome, ...] = ()  # the newest outcomes
    checks: tuple[CheckHistory, ...] = ()
    proofs: tuple[Proof, ...] = ()


def report(
    lake: Lake, pipeline: Pipeline, now: datetime, *, with_checks: bool = True
) -> LakeReport:
    """Return the report of the lake; `now` is the clock (aware). All parts share one state of the
    lake.

    `with_checks`: judge every written day again, too.
    """
    known, unread = readable(lake, pipeline)
    states = known.states(read_view(lake, known.contracts))
    try:
        late = lateness_of(
            lake, states, LatenessScope(share=lake.settings.lateness.watermark_share), now
        )
    except BackfillError:
        late = None  # nothing is loaded, which the rest of the report says
    written = writes(lake, known)
    took = durations(written, [t.name for t in known.tables])
    checks = check_history(lake, states) if with_checks else ()
    status = with_unread(status_of(lake, states), unread)
    landed, controls = delivered(lake, states), tuple(last_outcomes(lake))
    return LakeReport(
        now, status, landed, late, took, written, controls, checks, tuple(proofs(lake))
    )


def delivered(lake: Lake, states: States) -> Delivered:
    """Return the account of all landed rows that were not withdrawn, with reasons of quarantine;
    per source, too."""
    account_of = accounts(lake, states.view)
    each = {
        s.name: Delivered(
            account_of[s.table],
            refused_rows(lake, s.name),
            repeats=repeats_of(lake, states, s, NEWEST_DAYS),
        )
        for s in states.view.sources.values()
    }
    if len(each) == 1:
        return next(iter(each.values()))
    refused = sum((Counter(one.quarantine) for one in each.values()), Counter[str]())
    found = sum((one.repeats for one in each.values()), Repeats())
    return Delivered(sum_of_accounts(account_of.values()), dict(refused.most_common()), each, found)
