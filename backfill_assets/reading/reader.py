"""The reader of a lake: its tables and snapshots by name, for training, notebooks and other
programs. Writes nothing.

Rows come as Arrow, pandas, Polars, a DuckDB relation, or a Spark DataFrame; only the last needs a
JVM. Not here: the judgement of days (`fitness`), queries over several tables (`sql`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.table_frames import PlainFiles, read_frame, read_plain
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges, day_range
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.tables.data_files import folder_of
from backfill_assets.kernel.tables.embedded import new_engine, rows_query
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.fitness import (
    Unfit,
    settle_unfit_days,
    unfit_days_now,
    unfit_days_then,
)
from backfill_assets.reading.kept_snapshots import (
    KeptTable,
    Snapshot,
    find_snapshot,
    kept_file_path,
)
from backfill_assets.reading.moments import Moment, errors_of_files

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

NOTHING_WAS_READ = "Nothing was read"
SHOWN_RANGES = 5
WHOLE_NUMBERS = {"BIGINT": "Int64", "INT": "Int32"}  # pandas's own, which hold NULL


@dataclass(frozen=True)
class PinnedRows:
    """Chosen rows."""

    contract: Contract
    version: int | None  # of the table; None: of a snapshot
    files: Sequence[str]  # that hold the days
    days: Collection[date]
    columns: tuple[str, ...] = ()  # in the order in which they are given; none: all of them

    @property
    def query(self) -> str:
        """Return DuckDB's query for the rows, unordered."""
        chosen = ", ".join(map(quoted_name, self.columns)) or "*"
        rows = rows_query(self.files, self.contract)
        listed = ", ".join(f"DATE '{d}'" for d in sorted(self.days)) or "NULL"
        return (
            f"SELECT {chosen} FROM ({rows}) WHERE {quoted_name(self.contract.day_column)} IN "
            f"({listed})"
        )


class Readable:
    """Chosen rows of a lake. Every call chooses files and judges days again; nothing is kept or
    written."""

    lake: Lake
    # A session of the project's own, as `LakeSession` takes it; None: the lake's engine.
    project_session: Any = None

    def pinned(self) -> PinnedRows:
        """Return the rows that a call would read now; raises as reading would."""
        raise NotImplementedError

    def _spark_frame(self, session: Any, pinned: PinnedRows) -> Any:
        raise NotImplementedError

    def arrow(self) -> Any:
        """Return a `pyarrow.Table`, ordered by day and key; times are microseconds in UTC."""
        return self._arrow_table(self.pinned())

    def pandas(self) -> Any:
        """Return a `pandas.DataFrame`, ordered by day and key; nullable integers are `Int64` or
        `Int32`."""
        import pandas as pd

        pinned = self.pinned()
        table = self._arrow_table(pinned)
        frame = table.to_pandas()
        for column in (c for c in pinned.contract.columns if c.name in frame.columns):
            if column.nullable and column.type in WHOLE_NUMBERS:
                cells = table.column(column.name).to_pylist()
                frame[column.name] = pd.array(cells, dtype=WHOLE_NUMBERS[column.type])
        return frame

    def polars(self) -> Any:
        """Return a `polars.DataFrame`, ordered by day and key; raises BackfillError where Polars is
        not installed."""
        try:
            polars = import_module("polars")  # no dependency of ours
        except ImportError:
            raise BackfillError(
                "Polars",
                "it is not installed",
                NOTHING_WAS_READ,
                "Run `pip install polars`, or ask for arrow()",
            ) from None
        return polars.from_arrow(self._arrow_table(self.pinned()))

    def duckdb(self, connection: "DuckDBPyConnection | None" = None) -> "DuckDBPyRelation":
        """Return an unordered DuckDB relation that reads when used; of `connection`, or of an
        engine of its own."""
        pinned = self.pinned()
        with errors_of_files(pinned.contract, NOTHING_WAS_READ):
            return (connection or new_engine(self.lake.root)).sql(pinned.query)

    def spark(self, session: Any = None) -> Any:
        """Return an unordered Spark DataFrame of `session`, or of the lake's own engine, which
        starts if it must."""
        pinned = self.pinned()
        return self._spark_frame(
            session or LakeSession(self.lake, project_session=self.project_session).for_reading(),
            pinned,
        )

    def _arrow_table(self, pinned: PinnedRows) -> Any:
        contract = pinned.contract
        order = ", ".join(
            quoted_name(c) for c in dict.fromkeys((contract.day_column, *contract.key))
        )
        with errors_of_files(contract, NOTHING_WAS_READ), new_engine(self.lake.root) as engine:
            return engine.sql(f"{pinned.query} ORDER BY {order}").to_arrow_table()


