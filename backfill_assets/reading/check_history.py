"""Written days judged again by their receipts: the checks under the gates of today, and drift
against what is usual.

No data file is read. A column's drift is measured where receipts hold its histogram: numbers, yes
or no, texts with few values; NULL counts as a value. Not here: the gates (`kernel.write.gates`),
judging a day (`kernel.write.judging`), and the statistic with its buckets (`kernel.core.profiles`).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date
from typing import TypedDict

from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, is_mature
from backfill_assets.kernel.core.errors import refuse_unknown_names
from backfill_assets.kernel.core.profiles import (
    BROKEN,
    LARGE_DRIFT,
    NULL_BUCKET,
    TRAILING_DAYS,
    Finding,
    Histogram,
    counted_histograms,
    counted_nulls,
    has_recurring_values,
    histogram_drift,
    largest_shift,
    pooled_histogram,
    with_warning,
)
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.gates import MAX_DRIFT, PROFILE, gates_of
from backfill_assets.kernel.write.judging import judge_by_receipts
from backfill_assets.kernel.write.model import Pipeline

MOST_WARNINGS = 5  # in one line
OTHER_ROWS = "the same inputs, code and settings gave other rows before"


class FoundForm(TypedDict):
    """A finding of a check on one day as JSON values."""

    day: DayText
    failed: bool  # it refuses the day; else it warns
    what: str


class CheckHistoryForm(TypedDict):
    """The history of a check as JSON values: numbers of days, and findings."""

    table: str
    check: str
    passed: int
    warned: int
    failed: int
    found: Sequence[FoundForm]


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

    def to_dict(self) -> CheckHistoryForm:
        """Return the history as JSON values."""
        found = [{"day": f.day, "failed": f.refuses, "what": f.message} for f in self.found]
        return {
            "table": self.table,
            "check": self.check,
            "passed": self.days - len(self.found),
            "warned": self.warned,
            "failed": self.failed,
            "found": json_of(found),
        }


def check_history(lake: Lake, states: States) -> tuple[CheckHistory, ...]:
    """Return the history of every check of every table. Reads receipts only."""
    histories = []
    for name in states.contracts:
        for check, judged in _judged_gates(lake, states, name):
            found = tuple(finding for finding in judged if not finding.passed)
            histories.append(CheckHistory(name, check, len(judged), found))
    return tuple(histories)


def checked_days(lake: Lake, states: States) -> Iterator[tuple[str, Finding]]:
    """Yield (table, verdict) of every check on every written day. Reads receipts only."""
    for name in states.contracts:
        for _, found in _judged_gates(lake, states, name):
            yield from ((name, finding) for finding in found)


def _judged_gates(lake: Lake, states: States, table: str) -> Iterator[tuple[str, list[Finding]]]:
    """Yield each gate of a table with its verdicts on the written days."""
    contract = states.contracts[table]
    findings = judged_days(lake, states, contract, states.view.table(table).latest)
    for gate in gates_of(contract):
        yield gate.name, [f for f in findings if f.check == gate.name]


def judged_days(
    lake: Lake, states: States, contract: Contract, days: Collection[date]
) -> list[Finding]:
    """Return the findings of today's gates on written days, by their receipts: the profile of one
    that got other rows from the same inputs, code and settings does not pass."""
    if not days:
        return []
    latest = states.view.table(contract.name).latest
    judged = judge_by_receipts(lake.settings, states, contract, sorted(days))
    found = []
    for finding in (finding for of_day in judged.values() for finding in of_day):
        if finding.check == PROFILE and latest[finding.day].irreproducible:
            found.append(with_warning(finding, OTHER_ROWS))
        else:
            found.append(finding)
    return found


def warning_line(lake: Lake, states: States, days: Mapping[str, Collection[date]]) -> str:
    """Return one line with what today's checks find on these `days` of tables, as far as they are
    written, what is on most days first; empty where they find nothing. Reads receipts only."""
    found = Counter[str]()
    for name, wanted in days.items():
        found.update(_causes_on_days(lake, states, name, wanted))
    if not found:
        return ""
    shown = [f"{cause} on {n} day{'s' * (n > 1)}" for cause, n in found.most_common(MOST_WARNINGS)]
    more = f", and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    return (
        f"warnings: {', '.join(shown)}{more}; `backfill-assets report --html FILE` names the days"
    )


def _causes_on_days(
    lake: Lake, states: States, table: str, days: Collection[date]
) -> Iterator[str]:
    """Yield what each failed check finds on each written one of these days, in short names."""
    latest = states.view.table(table).latest
    written = [day for day in states.keys_in(table, days) if day in latest]
    judged = judge_by_receipts(lake.settings, states, states.contracts[table], written)
    for findings in judged.values():
        for finding in findings:
            if not finding.passed:
                yield from _causes_of(finding, table)


def _causes_of(finding: Finding, table: str) -> list[str]:
    """Return short names of what a gate found in a day of the table: rules, columns, else the
    gate."""
    causes = []
    for name, rows in finding.facts.items():
        if name.startswith(BROKEN) and rows:
            causes.append(f"{table}.{name.removeprefix(BROKEN)}")
    for bound in finding.bounds:
        column, _, kind = bound.rpartition(".")
        measure = "drift of" if kind == MAX_DRIFT else "NULLs in"
        causes.append(f"{measure} {table}.{column}")
    return causes or [f"{finding.check} of {table}"]


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


class DriftForm(TypedDict):
    """Every compared column and day, the largest deviations first."""

    bound: float  # the population stability index that is large
    off: int
    unjudged: int
    drifts: Sequence[ColumnDrift]


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

    def to_dict(self) -> DriftForm:
        """Return the report as JSON values."""
        return {
            "bound": LARGE_DRIFT,
            "off": len(self.off),
            "unjudged": self.unjudged,
            "drifts": json_of(self.found),
        }


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
        refuse_unknown_names("column", [column], known, "Nothing was compared")
    found = (d for contract in chosen for d in _table_drifts(lake, contract, column, days))
    return DriftReport(tuple(sorted(found, key=lambda d: (-d.excess, d.table, d.day, d.column))))


def _table_drifts(
    lake: Lake, contract: Contract, column: str | None, days: DayRange | None
) -> Iterator[ColumnDrift]:
    """Yield the drifts of one table, without labels written as provisional; one pass over its
    log."""
    newest, earlier = _final_entries(lake, contract)
    columns = _histograms_by_column({d: e for d, e in newest.items() if e.rows})
    before = _histograms_by_column({d: e for d, e in earlier.items() if e.rows})
    wanted = None if days is None else {*contract.keys_in(days)}
    for name, histograms in columns.items():
        if column not in (None, name):
            continue
        earlier_ones = before.get(name, {})
        for day in histograms:
            if wanted is None or day in wanted:
                rows, replaced = newest[day].rows, earlier_ones.get(day)
                yield _column_drift(contract.name, name, day, rows, histograms, replaced)


def _final_entries(
    lake: Lake, contract: Contract
) -> tuple[dict[date, DayEntry], dict[date, DayEntry]]:
    """Return the newest entry of each day, and the one before it with other content, where there is
    one; labels that were not mature when they were written count as not written."""
    newest, earlier = dict[date, DayEntry](), dict[date, DayEntry]()
    ripe = contract.matures_after_days
    for commit in lake.store.commits(contract.name):
        receipt = commit.receipt
        if receipt is None:
            continue
        for day, entry in receipt.days.items():
            last = contract.calendar.last_of(day)
            if ripe is not None and not is_mature(last, ripe, receipt.frontier):
                continue
            if day in newest and newest[day].content != entry.content:
                earlier[day] = newest[day]
            newest[day] = entry
    return newest, earlier


def _histograms_by_column(entries: Mapping[date, DayEntry]) -> dict[str, dict[date, Histogram]]:
    """Return the histograms by column and day, days ascending, with a bucket for NULL; days of
    which nothing is known, e.g. by an earlier version's receipt, are left out."""
    columns: dict[str, dict[date, Histogram]] = {}
    counted = {d: counted_histograms(e.counts) for d, e in sorted(entries.items())}
    names = sorted({c for histograms in counted.values() for c in histograms})
    for day, by_name in counted.items():
        nulls = counted_nulls(entries[day].counts)
        for name in names:
            holds_nulls_only = nulls.get(name) == entries[day].rows  # then it has no histogram
            if name in by_name or holds_nulls_only:
                histogram = {**by_name.get(name, {}), NULL_BUCKET: nulls.get(name, 0)}
                columns.setdefault(name, {})[day] = histogram
    return columns


