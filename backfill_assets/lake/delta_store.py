"""The store of tables as Delta tables on a file system: `store.TableStore` by committer, log and staging.

Lives here: table names become folders. Does not live here: the pieces. Another store (a catalogue) is a file like this
one, chosen in `home.Lake.store`; another place for the files is another `files`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_assets.core.contracts import Contract
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.view import TableView
from backfill_assets.lake import files, log, plain, rows
from backfill_assets.lake.committer import commit_files, ensure_table
from backfill_assets.lake.data_files import files_of, files_of_days, refuse_altered
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.log import Commit, LiveFile
from backfill_assets.lake.log_state import LOGS, state_at
from backfill_assets.lake.merge import merge_days
from backfill_assets.lake.staging import Staged, StagedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


@dataclass(frozen=True)
class DeltaStore:
    """The tables of a lake, each in a folder of its name. `TableStore` says what each method promises."""

    lake: LakeFolder

    def exists(self, table: str) -> bool:
        """Whether its log has a commit."""
        return bool(log.versions(self.lake.table_path(table)))

    def view(self, table: str, day_column: str, version: int | None = None) -> TableView:
        """By its log, of which only new commits are read."""
        path = self.lake.table_path(table)
        return LOGS.state(path, day_column) if version is None else state_at(path, day_column, version)

    def commits(self, table: str, after: int = -1) -> Iterator[Commit]:
        """By its log; kept if all are asked for."""
        path = self.lake.table_path(table)
        return iter(LOGS.commits(path)) if after < 0 else log.commits(path, after)

    def kept(self, table: str, name: str, read: Callable[[], T], version: int | None = None) -> T:
        """By its commit files."""
        return LOGS.value(self.lake.table_path(table), name, lambda _before, _last: read(), version)

    def data_files(
        self, contract: Contract, version: int | None = None, days: Collection[date] | None = None,
        *, altered: bool = False,
    ) -> list[str]:  # fmt: skip
        """Paths of local files."""
        path = self.lake.table_path(contract.name)
        found = files_of_days(files_of(self.lake, contract, version), contract, days)
        if not altered:
            refuse_altered(path, found)
        return [str(path / f.path) for f in found]

    def rows(
        self, table: str, version: int | None = None, columns: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """By delta-rs."""
        return rows.read_arrow(self.lake.table_path(table), version, columns)

    def own_rows(self, table: str) -> list[dict[str, Any]]:
        """By delta-rs; from our files themselves if others changed the table."""
        return rows.read_ours(self.lake.table_path(table))

    def query(self, sql: str, tables: Mapping[str, tuple[str, int | None]]) -> Iterator[Any]:
        """By delta-rs's query engine."""
        return rows.query(sql, {n: (self.lake.table_path(table), v) for n, (table, v) in tables.items()})

    def frame(
        self, session: "SparkSession", table: str, version: int, day_column: str, days: Sequence[date] | None = None
    ) -> "DataFrame":
        """By Spark or Sail."""
        return plain.read_frame(session, self.lake.table_path(table), version, day_column, days)

    def lock(self, table: str) -> AbstractContextManager[None]:
        """A lock of the kernel, freed when its holder dies."""
        return files.table_lock(self.lake.locks, table)

    def replace_days(self, contract: Contract, staged: Staged | None, days: Collection[date], receipt: Receipt) -> int:
        """One commit of delta-rs."""
        self._ensure_table(contract)
        adds, removes = self._files(contract, staged, days)
        return self._commit(contract, staged, replace(receipt, bytes=sum(f.size for f in adds)), adds, removes)

    def append(self, contract: Contract, staged: Staged, receipt: Receipt) -> int:
        """One commit of delta-rs."""
        self._ensure_table(contract)
        return self._commit(contract, staged, receipt, staged.files, ())

    def _ensure_table(self, contract: Contract) -> None:
        ensure_table(self.lake.table_path(contract.name), contract, self.lake.settings.retention.rollback_days)

    def _commit(
        self, contract: Contract, staged: Staged | None, receipt: Receipt,
        adds: Sequence[StagedFile], removes: Sequence[LiveFile],
    ) -> int:  # fmt: skip
        path = self.lake.table_path(contract.name)
        if staged is not None:
            staged.tried = True  # first of all: an exception may come at any moment from here on
        version = commit_files(path, contract, receipt, adds, removes)
        if staged is not None:
            staged.keep({str(f.path) for f in adds})
        return version

    def _files(
        self, contract: Contract, staged: Staged | None, days: Collection[date]
    ) -> tuple[Sequence[StagedFile], Sequence[LiveFile]]:
        """The files to add and those to remove so that these days are replaced."""
        if not days:
            return (), ()
        live = files_of(self.lake, contract)
        if contract.partition_column != contract.day_column:
            return merge_days(self.lake, contract, staged, live, days)
        named = {str(d) for d in days}
        comes = staged.files if staged is not None else ()
        return [f for f in comes if f.partition in named], files_of_days(live, contract, days)