@dataclass(frozen=True)
class LakeReader:
    """An opened lake: all its tables are of one lake version, however long it stays open. It opens
    no file of a table before a call reads rows."""

    lake: Lake
    pipeline: Pipeline
    # The version of each table; None: their heads at each call.
    seen: Mapping[str, int] | None = None
    moment: Moment | None = None  # the past that was asked for
    project_session: Any = None  # a session of the project's own, for Spark frames
    note: Callable[[str], None] | None = field(
        default=None, repr=False, compare=False
    )  # told what is read, by name

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the lake's tables, upstream first."""
        return tuple(t.name for t in self.pipeline.tables)

    def table(self, name: str) -> "TableReader":
        """Return a table with all its days; raises BackfillError for an unknown name."""
        contract = self.pipeline.contract(name, NOTHING_WAS_READ)
        return TableReader(
            self.lake,
            self.pipeline,
            contract,
            moment=self.moment,
            seen=self.seen,
            project_session=self.project_session,
            note=self.note,
        )

    def snapshot(self, name: str) -> "SnapshotReader":
        """Return what `backfill-assets snapshot create` kept under that name; raises BackfillError
        otherwise."""
        found = find_snapshot(self.lake, name)
        if self.note is not None:
            self.note(f"the snapshot {name}")
        return SnapshotReader(self.lake, found)


@dataclass(frozen=True)
class TableReader(Readable):
    """Some days of a table at a version; `days` and `at` return another reader and change
    nothing."""

    lake: Lake
    pipeline: Pipeline
    contract: Contract
    span: DayRange | None = None
    moment: Moment | None = None
    unfit: Unfit = "refuse"
    seen: Mapping[str, int] | None = None
    project_session: Any = None
    note: Callable[[str], None] | None = field(default=None, repr=False, compare=False)

    def days(
        self, first: str | date, last: str | date | None = None, unfit: Unfit = "refuse"
    ) -> "TableReader":
        """Choose the days `first` through `last`, both included (None: that one day). For missing,
        stale, incomplete, unpinned or pending days reading raises UnfitDays, warns (`unfit="warn"`:
        UnfitDaysWarning), or reads them (`"take"`)."""
        return replace(self, span=day_range(first, last), unfit=unfit)

    def at(
        self,
        version: int | None = None,
        time: datetime | str | None = None,
        write_id: str | None = None,
    ) -> "TableReader":
        """Choose a version by number, by an instant (ISO text or datetime; UTC without an offset),
        or by the id of its write; the newest without any of them. Raises BackfillError for a
        version that the table lacks."""
        if sum(given is not None for given in (version, time, write_id)) > 1:
            raise ValueError("name one of version, time and write_id: they say the same")
        if write_id is not None:
            return replace(self, moment=Moment.after_write(self.lake, self.contract.name, write_id))
        moment = Moment(self.lake, version, instant_of(time))
        moment.of(self.contract.name)
        return replace(self, moment=moment if version is not None or time is not None else None)

    def pinned(self) -> PinnedRows:
        """Return the version, its files and the days; raises UnfitDays for days that are not fit.

        Without chosen days these are all days that hold rows: all but pending ones.
        """
        store, contract = self.lake.store, self.contract
        if self.note is not None:
            self.note(contract.name)
        if self.moment:
            view, states = (
                store.view(contract.name, contract.day_column, self.moment.of(contract.name)),
                None,
            )
        else:
            states = self.pipeline.states(read_view(self.lake, self.pipeline.contracts, self.seen))
            view = states.view.table(contract.name)
        days = sorted(
            d for d, receipt in view.latest.items() if receipt.entry.built is not Built.PENDING
        )
        days = days if self.span is None else contract.keys_in(self.span)
        unfit = (
            unfit_days_now(states, contract.name, days)
            if states
            else unfit_days_then(view, contract, days)
        )
        settle_unfit_days(contract, unfit, self.unfit)
        files = store.data_files(contract, view.version, days) if view.exists else []
        return PinnedRows(contract, view.version, files, days)

    def _spark_frame(self, session: Any, pinned: PinnedRows) -> Any:
        contract = self.contract
        if pinned.version is None or not exists_at(pinned.version):
            raise BackfillError(
                f"the table {contract.name}",
                "it was never made",
                NOTHING_WAS_READ,
                "Make days of it first",
            )
        day_column, days = contract.day_column, sorted(pinned.days)
        return read_frame(session, self.lake, contract.name, pinned.version, day_column, days)


