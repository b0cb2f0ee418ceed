"""Days of a table at two versions, two times or in two lakes, compared.

Not here: comparing the rows (`compare.matching`) and drawing the report
(`compare.compare_command`).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from backfill_assets.compare.matching import NULL_BUCKET, DayDifference, SampleRow, differences
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, ranges
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import LARGE_DRIFT, Histogram, drift
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.tables.data_files import folder_of
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import find_version, versions_seen
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.model import Plan
from backfill_assets.plans.progress import writes_of_plan

STATISTIC = "population stability index"


@dataclass(frozen=True)
class Moment:
    """A lake at one moment: its heads, unless a field names another."""

    lake: Lake
    version: int | None = None  # of a table
    at: datetime | int | None = None  # an aware instant, or a lake version

    @classmethod
    def after_write(cls, lake: Lake, table: str, write_id: str) -> "Moment":
        """Return the moment of the write whose id begins so; raises BackfillError where the table
        has none."""
        for commit in lake.store.commits(table) if write_id else ():
            if commit.receipt is not None and commit.receipt.write_id.startswith(write_id):
                return cls(lake, commit.version)
        raise BackfillError(
            f"the table {table}",
            f"it has no write {write_id[:40]!r}",
            "Nothing was read",
            f"`backfill-assets audit --table {table}` lists all writes",
        )

    def of(self, table: str) -> int:
        """Return the version of the table; raises BackfillError where it had none then.

        At an instant, the lake's log decides, so that all tables are of one state. Before its first
        entry, and for the ledger `files`, which is not in it, the table's own commits decide.
        """
        together = versions_seen(self.lake, self.at) if self.at is not None else None
        if together is not None and table in together:
            found = [v for v in (together[table],) if v >= 0]
        else:
            known = [(c.version, c.at) for c in self.lake.store.commits(table)]
            entry = find_version(self.lake, self.at) if isinstance(self.at, int) else None
            by = (
                entry.at
                if entry is not None
                else self.at
                if isinstance(self.at, datetime)
                else None
            )
            found = [v for v, at in known if self.version in (None, v) and (by is None or at <= by)]
        if not found:
            wanted = (
                f"version {self.version}"
                if self.version is not None
                else f"commit by {self.at or 'now'}"
            )
            wanted = f"commit in lake version {self.at}" if isinstance(self.at, int) else wanted
            raise BackfillError(
                f"the table {table} of {self.lake.address}",
                f"it has no {wanted}",
                "Nothing was compared",
                f"`backfill-assets audit --table {table}` lists all writes",
            )
        return found[-1]


@contextmanager
def whole_files(contract: Contract, undone: str) -> Iterator[None]:
    """Turn DuckDB's errors about the files of a table into a BackfillError of one line."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise BackfillError(
            f"the table {contract.name}",
            f"its files cannot be read as it is declared: {str(error).splitlines()[0]}",
            undone,
            "Look at it with `backfill-assets doctor`; files of old versions are kept as long as "
            "`[retention] rollback_days` says: choose a later one",
        ) from error


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

    @property
    def unmeant(self) -> list[str]:
        """Return the columns that changed, came or went, and were not meant to."""
        return [c.column for c in self.columns if c.is_unmeant]

    @property
    def one_sided(self) -> str:
        """Return the columns of one side alone as a part of a sentence; empty if there are none."""
        gone, new = (
            [c.column for c in self.columns if getattr(c, n) is None]
            for n in ("nulls_after", "nulls_before")
        )
        parts = (("before", gone), ("after", new))
        return "".join(
            f"; columns only {side}: {', '.join(names)}" for side, names in parts if names
        )

    def total(self, name: str) -> int:
        """Return the sum over all days of `added`, `removed`, `changed`, `rows_before` or
        `rows_after`."""
        return sum(getattr(d, name) for d in self.differing)

    @property
    def headline(self) -> str:
        """Return one sentence: the versions, the days that differ, their rows, and columns of one
        side alone."""
        added, removed, changed = (f"{self.total(n):,}" for n in ("added", "removed", "changed"))
        differing = f"{len(self.differing)} of {len(self.days)} day(s) differ"
        return (
            f"{self.table} {self.days}, version {self.before} to {self.after}: {differing}: "
            f"{added} row(s) added, "
            f"{removed} removed, {changed} changed{self.one_sided}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        lists = {
            "days": self.differing,
            "columns": self.columns,
            "unmeant": self.unmeant,
            "samples": self.samples,
        }
        return {
            "table": self.table,
            "from": str(self.days.start),
            "to": str(self.days.last),
            "from_version": self.before,
            "to_version": self.after,
            "statistic": STATISTIC,
            "totals": {n: self.total(n) for n in ("added", "removed", "changed")},
            **{key: json_of(value) for key, value in lists.items()},
        }


