"""Reading a snapshot: the same forms of rows as a table, from the files that the snapshot keeps, proven byte by byte.

Lives here: choosing its tables and days. Does not live here: keeping them (`snapshots`), and the forms (`readable`).
"""

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from backfill_assets.core.days import DayRange, asked_days, contiguous
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.plain import PlainFiles, read_plain
from backfill_assets.operations.readable import PinnedRows, Readable
from backfill_assets.operations.snapshots import KeptTable, Snapshot, file_of

SHOWN_RANGES = 5


@dataclass(frozen=True)
class SnapshotReader:
    """A snapshot, to be read; `snapshot` says when and by whom it was made, and what it keeps."""

    lake: Lake
    snapshot: Snapshot

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables it keeps."""
        return tuple(self.snapshot.tables)

    @property
    def digest(self) -> str:
        """SHA-256 of what it keeps, for a model's card."""
        return self.snapshot.digest

    def table(self, name: str) -> "KeptTableReader":
        """A table, with all days that are kept; raises BackfillError where it is not kept."""
        if name not in self.snapshot.tables:
            raise BackfillError(
                f"the snapshot {self.snapshot.name!r}", f"it keeps no table {name[:100]!r}", "Nothing was read",
                f"Choose one of {', '.join(self.tables)}",
            )  # fmt: skip
        return KeptTableReader(self.lake, self.snapshot.name, self.snapshot.tables[name])


@dataclass(frozen=True)
class KeptTableReader(Readable):
    """Some days of a table as a snapshot keeps them: read them with `arrow`, `pandas`, `polars`, `duckdb`, `spark`."""

    lake: Lake
    name: str
    kept: KeptTable
    span: DayRange | None = None

    def days(self, first: str | date, last: str | date | None = None) -> "KeptTableReader":
        """The days `first` through `last`, both included (None: that one day); reading raises BackfillError where a
        day of them is not kept."""
        return replace(self, span=asked_days(first, last))

    def pinned(self) -> PinnedRows:
        """The files, each proven by its SHA-256, and the days."""
        days, contract = list(self.span) if self.span else sorted(self.kept.days), self.kept.contract
        lacking = [d for d in days if d not in self.kept.days]
        if lacking:
            known = contiguous(self.kept.days)[:SHOWN_RANGES]
            raise BackfillError(
                f"the snapshot {self.name!r}", f"of {contract.name} it keeps no {lacking[0]}", "Nothing was read",
                f"Ask for days of {', '.join(map(str, known))}",
            )  # fmt: skip
        folders = tuple(f"{contract.name}/{contract.day_column}={d}/" for d in days)
        by_day = contract.partition_column == contract.day_column
        wanted = [f for f in self.kept.files if not by_day or f.path.startswith(folders)]
        return PinnedRows(contract, None, [str(file_of(self.lake, self.name, f)) for f in wanted], days)

    def _frame(self, session: Any, pinned: PinnedRows) -> Any:
        contract = pinned.contract
        if contract.partition_column != contract.day_column:
            raise BackfillError(
                f"the snapshot {self.name!r}", f"{contract.name} is not laid out by its day", "Nothing was read",
                "Ask for arrow(), and make a frame of that",
            )  # fmt: skip
        columns = tuple((c.name, c.type.lower()) for c in contract.columns)
        size = sum(Path(f).stat().st_size for f in pinned.files)
        return read_plain(session, PlainFiles(tuple(pinned.files), columns, contract.day_column, size))