def instant_of(time: datetime | str | None) -> datetime | None:
    """Return the instant, aware, of a time in words; raises BackfillError for another form."""
    if time is None:
        return None
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        raise BackfillError(
            f"the time {str(time)[:40]!r}",
            "it is not of the form 2024-03-31T12:00:00Z",
            NOTHING_WAS_READ,
            "Write it so",
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


@dataclass(frozen=True)
class SnapshotReader:
    """A snapshot of a lake; `snapshot` says who made it and when, and what it keeps."""

    lake: Lake
    snapshot: Snapshot

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the kept tables."""
        return tuple(self.snapshot.tables)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the kept content, for a model's card."""
        return self.snapshot.digest

    def table(self, name: str) -> "KeptTableReader":
        """Return a table with all kept days; raises BackfillError for a table that is not kept."""
        if name not in self.snapshot.tables:
            raise BackfillError(
                f"the snapshot {self.snapshot.name!r}",
                f"it keeps no table {name[:100]!r}",
                NOTHING_WAS_READ,
                f"Choose one of {', '.join(self.tables)}",
            )
        return KeptTableReader(self.lake, self.snapshot.name, self.snapshot.tables[name])


@dataclass(frozen=True)
class KeptTableReader(Readable):
    """Some days of a table as a snapshot keeps them."""

    lake: Lake
    name: str
    kept: KeptTable
    span: DayRange | None = None

    def days(self, first: str | date, last: str | date | None = None) -> "KeptTableReader":
        """Choose the days `first` through `last`, both included (None: that one day). Reading
        others than kept days raises BackfillError."""
        return replace(self, span=day_range(first, last))

    def pinned(self) -> PinnedRows:
        """Return the files, each proven by its SHA-256, and the days."""
        contract = self.kept.contract
        days = contract.keys_in(self.span) if self.span else sorted(self.kept.days)
        lacking = [d for d in days if d not in self.kept.days]
        if lacking:
            known = contiguous_ranges(self.kept.days)[:SHOWN_RANGES]
            raise BackfillError(
                f"the snapshot {self.name!r}",
                f"of {contract.name} it keeps no {lacking[0]}",
                NOTHING_WAS_READ,
                f"Ask for days of {', '.join(map(str, known))}",
            )
        folders = {f"{contract.day_column}={d}" for d in days}
        by_day = contract.is_by_day
        wanted = [f for f in self.kept.files if not by_day or folder_of(f.path) in folders]
        return PinnedRows(
            contract=contract,
            version=None,
            files=[str(kept_file_path(self.lake, self.name, self.kept, f)) for f in wanted],
            days=days,
        )

    def _spark_frame(self, session: Any, pinned: PinnedRows) -> Any:
        contract = pinned.contract
        if not contract.is_by_day:
            raise BackfillError(
                f"the snapshot {self.name!r}",
                f"{contract.name} is not laid out by its day",
                NOTHING_WAS_READ,
                "Ask for arrow(), and make a frame of that",
            )
        columns = tuple((c.name, c.type.lower()) for c in contract.columns)
        return read_plain(session, PlainFiles(tuple(pinned.files), columns, contract.day_column))
