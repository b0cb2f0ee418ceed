"""The store of tables as Delta tables on a file system: `store.TableStore` kept by the committer, logs and staging.

Lives here: table names become folders, and which piece keeps which promise. Does not live here: the pieces. Who wants
another store (an object store, a catalogue) writes a file like this one and names it in `home.Lake.store`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.view import TableView
from backfill_assets.engine.session import sail_scratch
from backfill_assets.lake import log, mending, rows, staging
from backfill_assets.lake.committer import commit_files, commit_receipt, ensure_table, live_files
from backfill_assets.lake.home import Lake
from backfill_assets.lake.inspection import inspect
from backfill_assets.lake.lock import table_lock
from backfill_assets.lake.merge import merge_days
from backfill_assets.lake.opening import read_delta
from backfill_assets.lake.plain import plain_files, read_plain
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.sizes import (
    altered_files,
    day_bytes,
    how_to_mend,
    refuse_altered,
    row_bytes,
    told_altered,
)
from backfill_assets.lake.stage_query import stage_frame, stage_query
from backfill_assets.lake.staging import Staged, StagedFile
from backfill_assets.lake.store import Commit, Damage, Inspection, LiveFile
from backfill_assets.lake.table import days_predicate
from backfill_assets.lake.type_names import type_of_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


@dataclass(frozen=True)
class DeltaStore:
    """The tables of a lake, each in a folder of its name. What each method promises stands in `TableStore`."""

    lake: Lake

    def exists(self, table: str) -> bool:
        """Whether its log has a commit."""
        return rows.is_table(self.lake.table_path(table))

    def address(self, table: str) -> str:
        """Its folder as a `file:` URI."""
        return self.lake.table_path(table).as_uri()

    def view(self, table: str, day_column: str, version: int | None = None) -> TableView:
        """By its log, of which only what is new is read where the lake has `logs`."""
        path, logs = self.lake.table_path(table), self.lake.logs
        if version is not None:
            return log.views_at(path, day_column, [version])[version]
        return log.table_view(path, day_column) if logs is None else logs.view(path, day_column)

    def commits(self, table: str, after: int = -1) -> Iterator[Commit]:
        """From its log."""
        path = self.lake.table_path(table)
        if self.lake.logs is not None and after < 0:
            return iter(self.lake.logs.commits(path))
        return log.commits(path, after)

    def read_commit(self, table: str, version: int) -> Commit:
        """From its log."""
        return log.read_commit(self.lake.table_path(table), version)

    def live_files(self, contract: Contract, version: int | None = None) -> list[LiveFile]:
        """By delta-rs."""
        opened = read_delta(self.lake.table_path(contract.name), version)
        return live_files(opened, contract.partition_column)

    def data_files(
        self, contract: Contract, version: int | None = None, days: Collection[date] | None = None,
        *, altered: bool = False,
    ) -> list[str]:  # fmt: skip
        """Paths of local files."""
        found, path = self.live_files(contract, version), self.lake.table_path(contract.name)
        if days is not None and contract.partition_column == contract.day_column:
            named = {str(d) for d in days}
            found = [f for f in found if f.partition in named]
        if not altered:
            refuse_altered(path, found)
        return [str(path / f.path) for f in found]

    def altered(self, contract: Contract) -> str:
        """By their sizes: one `stat` for each file of the newest version; of a log that cannot be opened `inspect`
        tells more."""
        from deltalake.exceptions import DeltaError

        path = self.lake.table_path(contract.name)
        try:
            found = altered_files(path, self.live_files(contract)) if self.exists(contract.name) else []
        except DeltaError:
            return ""
        return f"{told_altered(found)}. {how_to_mend(path, found)}" if found else ""

    def columns(self, table: str) -> dict[str, str]:
        """By the schema in its log; none where the log cannot be opened, which `inspect` tells."""
        from deltalake.exceptions import DeltaError

        if not self.exists(table):
            return {}
        try:
            fields = read_delta(self.lake.table_path(table)).schema().fields
        except DeltaError:
            return {}
        return {f.name: str(type_of_delta(f.type) or f.type) for f in fields}

    def day_bytes(self, table: str, day_column: str) -> dict[date, int]:
        """By delta-rs."""
        return day_bytes(self.lake.table_path(table), day_column)

    def row_bytes(self, table: str) -> float:
        """By its log."""
        return row_bytes(self.lake.table_path(table))

    def inspect(self, contract: Contract) -> Inspection:
        """By reading log and folder directly."""
        return inspect(self.lake.table_path(contract.name), contract)

    def unmoved(self, table: str, what: str, read: Callable[[], T], version: int | None = None) -> T:
        """By its commit files, where the lake has `logs`; else it is read every time."""
        logs = self.lake.logs
        return read() if logs is None else logs.unmoved(self.lake.table_path(table), what, read, version)

    def frame(
        self, session: "SparkSession", table: str, version: int, day_column: str, days: Sequence[date] | None = None
    ) -> "DataFrame":
        """From the plain files of the days; by Delta's reader in Spark where these alone do not give the rows."""
        path = self.lake.table_path(table)
        files = plain_files(path, version, day_column, days)
        if files is not None:
            return read_plain(session, files)
        if sail_scratch(session) is not None:
            raise BackfillError(
                f"the table {table}", "another program gave it what Sail was not tried with", "It was not read",
                'Set engine = "embedded" for this lake',
            )  # fmt: skip
        refuse_altered(path, live_files(read_delta(path, version), ""))
        frame = session.read.format("delta").option("versionAsOf", version).load(str(path))
        if days is None:
            return frame
        return frame.where(days_predicate(day_column, days)) if days else frame.limit(0)

    def rows(
        self, table: str, version: int | None = None, columns: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """By delta-rs."""
        return rows.read_arrow(self.lake.table_path(table), version, columns)

    def own_rows(self, table: str) -> list[dict[str, Any]]:
        """By delta-rs; from our files themselves where others changed the table."""
        return rows.read_ours(self.lake.table_path(table), self.lake.logs)

    def query(self, sql: str, tables: Mapping[str, tuple[str, int | None]]) -> Iterator[Any]:
        """By delta-rs's query engine."""
        return rows.query(sql, {n: (self.lake.table_path(table), v) for n, (table, v) in tables.items()})

    def lock(self, table: str) -> AbstractContextManager[None]:
        """A lock of the kernel, freed when its holder dies. Raises TransientError when it is held for an hour."""
        return table_lock(self.lake.locks, table)

    def begin(self, contract: Contract) -> Staged:
        """A folder of its own below the table's."""
        return staging.begin(self.lake, contract)

    def stage(self, contract: Contract, frame: "DataFrame", days: int = 1) -> Staged:
        """Parquet files by Spark; few rows of many days are parted by DuckDB."""
        return stage_frame(self.lake, contract, frame, days)

    def stage_rows(self, contract: Contract, rows: Sequence[Sequence[Any]]) -> Staged:
        """One Parquet file by pyarrow."""
        return staging.stage_rows(self.lake, contract, rows)

    def stage_query(self, contract: Contract, query: str) -> Staged:
        """Parquet files by DuckDB."""
        return stage_query(self.lake, contract, query)

    def read_staged(self, session: "SparkSession", contract: Contract, staged: Staged) -> "DataFrame":
        """By Spark, from its folder."""
        return staging.read_staged(session, contract, staged)

    def sweep(self, table: str) -> int:
        """What nobody holds any more."""
        return staging.sweep(self.lake, table)

    def replace_days(self, contract: Contract, staged: Staged | None, days: Collection[date], receipt: Receipt) -> int:
        """One commit of delta-rs."""
        self._make(contract)
        adds, removes = self._files(contract, staged, days)
        size = sum(f.path.stat().st_size for f in adds)
        return self._commit(contract, staged, replace(receipt, bytes=size), adds, removes)

    def append(self, contract: Contract, staged: Staged, receipt: Receipt) -> int:
        """One commit of delta-rs."""
        self._make(contract)
        return self._commit(contract, staged, receipt, staged.files, ())

    def append_receipt(self, table: str, receipt: Receipt) -> int:
        """One commit of delta-rs, without a file."""
        return commit_receipt(self.lake.table_path(table), receipt)

    def damage(self, contract: Contract) -> Damage:
        """By its log, and the sizes of its files."""
        return mending.damage(self.lake.table_path(contract.name), contract)

    def mend(self, contract: Contract, provenance: Provenance) -> Damage:
        """Renames in its log, and one commit of delta-rs, under the table's lock."""
        with self.lock(contract.name):
            return mending.mend(self.lake.table_path(contract.name), contract, provenance)

    def _make(self, contract: Contract) -> None:
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
        """The files that come and those that go, for these days to be replaced."""
        if not days:
            return (), ()
        live = self.live_files(contract)
        if contract.partition_column != contract.day_column:
            return merge_days(self.lake, contract, staged, live, days)
        named = {str(d) for d in days}
        comes = staged.files if staged is not None else ()
        return [f for f in comes if f.partition in named], [f for f in live if f.partition in named]