@dataclass(frozen=True)
class CompareRequest:
    """Days of a table to compare."""

    table: str
    days: DayRange
    meant: Collection[str] | None = None  # columns that may change; None: any


def of_plan(
    lake: Lake, plan: Plan, chunk: int | None
) -> list[tuple[CompareRequest, Moment, Moment]]:
    """The comparisons that show what a plan (or its `chunk` alone) changed: per table the days, the
    version before its first write and the version of its last. Tables without a write are left out.
    Raises BackfillError for an unknown chunk."""
    days, found = plan.chunk(chunk).days if chunk is not None else plan.days, []
    for table in plan.tables:
        writes = writes_of_plan(lake, plan, table)
        own = [v for n, w in writes.chunks.items() if chunk in (None, n) for v in w.receipts]
        if own:
            moments = Moment(lake, min(own) - 1), Moment(lake, max(own))
            found.append((CompareRequest(table, days), *moments))
    return found


def compare(
    pipeline: Pipeline, request: CompareRequest, before: Moment, after: Moment
) -> CompareReport:
    """Compare days of a table; days with the same files on both sides are not read. No JVM.

    Raises BackfillError for an unknown table, column or version, and for files that are gone.
    """
    contract = pipeline.contract(request.table, "Nothing was compared")
    versions = before.of(request.table), after.of(request.table)
    moments = [*zip((before, after), versions, strict=True)]
    views = [m.lake.store.view(contract.name, contract.day_column, v) for m, v in moments]
    if not any(day in view.latest for view in views for day in request.days):
        raise BackfillError(
            f"the table {request.table}",
            f"neither side ever wrote {ranges(request.days)}",
            "Nothing was compared",
            "`backfill-assets status` shows which days were written",
        )
    old, new = (set(m.lake.store.data_files(contract, v, list(request.days))) for m, v in moments)
    if contract.partition_column == contract.day_column:
        changed_folders = {folder_of(file) for file in old ^ new}
        old, new = (
            {file for file in side if folder_of(file) in changed_folders} for side in (old, new)
        )
    elif old == new:
        old, new = set(), set()
    with whole_files(contract, "Nothing was compared"):
        found = differences(after.lake, contract, sorted(old), sorted(new), request.days)
    differing = tuple(d for d in found.days if d.added or d.removed or d.changed)
    known = {**dict.fromkeys(contract.column_names), **found.histograms}
    if unknown := sorted(set(request.meant or ()) - known.keys()):
        raise BackfillError(
            f"the table {request.table}",
            f"it has no column {', '.join(unknown)}",
            "Nothing was compared",
            f"Name some of {', '.join(known)}",
        )
    columns = tuple(
        _column_difference(c, request, differing, *sides) for c, sides in found.histograms.items()
    )
    return CompareReport(request.table, request.days, *versions, differing, columns, found.samples)


def _column_difference(
    name: str,
    request: CompareRequest,
    days: Sequence[DayDifference],
    before: Histogram | None,
    after: Histogram | None,
) -> ColumnDifference:
    changed, meant = (
        sum(d.columns.get(name, 0) for d in days),
        request.meant is None or name in request.meant,
    )
    nulls_before, nulls_after = (
        None if side is None else side.get(NULL_BUCKET, 0) / max(sum(side.values()), 1)
        for side in (before, after)
    )
    if before is None or after is None:
        return ColumnDifference(name, changed, nulls_before, nulls_after, is_meant=meant)
    shift = drift(after, before)
    drifted, large = round(shift.index, 4), shift.exceeds(LARGE_DRIFT)
    return ColumnDifference(name, changed, nulls_before, nulls_after, drifted, large, meant)
