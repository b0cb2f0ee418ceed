"""The port of storage: all that the load path and its readers need of whatever holds the tables.

Lives here: the promise (`TableStore`) and its words. Does not live here: keeping it; `delta_store` does so with Delta
tables on a file system, and is the place to exchange for another store. Tables are named here, never located. What is
staged, and the addresses of data files, are local paths so far: DuckDB, snapshots and recomputation open them as such.

A table has versions 0, 1, 2, …; each is one commit, whole or absent, with a receipt: who made it, from what.
What is staged is not readable through the table until `replace_days` or `append` names it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import TransientError
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.view import TableView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backfill_assets.lake.replace import Provenance
    from backfill_assets.lake.staging import Staged

T = TypeVar("T")


class Conflict(TransientError):
    """Another commit came first; re-read the log and try again."""


@dataclass(frozen=True)
class Commit:
    """One commit: its version, its receipt (None: not ours), and when it was made (milliseconds since 1970, UTC)."""

    version: int
    receipt: Receipt | None
    timestamp_ms: int
    operation: str

    @property
    def at(self) -> datetime:
        """When it was made, as an aware instant."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    def names(self, day: date) -> bool:
        """Whether its receipt names the day."""
        return self.receipt is not None and day in self.receipt.days


@dataclass(frozen=True)
class LiveFile:
    """A data file that a version of a table names: its path below the table, partition value and bytes."""

    path: str
    partition: str | None
    size: int


@dataclass(frozen=True)
class Inspection:
    """What a look at a stored table finds, without an engine. Of a damaged log only that (`lacking`, `torn`) is known.

    `torn` are versions whose commits cannot be read. `foreign` are versions that
    changed data and are not ours; `absent` and `altered` data files of the newest version; `lost` and `lost_bytes` what
    no version names. `day_rows` are rows by the log's statistics; None where it does not tell them, and then `untold`
    says what.
    """

    commits: int = 0
    files: int = 0
    rows: int = 0
    lacking: tuple[int, ...] = ()
    torn: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()
    absent: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    lost: int = 0
    lost_bytes: int = 0
    day_rows: Mapping[date, int] | None = field(default_factory=dict)
    untold: str = ""
    checkpoints_torn: bool = False


@dataclass(frozen=True)
class Damage:
    """What can be mended: names of files in a table's log that no reader can use, or live data files of a ledger that
    are gone or altered."""

    aside: tuple[str, ...] = ()
    lost: tuple[LiveFile, ...] = ()

    @property
    def told(self) -> str:
        """In words, what mending it does."""
        done = [f"{', '.join(self.aside)} of its log set aside (as *.torn)"] if self.aside else []
        if self.lost:
            done.append(f"{len(self.lost)} data file(s) that are gone or altered taken out, first {self.lost[0].path}")
        return "; ".join(done)


def folder_of(address: str) -> str:
    """The name of a data file's folder: its day's where the table is laid out by days, whichever write made it."""
    return address.rsplit("/", 2)[-2]


