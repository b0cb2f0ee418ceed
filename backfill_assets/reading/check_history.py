"""Written days judged again by their receipts: the checks under the gates of today, and drift
against what is usual.

No data file is read. A column's drift is measured where receipts hold its histogram: numbers, yes
or no, texts with few values; NULL counts as a value. Not here: the gates (`kernel.write.gates`),
judging a day (`kernel.write.judging`), and the statistic with its buckets (`kernel.core.profiles`).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, is_mature
from backfill_assets.kernel.core.errors import refuse_unknown
from backfill_assets.kernel.core.profiles import (
    BROKEN,
    LARGE_DRIFT,
    NULL_BUCKET,
    TRAILING_DAYS,
    Finding,
    Histogram,
    counted_histograms,
    counted_nulls,
    drift,
    largest_shift,
    pooled,
    recurs,
    with_warning,
)
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.gates import MAX_DRIFT, PROFILE, gates_of
from backfill_assets.kernel.write.judging import judged_by_receipts
from backfill_assets.kernel.write.model import Pipeline

MOST_WARNINGS = 5  # in one line
OTHER_ROWS = "the same inputs, code and settings gave other rows before"


@dataclass(frozen=True)
class CheckHistory:
    """One check of one table."""

    table: str
    check: str
    days: int  # written days that it judged
    found: tuple[Finding, ...]  # findings on days that do not pass

    @property
    def failed(self) -> int:
        """Return the days that the gates of today would refuse."""
        return sum(f.refuses for f in self.found)

    @property
    def warned(self) -> int:
        """Return the days that only warn."""
        return len(self.found) - self.failed

    def to_dict(self) -> dict[str, Any]:
        """Return the history as JSON values."""
        counts = {
            "passed": self.days - len(self.found),
            "warned": self.warned,
            "failed": self.failed,
        }
        found = [{"day": f.day, "failed": f.refuses, "what": f.message} for f in self.found]
        return {"table": self.table, "check": self.check, **counts, "found": json_of(found)}


def check_history(lake: Lake, states: States) -> tuple[CheckHistory, ...]:
    """Return the history of every check of every table. Reads receipts only."""
    judged = (
        (name, gate, found)
        for name in states.contracts
        for gate, found in _judged(lake, states, name)
    )
    return tuple(
        CheckHistory(name, gate, len(found), tuple(f for f in found if not f.passed))
        for name, gate, found in judged
    )


def checked_days(lake: Lake, states: States) -> Iterator[tuple[str, Finding]]:
    """Yield (table, verdict) of every check on every written day. Reads receipts only."""
    return (
        (name, f)
        for name in states.contracts
        for _, found in _judged(lake, states, name)
        for f in found
    )


def _judged(lake: Lake, states: States, table: str) -> Iterator[tuple[str, list[Finding]]]:
    """Yield each gate of a table with its verdicts on the written days."""
    contract = states.contracts[table]
    findings = judged_days(lake, states, contract, states.view.table(table).latest)
    yield from (
        (gate.name, [f for f in findings if f.check == gate.name]) for gate in gates_of(contract)
    )


def judged_days(
    lake: Lake, states: States, contract: Contract, days: Collection[date]
) -> list[Finding]:
    """Return the findings of today's gates on written days, by their receipts: the profile of one
    that got other rows from the same inputs, code and settings does not pass."""
    latest = states.view.table(contract.name).latest
    judged = judged_by_receipts(lake.settings, states, contract, sorted(days)) if days else {}
    found = (finding for of_day in judged.values() for finding in of_day)
    return [
        with_warning(f, OTHER_ROWS) if f.check == PROFILE and latest[f.day].irreproducible else f
        for f in found
    ]


def warnings(lake: Lake, states: States, days: Mapping[str, Collection[date]]) -> str:
    """Return one line with what today's checks find on these `days` of tables, as far as they are
    written, what is on most days first; empty where they find nothing. Reads receipts only."""
    found = Counter[str]()
    for name, wanted in days.items():
        written = sorted(set(wanted) & states.view.table(name).latest.keys())
        for findings in judged_by_receipts(
            lake.settings, states, states.contracts[name], written
        ).values():
            found.update(
                cause
                for finding in findings
                if not finding.passed
                for cause in _causes(finding, name)
            )
    shown = [f"{cause} on {n} day{'s' * (n > 1)}" for cause, n in found.most_common(MOST_WARNINGS)]
    more = f", and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    return (
        f"warnings: {', '.join(shown)}{more}; `backfill-assets report --html FILE` names the days"
        if shown
        else ""
    )


def _causes(finding: Finding, table: str) -> list[str]:
    """Return short names of what a gate found in a day of the table: rules, columns, else the
    gate."""
    rules = [
        f"{table}.{name.removeprefix(BROKEN)}"
        for name, n in finding.facts.items()
        if name.startswith(BROKEN) and n
    ]
    columns = [bound.rpartition(".") for bound in finding.bounds]
    words = [
        f"{'drift of' if kind == MAX_DRIFT else 'NULLs in'} {table}.{column}"
        for column, _, kind in columns
    ]
    return [*rules, *words] or [f"{finding.check} of {table}"]


WEEK, WEEKS = 7, 4
NEEDED_DAYS = 7  # earlier days with rows, for the trailing window to say anything
NEEDED_WEEKS = 3


@dataclass(frozen=True)
class ColumnDrift:
    """One column of one day, as its population stability index against three others. None: nothing
    to compare with.

    A weekend differs from the days before it, and a weekday from one that was off: each alone is no
    finding.
    """

    table: str
    column: str
    day: date
    rows: int
    trailing: float | None  # against the 28 days before
    weekday: float | None  # against the same weekday of the last four weeks
    before: float | None  # against the day's rows before its newest write
    # By how much both `trailing` and `weekday`, or `before`, exceed 0.25 plus chance; else 0.0.
    excess: float
    moved: str = ""  # the value or range that moved most, where the day is off
    is_judged: bool = True  # there are enough rows to compare that chance alone does not reach 0.25


@dataclass(frozen=True)
class DriftReport:
    """Every compared column and day, the largest deviations first."""

    found: tuple[ColumnDrift, ...]

    @property
    def off(self) -> list[ColumnDrift]:
        """Return the columns and days beyond 0.25 plus chance, the largest first."""
        return [d for d in self.found if d.excess > 0]

    @property
    def unjudged(self) -> int:
        """Return the number of columns of days with too few earlier days or rows for anything but
        chance to show."""
        return sum(not d.is_judged for d in self.found)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        counts = {"off": len(self.off), "unjudged": self.unjudged}
        return {"bound": LARGE_DRIFT, **counts, "drifts": json_of(self.found)}


def measure_drift(
    lake: Lake,
    pipeline: Pipeline,
    tables: Collection[str] = (),
    column: str | None = None,
    days: DayRange | None = None,
) -> DriftReport:
    """Compare the days (None: all written ones) of some tables (empty: all) with their usual
    histograms.

    Raises UnknownName for an unknown table, and for a column that none of the tables has.
    """
    chosen = [pipeline.contract(n, "Nothing was compared") for n in tables] or list(
        pipeline.contracts
    )
    if column is not None:
        known = dict.fromkeys(name for c in chosen for name in c.column_names)
        refuse_unknown("column", [column], known, "Nothing was compared")
    found = (d for contract in chosen for d in _table(lake, contract, column, days))
    return DriftReport(tuple(sorted(found, key=lambda d: (-d.excess, d.table, d.day, d.column))))


def _table(
    lake: Lake, contract: Contract, column: str | None, days: DayRange | None
) -> Iterator[ColumnDrift]:
    """Yield the drifts of one table, without labels written as provisional; one pass over its
    log."""
    newest, earlier, ripe = (
        dict[date, DayEntry](),
        dict[date, DayEntry](),
        contract.matures_after_days,
    )
    for commit in lake.store.commits(contract.name):
        for day, entry in (commit.receipt.days if commit.receipt else {}).items():
            if (
                ripe is not None
                and commit.receipt
                and not is_mature(day, ripe, commit.receipt.frontier)
            ):
                continue
            if day in newest and newest[day].content != entry.content:
                earlier[day] = newest[day]
            newest[day] = entry
    columns = _by_column({d: e for d, e in newest.items() if e.rows})
    before = _by_column({d: e for d, e in earlier.items() if e.rows})
    for name, histograms in columns.items():
        if column not in (None, name):
            continue
        for day in histograms:
            if days is None or day in days:
                rows = newest[day].rows
                yield _column_drift(
                    contract.name, name, day, rows, histograms, before.get(name, {}).get(day)
                )


def _by_column(entries: Mapping[date, DayEntry]) -> dict[str, dict[date, Histogram]]:
    """Return the histograms by column and day, days ascending, with a bucket for NULL; days of
    which nothing is known, e.g. by an earlier version's receipt, are left out."""
    columns: dict[str, dict[date, Histogram]] = {}
    counted = {d: counted_histograms(e.counts) for d, e in sorted(entries.items())}
    names = sorted({c for histograms in counted.values() for c in histograms})
    for day, by_name in counted.items():
        nulls = counted_nulls(entries[day].counts)
        for c in names:  # a day of NULLs only has no histogram
            if c in by_name or nulls.get(c) == entries[day].rows:
                columns.setdefault(c, {})[day] = {
                    **by_name.get(c, {}),
                    NULL_BUCKET: nulls.get(c, 0),
                }
    return columns


