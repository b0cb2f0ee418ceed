"""The port of storage: the tables of a lake by name, for the load path and its readers.

Lives here: the promise (`TableStore`). Does not live here: its one implementation (`delta_store`), staging (`staging`,
`writing`), mending (`inspection`) and rollbacks (`restore`), which work on the same log and files. Tables are named
here, never located. Addresses of data files are local paths so far: DuckDB, snapshots and recomputation open them.

A table has versions 0, 1, 2, …; each is one commit, whole or absent, with a receipt: who made it, from what.
Staged rows are not readable through the table until `replace_days` or `append` commits them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import TransientError
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.view import TableView
from backfill_assets.lake.log import Commit
from backfill_assets.lake.staging import Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


class Conflict(TransientError):
    """Another commit came first; re-read the log and try again."""


def folder_of(address: str) -> str:
    """The name of a data file's folder: its day if the table is laid out by days."""
    return address.rsplit("/", 2)[-2]


class TableStore(Protocol):
    """Tables by name. Every method may raise BackfillError for a log that has a gap or a torn commit.

    A table that does not exist has no commits, no rows and the version -1; the first write creates it. Only `frame`
    needs a JVM.
    """

    def exists(self, table: str) -> bool:
        """Whether the table was ever created."""

    def view(self, table: str, day_column: str, version: int | None = None) -> TableView:
        """The newest receipt of every day, the head, and days changed by others, at a version (None: the newest)."""

    def commits(self, table: str, after: int = -1) -> Iterator[Commit]:
        """The commits with a version greater than `after`, ascending."""

    def kept(self, table: str, name: str, read: Callable[[], T], version: int | None = None) -> T:
        """The result of `read`; the same object again while the commits up to `version` (None: all) are the same.

        `read` reads the table at that version; `name` tells its results apart. Callers must not change the object.
        """

    def data_files(
        self, contract: Contract, version: int | None = None, days: Collection[date] | None = None,
        *, altered: bool = False,
    ) -> list[str]:  # fmt: skip
        """Addresses of the Parquet files that hold these days (None: all) at a version (None: the newest).

        They may also hold other days if the table is not laid out by its day; else `folder_of` tells the day. Raises
        Altered if a file has another size than the log says, unless `altered` ones are wanted, too.
        """

    def rows(
        self, table: str, version: int | None = None, columns: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """The rows of a small table (columns: None = all) at a version (None: the newest)."""

    def own_rows(self, table: str) -> list[dict[str, Any]]:
        """The rows that commits of ours appended to a small table, whatever other programs did to it since.

        Raises BackfillError if a data file of ours is gone.
        """

    def query(self, sql: str, tables: Mapping[str, tuple[str, int | None]]) -> Iterator[Any]:
        """Arrow batches of a query; `tables` maps the names it uses to (table, version; None: the newest)."""

    def frame(
        self, session: "SparkSession", table: str, version: int, day_column: str, days: Sequence[date] | None = None
    ) -> "DataFrame":
        """The rows of some days (None: all) of a table, pinned at a version."""

    def lock(self, table: str) -> AbstractContextManager[None]:
        """One writer at a time: hold it to replace or append. Raises TransientError if it is held for an hour."""

    def replace_days(self, contract: Contract, staged: Staged | None, days: Collection[date], receipt: Receipt) -> int:
        """In one commit add the staged rows of `days` and remove the present rows of `days`; returns its version.

        Without days it commits only the receipt. Deletes staged files that it did not use. Raises Conflict if another
        commit came first, BackfillError if a file is not as it should be; then it wrote nothing. Tried once.
        """

    def append(self, contract: Contract, staged: Staged, receipt: Receipt) -> int:
        """In one commit add the staged rows; returns its version. Raises as `replace_days` does."""