class TableStore(Protocol):
    """Tables by name. Every method may raise BackfillError for a log that has a gap or a torn commit.

    A table that does not exist has no commits, no rows and the version -1; the first write makes it.
    """

    # What stands there: no JVM but for `frame`.

    def exists(self, table: str) -> bool:
        """Whether the table was ever made."""

    def address(self, table: str) -> str:
        """Where the table is, as a URI for people and other programs."""

    def view(self, table: str, day_column: str, version: int | None = None) -> TableView:
        """The newest receipt of every day, the head, and the days that others changed; as of a version that the table
        has (None: the newest)."""

    def commits(self, table: str, after: int = -1) -> Iterator[Commit]:
        """The commits with a version greater than `after`, ascending."""

    def read_commit(self, table: str, version: int) -> Commit:
        """One commit."""

    def live_files(self, contract: Contract, version: int | None = None) -> list[LiveFile]:
        """The data files of a version (None: the newest)."""

    def data_files(
        self, contract: Contract, version: int | None = None, days: Collection[date] | None = None,
        *, altered: bool = False,
    ) -> list[str]:  # fmt: skip
        """Addresses of the Parquet files that hold these days (None: all) at a version (None: the newest).

        They may hold other days besides where the table is not laid out by its day; `folder_of` tells the day else.
        Raises Altered where one of them is not as it was written, unless those are wanted, too (`altered`).
        """

    def altered(self, contract: Contract) -> str:
        """Which data files of the newest version are not as they were written, and what to do; empty where none is."""

    def columns(self, table: str) -> dict[str, str]:
        """The columns of the newest version: name -> type as contracts write it (another engine's word for others)."""

    def day_bytes(self, table: str, day_column: str) -> dict[date, int]:
        """Bytes of data files per day; days without a file are not in it."""

    def row_bytes(self, table: str) -> float:
        """About what a row takes on disk, in bytes, by what was written last; 0.0 where nothing was. Milliseconds."""

    def inspect(self, contract: Contract) -> Inspection:
        """Whether the log is whole and its files are there; also of a table that no engine opens any more."""

    def unmoved(self, table: str, what: str, read: Callable[[], T], version: int | None = None) -> T:
        """What `read` gives of a table, named `what`; possibly the same object again while the table has no new commit
        (`version` None), or while the commits up to the version that `read` reads are the same.

        For what is read at every look. Nobody may change what it returns.
        """

    # Rows.

    def frame(
        self, session: "SparkSession", table: str, version: int, day_column: str, days: Sequence[date] | None = None
    ) -> "DataFrame":
        """The rows of some days (None: all) of a table, pinned at a version."""

    def rows(
        self, table: str, version: int | None = None, columns: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """The rows of a small table (columns: None = all) at a version (None: the newest)."""

    def own_rows(self, table: str) -> list[dict[str, Any]]:
        """The rows that commits of ours appended to a small table, whatever other programs did to it since.

        Raises BackfillError where a data file of ours is gone.
        """

    def query(self, sql: str, tables: Mapping[str, tuple[str, int | None]]) -> Iterator[Any]:
        """Arrow batches of a query over tables, given by the names it uses: table and version (None: the newest)."""

    # Writing: a commit is tried once, and happens whole or not at all.

    def lock(self, table: str) -> AbstractContextManager[None]:
        """One writer at a time. Whoever replaces, appends or puts back holds it."""

    def begin(self, contract: Contract) -> "Staged":
        """An empty staging for one write of a table, held by this process; the caller drops it or has it committed."""

    def stage(self, contract: Contract, frame: "DataFrame", days: int = 1) -> "Staged":
        """The rows of a conformed frame of Spark's, of so many days at the most, written once."""

    def stage_rows(self, contract: Contract, rows: Sequence[Sequence[Any]]) -> "Staged":
        """A few rows of ours, cells in the contract's order, without an engine, for a table without partitions."""

    def stage_query(self, contract: Contract, query: str) -> "Staged":
        """The rows of a query of the embedded engine, whose columns are the contract's, without a JVM."""

    def read_staged(self, session: "SparkSession", contract: Contract, staged: "Staged") -> "DataFrame":
        """What was staged, as the rows that a commit of it would bring."""

    def sweep(self, table: str) -> int:
        """Remove what killed processes staged and never committed; returns how many writes that were."""

    def replace_days(
        self, contract: Contract, staged: "Staged | None", days: Collection[date], receipt: Receipt
    ) -> int:
        """In one commit the staged rows of `days` in, the rows of `days` there were out; returns its version.

        Without days only the receipt is committed. What was staged and not used is deleted. Raises Conflict where
        another commit came first, BackfillError where a file is not what it should be; then nothing was written.
        """

    def append(self, contract: Contract, staged: "Staged", receipt: Receipt) -> int:
        """In one commit the staged rows in, nothing out; returns its version. Raises as `replace_days` does."""

    def append_receipt(self, table: str, receipt: Receipt) -> int:
        """One commit of a receipt alone; returns its version. Raises as `replace_days` does."""

    def damage(self, contract: Contract) -> Damage:
        """What is wrong that `mend` mends. Raises BackfillError where that is nothing."""

    def mend(self, contract: Contract, provenance: "Provenance") -> Damage:
        """Make a damaged table readable and writable again; what was done. Raises as `damage` does."""