def _column_drift(
    table: str,
    column: str,
    day: date,
    rows: int,
    histograms: Mapping[date, Histogram],
    before: Histogram | None,
) -> ColumnDrift:
    trailing = [h for d, h in histograms.items() if 0 < (day - d).days <= TRAILING_DAYS]
    weekdays = [
        h for d, h in histograms.items() if (day - d).days in range(WEEK, WEEK * WEEKS + 1, WEEK)
    ]
    usual = (
        pooled(trailing) if len(trailing) >= NEEDED_DAYS and recurs(trailing) else None,
        pooled(weekdays) if len(weekdays) >= NEEDED_WEEKS and recurs(weekdays) else None,
        before,
    )
    drifts = [None if u is None else drift(histograms[day], u) for u in usual]
    excess = [None if d is None else d.index - d.chance - LARGE_DRIFT for d in drifts]
    usually = min((e for e in excess[:2] if e is not None), default=0.0)
    greatest = max(usually, excess[2] or 0.0, 0.0)
    indexes = [None if d is None else round(d.index, 4) for d in drifts]
    reference = before if usually <= 0 else usual[0] or usual[1]
    words = largest_shift(histograms[day], reference) if greatest and reference else ""
    is_judged = greatest > 0 or any(d is not None and d.chance <= LARGE_DRIFT for d in drifts)
    return ColumnDrift(
        table,
        column,
        day,
        rows,
        indexes[0],
        indexes[1],
        indexes[2],
        round(greatest, 4),
        words,
        is_judged,
    )
