"""The reader of a lake: its tables by name, for training, notebooks and other programs. Writes nothing.

Lives here: choosing days and versions, and refusing days that are not fit. Does not live here: the forms of the rows
(`readable`), the judgement (`fitness`), queries over several tables (`sql`), and finding a lake (`reading`).
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import DayRange, asked_days
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Built
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.operations.compare import Moment
from backfill_assets.operations.fitness import Unfit, settle, unfit_now, unfit_then
from backfill_assets.operations.readable import PinnedRows, Readable
from backfill_assets.operations.snapshot_reader import SnapshotReader
from backfill_assets.operations.snapshots import find_snapshot

NOTHING = "Nothing was read"


@dataclass(frozen=True)
class LakeReader:
    """An opened lake, to be read. Cheap to make; no file of a table is opened before rows are asked for."""

    lake: Lake
    pipeline: Pipeline

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the lake's tables, upstream first."""
        return tuple(t.name for t in self.pipeline.tables)

    def table(self, name: str) -> "TableReader":
        """A table, with all days that it holds; raises BackfillError where the lake has none of that name."""
        return TableReader(self.lake, self.pipeline, self.pipeline.contract(name, NOTHING))

    def snapshot(self, name: str) -> SnapshotReader:
        """What `backfill-assets snapshot create` kept under that name; raises BackfillError where there is none."""
        return SnapshotReader(self.lake, find_snapshot(self.lake, name))


@dataclass(frozen=True)
class TableReader(Readable):
    """Some days of a table, at its newest version or an older one: read them with `arrow`, `pandas`, `polars`,
    `duckdb` or `spark`. `days` and `at` give another one and change nothing."""

    lake: Lake
    pipeline: Pipeline
    contract: Contract
    span: DayRange | None = None
    moment: Moment | None = None
    unfit: Unfit = "refuse"

    def days(self, first: str | date, last: str | date | None = None, unfit: Unfit = "refuse") -> "TableReader":
        """The days `first` through `last`, both included as on the command line (None: that one day).

        Where days are missing, stale, incomplete or pending, reading raises UnfitDays; `unfit="warn"` warns
        (UnfitDaysWarning) and `"take"` takes what is there.
        """
        return replace(self, span=asked_days(first, last), unfit=unfit)

    def at(
        self, version: int | None = None, time: datetime | str | None = None, write_id: str | None = None
    ) -> "TableReader":
        """The table as it was: at a version, at an instant (ISO text or datetime; UTC where it says nothing), or right
        after the write of that id. Raises BackfillError where it had none; without any of them it is the newest."""
        if sum(given is not None for given in (version, time, write_id)) > 1:
            raise ValueError("name one of version, time and write_id: they say the same")
        if write_id is not None:
            version = self._version_of(write_id)
        moment = Moment(self.lake, version, _instant(time))
        moment.of(self.contract.name)
        return replace(self, moment=moment if version is not None or time is not None else None)

    def _version_of(self, write_id: str) -> int:
        for commit in self.lake.store.commits(self.contract.name):
            if commit.receipt is not None and commit.receipt.write_id == write_id:
                return commit.version
        raise BackfillError(
            f"the table {self.contract.name}", f"it has no write {write_id[:40]!r}", NOTHING,
            f"`backfill-assets audit --table {self.contract.name}` lists all writes",
        )  # fmt: skip

    def pinned(self) -> PinnedRows:
        """The version, its files and the days; raises UnfitDays for days that are not fit."""
        version, days = self._version_then() if self.moment else self._version_now()
        files = self.lake.store.data_files(self.contract, version, days) if version >= 0 else []
        return PinnedRows(self.contract, version, files, days)

    def _version_now(self) -> tuple[int, list[date]]:
        """The newest version and its days, judged by the lake as it is."""
        states = self.pipeline.states(read_view(self.lake, self.pipeline.contracts))
        view = states.view.table(self.contract.name)
        days = self._asked(view.stamps)
        settle(self.contract, unfit_now(states, self.contract.name, days), self.unfit)
        return view.version, days

    def _version_then(self) -> tuple[int, list[date]]:
        """The version asked for and its days, judged by its receipts."""
        assert self.moment is not None  # noqa: S101  # for the type checker
        version = self.moment.of(self.contract.name)
        view = self.lake.store.view(self.contract.name, self.contract.day_column, version)
        days = self._asked(view.stamps)
        settle(self.contract, unfit_then(view, days), self.unfit)
        return version, days

    def _asked(self, stamps: Any) -> list[date]:
        """The days asked for; where none are named, those the table holds: a pending day holds nothing."""
        if self.span is not None:
            return list(self.span)
        return sorted(d for d, s in stamps.items() if s.entry.built is not Built.PENDING)

    def _frame(self, session: Any, pinned: PinnedRows) -> Any:
        store, contract = self.lake.store, self.contract
        if pinned.version is None or pinned.version < 0:
            raise BackfillError(f"the table {contract.name}", "it was never made", NOTHING, "Make days of it first")
        return store.frame(session, contract.name, pinned.version, contract.day_column, sorted(pinned.days or ()))


def _instant(time: datetime | str | None) -> datetime | None:
    if time is None:
        return None
    try:
        found = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        raise BackfillError(
            f"the time {str(time)[:40]!r}", "it is not of the form 2024-03-31T12:00:00Z", NOTHING, "Write it so"
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