@dataclass(frozen=True)
class _Comparison:
    """The histogram of a day against one that is `usual`."""

    usual: Histogram
    index: float  # population stability index
    chance: float  # how much of it chance alone explains

    @classmethod
    def of(cls, day: Histogram, usual: Histogram) -> "_Comparison":
        """Compare a day's histogram."""
        measured = histogram_drift(day, usual)
        return cls(usual, measured.index, measured.chance)

    @property
    def excess(self) -> float:
        """By how much the index exceeds what is allowed and chance."""
        return self.index - self.chance - LARGE_DRIFT


def _column_drift(
    table: str,
    column: str,
    day: date,
    rows: int,
    histograms: Mapping[date, Histogram],
    before: Histogram | None,
) -> ColumnDrift:
    """Compare the histogram of a day with those of other days, and with the one `before` its newest
    write (None: there is none)."""
    current = histograms[day]
    trailing_days = {day - ONE_DAY * n for n in range(1, TRAILING_DAYS + 1)}
    same_weekdays = {day - ONE_DAY * WEEK * n for n in range(1, WEEKS + 1)}
    trailing = _against_usual(current, histograms, trailing_days, NEEDED_DAYS)
    weekday = _against_usual(current, histograms, same_weekdays, NEEDED_WEEKS)
    replaced = None if before is None else _Comparison.of(current, before)
    usual = [c for c in (trailing, weekday) if c is not None]
    compared = usual if replaced is None else [*usual, replaced]
    usual_excess = min((c.excess for c in usual), default=0.0)
    excess = max(usual_excess, 0.0 if replaced is None else replaced.excess, 0.0)
    is_judged = excess > 0 or any(c.chance <= LARGE_DRIFT for c in compared)
    off = replaced if usual_excess <= 0 else usual[0]
    return ColumnDrift(
        table=table,
        column=column,
        day=day,
        rows=rows,
        trailing=_rounded_index(trailing),
        weekday=_rounded_index(weekday),
        before=_rounded_index(replaced),
        excess=round(excess, 4),
        moved=largest_shift(current, off.usual) if excess and off is not None else "",
        is_judged=is_judged,
    )


def _against_usual(
    current: Histogram, histograms: Mapping[date, Histogram], days: Set[date], needed: int
) -> _Comparison | None:
    """Compare with all rows of those of `days` that have a histogram; None where fewer than
    `needed` have one, or their values do not come again from day to day."""
    earlier = [histogram for day, histogram in histograms.items() if day in days]
    if len(earlier) < needed or not has_recurring_values(earlier):
        return None
    return _Comparison.of(current, pooled_histogram(earlier))


def _rounded_index(comparison: _Comparison | None) -> float | None:
    return None if comparison is None else round(comparison.index, 4)
