"""Days of a table at two versions, two times or in two lakes, compared.

Not here: comparing the rows (`compare.differences`) and drawing the report
(`compare.compare_command`).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from backfill_assets.compare.differences import (
    NULL_BUCKET,
    DayDifference,
    Differences,
    SampleRow,
    find_differences,
)
from backfill_assets.kernel.core.answers import DaySpan
from backfill_assets.kernel.core.calendars import Calendar
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, ranges_text, some_days
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import LARGE_DRIFT, Histogram, histogram_drift
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.tables.data_files import folder_of
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.moments import Moment, errors_of_files

STATISTIC = "population stability index"


@dataclass(frozen=True)
class ColumnDifference:
    """One column over the days that were read."""

    column: str
    changed: int  # values
    nulls_before: float | None  # share (0..1); None: that side has no such column
    nulls_after: float | None
    # Population stability index with a bucket for NULL; 0: only one side has the column.
    drift: float = 0
    is_large: bool = False  # beyond 0.25 and chance
    is_meant: bool = True  # the request allows the column to change

    @property
    def is_unmeant(self) -> bool:
        """Return whether it changed, came or went, and was not meant to."""
        return not self.is_meant and (
            self.changed > 0 or self.nulls_before is None or self.nulls_after is None
        )


class ChangeTotals(TypedDict):
    """Numbers of rows over all days."""

    added: int
    removed: int
    changed: int


class CompareForm(DaySpan):
    """Days of a table compared in two versions."""

    table: str
    from_version: int
    to_version: int
    statistic: str  # what `drift` of a column is
    totals: ChangeTotals
    days: Sequence[DayDifference]
    columns: Sequence[ColumnDifference]
    unmeant: Sequence[str]
    samples: Sequence[SampleRow]


@dataclass(frozen=True)
class CompareReport:
    """Days of a table compared."""

    table: str
    days: DayRange  # that were compared
    before: int  # version
    after: int  # version
    differing: tuple[DayDifference, ...]  # days
    columns: tuple[ColumnDifference, ...]  # over all days
    samples: tuple[SampleRow, ...]  # rows that differ
    calendar: Calendar = field(default_factory=Calendar)  # of the table

    @property
    def unmeant(self) -> list[str]:
        """Return the columns that changed, came or went, and were not meant to."""
        return [c.column for c in self.columns if c.is_unmeant]

    @property
    def one_sided(self) -> str:
        """Return the columns of one side alone as a part of a sentence; empty if there are none."""
        text = ""
        if gone := [c.column for c in self.columns if c.nulls_after is None]:
            text += f"; columns only before: {', '.join(gone)}"
        if new := [c.column for c in self.columns if c.nulls_before is None]:
            text += f"; columns only after: {', '.join(new)}"
        return text

    def total(self, name: str) -> int:
        """Return the sum over all days of `added`, `removed`, `changed`, `rows_before` or
        `rows_after`."""
        return sum(getattr(d, name) for d in self.differing)

    @property
    def headline(self) -> str:
        """Return one sentence: the versions, the days that differ, their rows, and columns of one
        side alone."""
        added, removed, changed = (f"{self.total(n):,}" for n in ("added", "removed", "changed"))
        compared = self.calendar.count_text(len(self.calendar.keys_in(self.days)))
        differing = f"{len(self.differing)} of {compared} differ"
        return (
            f"{self.table} {self.days}, version {self.before} to {self.after}: {differing}: "
            f"{added} row(s) added, "
            f"{removed} removed, {changed} changed{self.one_sided}"
        )

    def to_dict(self) -> CompareForm:
        """Return the report as JSON values."""
        return {
            "table": self.table,
            "from": str(self.days.start),
            "to": str(self.days.last),
            "from_version": self.before,
            "to_version": self.after,
            "statistic": STATISTIC,
            "totals": {
                "added": self.total("added"),
                "removed": self.total("removed"),
                "changed": self.total("changed"),
            },
            "days": json_of(self.differing),
            "columns": json_of(self.columns),
            "unmeant": self.unmeant,
            "samples": json_of(self.samples),
        }


@dataclass(frozen=True)
class CompareRequest:
    """Days of a table to compare."""

    table: str
    days: DayRange
    meant: Collection[str] | None = None  # columns that may change; None: any


def compare_days(
    pipeline: Pipeline, request: CompareRequest, before: Moment, after: Moment
) -> CompareReport:
    """Compare days of a table; days with the same files on both sides are not read. No JVM.

    Raises BackfillError for an unknown table, column or version, and for files that are gone.
    """
    contract = pipeline.contract(request.table, "Nothing was compared")
    if keys := contract.keys_in(request.days):  # of a day that is no partition nothing was written
        request = replace(request, days=some_days(keys))
    versions = before.of(request.table), after.of(request.table)
    sides = Moment(before.lake, versions[0]), Moment(after.lake, versions[1])
    _refuse_unwritten(contract, request, sides)
    old, new = (_files_of_days(contract, request, side) for side in sides)
    if contract.is_by_day:
        changed_folders = {folder_of(file) for file in old ^ new}
        old = {file for file in old if folder_of(file) in changed_folders}
        new = {file for file in new if folder_of(file) in changed_folders}
    elif old == new:
        old, new = set(), set()
    with errors_of_files(contract, "Nothing was compared"):
        found = find_differences(after.lake, contract, sorted(old), sorted(new), request.days)
    _refuse_unknown_columns(contract, request, found)
    differing = tuple(day for day in found.days if day.differs)
    columns = []
    for name, histograms in found.histograms.items():
        columns.append(_column_difference(name, request, differing, *histograms))
    calendar = contract.calendar
    return CompareReport(
        request.table, request.days, *versions, differing, tuple(columns), found.samples, calendar
    )


def _refuse_unwritten(contract: Contract, request: CompareRequest, sides: Iterable[Moment]) -> None:
    """Raise BackfillError where no side ever wrote one of the days."""
    for side in sides:
        written = side.lake.store.view(contract.name, contract.day_column, side.version).latest
        if any(day in written for day in request.days):
            return
    raise BackfillError(
        f"the table {request.table}",
        f"neither side ever wrote {ranges_text(request.days)}",
        "Nothing was compared",
        "`backfill-assets status` shows which days were written",
    )


def _files_of_days(contract: Contract, request: CompareRequest, side: Moment) -> set[str]:
    """The paths of the files that hold the days on one side."""
    return {*side.lake.store.data_files(contract, side.version, list(request.days))}


def _refuse_unknown_columns(
    contract: Contract, request: CompareRequest, found: Differences
) -> None:
    """Raise BackfillError where a column that was meant to change is on neither side."""
    known = {**dict.fromkeys(contract.column_names), **found.histograms}
    unknown = sorted(set(request.meant or ()) - known.keys())
    if unknown:
        raise BackfillError(
            f"the table {request.table}",
            f"it has no column {', '.join(unknown)}",
            "Nothing was compared",
            f"Name some of {', '.join(known)}",
        )


def count_changes(
    pipeline: Pipeline, table: str, spans: Iterable[DayRange], before: Moment, after: Moment
) -> tuple[int, int, int]:
    """Return how many rows of these days of a table were added, removed and changed."""
    added = removed = changed = 0
    for span in spans:
        report = compare_days(pipeline, CompareRequest(table, span), before, after)
        added += report.total("added")
        removed += report.total("removed")
        changed += report.total("changed")
    return added, removed, changed


def _column_difference(
    name: str,
    request: CompareRequest,
    days: Sequence[DayDifference],
    before: Histogram | None,
    after: Histogram | None,
) -> ColumnDifference:
    """Return how a column differs over all days; without drift if only one side has the column."""
    changed = sum(d.columns.get(name, 0) for d in days)
    meant = request.meant is None or name in request.meant
    nulls_before, nulls_after = _null_share(before), _null_share(after)
    if before is None or after is None:
        return ColumnDifference(name, changed, nulls_before, nulls_after, is_meant=meant)
    shift = histogram_drift(after, before)
    is_large = shift.exceeds(LARGE_DRIFT)
    drift = round(shift.index, 4)
    return ColumnDifference(
        column=name,
        changed=changed,
        nulls_before=nulls_before,
        nulls_after=nulls_after,
        drift=drift,
        is_large=is_large,
        is_meant=meant,
    )


def _null_share(side: Histogram | None) -> float | None:
    """The share of NULLs on one side; None where it has no such column."""
    if side is None:
        return None
    return side.get(NULL_BUCKET, 0) / max(sum(side.values()), 1)
