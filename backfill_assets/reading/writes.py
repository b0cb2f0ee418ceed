"""Every write of a lake's tables, and every write of a day, by the receipts in its logs.

Not here: figures over them (`reports.report`).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges
from backfill_assets.kernel.core.ownership import BY
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.log.log import Commit
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline

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


def table_writes(lake: Lake, pipeline: Pipeline) -> tuple[TableWrite, ...]:
    """Return every commit with a receipt that names days, of every table of the pipeline, newest
    first."""
    listed = []
    for table in pipeline.tables:
        for commit in lake.store.commits(table.name):
            receipt = commit.receipt
            if receipt is None or not receipt.days:
                continue
            listed.append(
                TableWrite(
                    table.name,
                    commit.version,
                    commit.at,
                    days=tuple(contiguous_ranges(receipt.days)),
                    rows=sum(entry.rows for entry in receipt.days.values()),
                    reason=receipt.reason,
                    note=receipt.note,
                    run_id=receipt.run_id,
                    seconds=receipt.seconds,
                    work_seconds=receipt.work_seconds,
                    bytes=receipt.bytes,
                )
            )
    return tuple(sorted(listed, key=lambda w: (w.at, w.table, w.version), reverse=True))


@dataclass(frozen=True)
class DayAudit:
    """One write of one day: a row of `day_audits` and of `system.day_writes`."""

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


def day_audits(
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
    contracts = pipeline.contracts
    if table:
        contracts = (pipeline.contract(table, "There is nothing to show"),)
    chosen = []
    for contract in contracts:
        for write in _audits_of_table(lake, contract):
            is_asked_for = day in (None, write.day) and plan in ("", write.plan)
            is_recent = since is None or write.at.date() >= since
            if is_asked_for and is_recent:
                chosen.append(write)
    return tuple(
        sorted(chosen, key=lambda w: (w.at, w.table, w.version, w.day or date.min), reverse=True)
    )


def _audits_of_table(lake: Lake, contract: Contract) -> Iterator[DayAudit]:
    """Yield the audits of all commits of a table, oldest first."""
    table, commits = contract.name, list(lake.store.commits(contract.name))
    foreign = _foreign_versions(lake, contract, commits)
    last: dict[date, DayEntry] = {}
    for commit in commits:
        if commit.receipt is not None:
            yield from _audits_of_receipt(table, commit, commit.receipt, last)
            last.update(commit.receipt.days)
        elif commit.version in foreign:
            yield DayAudit(
                table=table,
                day=None,
                version=commit.version,
                at=commit.at,
                by=FOREIGN,
                reason=commit.operation,
            )


def _foreign_versions(lake: Lake, contract: Contract, commits: Sequence[Commit]) -> Collection[int]:
    """Return the versions that other programs committed; none where no room inspects logs."""
    inspect_log: Callable[[Lake, Contract], Any] | None = offered_function("inspect_log")
    is_touched = any(commit.receipt is None for commit in commits)
    if inspect_log is None or not is_touched:
        return ()
    versions: Collection[int] = inspect_log(lake, contract).foreign
    return versions


def _audits_of_receipt(
    table: str, commit: Commit, receipt: Receipt, last: dict[date, DayEntry]
) -> Iterator[DayAudit]:
    """Yield the audit of each day of a commit; `last`: the entries that the days had before it."""
    inputs = ", ".join(f"{name} v{version}" for name, version in sorted(receipt.inputs.items()))
    by = _requester(receipt)
    for day, entry in receipt.days.items():
        before = last.get(day)
        yield DayAudit(
            table=table,
            day=day,
            version=commit.version,
            at=commit.at,
            by=by,
            reason=receipt.reason,
            note=receipt.note,
            plan=receipt.tags.get(PLAN_TAG, ""),
            chunk=receipt.tags.get(CHUNK_TAG, ""),
            run_id=receipt.run_id,
            code=receipt.code_digest,
            settings=receipt.settings_digest,
            inputs=inputs,
            built=entry.built.value,
            rows_before=before.rows if before else None,
            rows=entry.rows,
            fingerprint_before=before.fingerprint if before else None,
            fingerprint=entry.fingerprint,
            changed=before is None or before.content != entry.content,
        )


def _requester(receipt: Receipt) -> str:
    """Return who asked for a write: a sensor or a schedule, the person behind it in brackets."""
    requester = next((receipt.tags[key] for key in ASKED_BY if key in receipt.tags), "")
    person = receipt.tags.get(BY, "")
    if requester and person:
        return f"{requester} ({person})"
    return requester or person
