"""The port of storage: the tables of a lake by name, kept as Delta tables on a file system.

Not here: staging (`staging`, `query_files`), mending (`upkeep.inspection`) and rollbacks
(`plans.restore`), which work on the same log and files, which lie in a `Place`.

A table has versions 0, 1, 2, …; each is one commit, whole or absent, with a receipt. Staged rows
are not readable through the table until `replace_days` or `append` commits them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

from deltalake import DeltaTable, QueryBuilder

from backfill_assets.kernel.core.contracts import Contract, refuse_external
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.view import (
    NO_VERSION,
    TableView,
    exists_at,
)
from backfill_assets.kernel.log import log
from backfill_assets.kernel.log.log import Commit, LiveFile
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.port import Place, table_lock
from backfill_assets.kernel.tables.columns import (
    KEEPS_LOG,
    column_types_by_day,
    delta_schema,
    rows_of_files,
    rows_where,
)
from backfill_assets.kernel.tables.committer import (
    CHECKPOINT_EVERY,
    commit_files,
    commit_receipt,
    newer_writes_check,
    stale_commit_error,
    store_refusal_error,
)
from backfill_assets.kernel.tables.data_files import (
    files_of_days,
    files_of_version,
    gone_or_altered,
    live_files,
    refuse_altered_files,
)
from backfill_assets.kernel.tables.embedded import delta_rows
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.folder import TABLES, LakeFolder
from backfill_assets.kernel.tables.query_files import merge_days
from backfill_assets.kernel.tables.staging import Committing, Staged, StagedFile, announce_nothing
from backfill_assets.kernel.tables.table_places import table_at

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from duckdb import DuckDBPyConnection

T = TypeVar("T")


@dataclass(frozen=True)
class TableStore:
    """Tables by name. Every method may raise BackfillError for a log that has a gap or a torn
    commit.

    A table that does not exist has no commits, no rows and the version `NO_VERSION`; the first
    write creates it. No method needs a JVM."""

    lake: LakeFolder

    def exists(self, table: str) -> bool:
        """Whether the table was ever created."""
        return exists_at(self.head(table))

    def head(self, table: str) -> int:
        """The newest version of a table; `NO_VERSION` where it does not exist."""
        return LOGS.head(self.lake.table_place(table))

    def view(self, table: str, day_column: str, version: int | None = None) -> TableView:
        """The newest receipt of every day, the head, and days changed by others, at a version
        (None: the newest; `NO_VERSION`: before the first). Raises KeyError for a version that the
        table lacks."""
        path = self.lake.table_place(table)
        found = LOGS.state(path, day_column, version) if version != NO_VERSION else TableView()
        if version not in (None, found.version):
            raise KeyError(version)
        return found

    def commits(self, table: str, after: int = -1) -> Iterator[Commit]:
        """The commits with a version greater than `after`, ascending."""
        return iter(LOGS.commits(self.lake.table_place(table), after))

    def commit(self, table: str, version: int) -> Commit:
        """One commit, read alone."""
        return log.read_commit(self.lake.table_place(table), version)

    def receipt(self, table: str, version: int) -> Receipt | None:
        """The receipt of one commit; None for one that is not ours."""
        return self.commit(table, version).receipt

    def newest_commits(self, table: str) -> Iterator[Commit]:
        """The commits of a table, newest first, each read when it is wanted."""
        place = self.lake.table_place(table)
        versions = range(LOGS.head(place), log.first_version_of(place) - 1, -1)
        return (log.read_commit(place, version) for version in versions)

    def kept(self, table: str, name: str, read: Callable[[], T], version: int | None = None) -> T:
        """The result of `read`; the same object again while the commits up to `version` (None: all)
        are the same.

        `read` reads the table at that version; `name` tells its results apart. Callers must not
        change the object.
        """
        return LOGS.value(
            self.lake.table_place(table), name, lambda _before, _last: read(), version
        )

    def data_files(
        self,
        contract: Contract,
        version: int | None = None,
        days: Collection[date] | None = None,
        *,
        altered: bool = False,
    ) -> list[str]:
        """Paths of the Parquet files that hold these days (None: all) at a version (None: the
        newest).

        They may also hold other days if the table is not laid out by its day; else `folder_of`
        tells the day. Raises Altered if a file is gone or has another size than the log says,
        unless `altered` ones are wanted, too.
        """
        return [f.path for f in self.files(contract, version, days, altered=altered)]

    def files(
        self,
        contract: Contract,
        version: int | None = None,
        days: Collection[date] | None = None,
        *,
        altered: bool = False,
    ) -> list[StagedFile]:
        """The files of `data_files`, none of them fetched from a bucket."""
        table = self.lake.table_place(contract.name)
        live = files_of_version(self.lake, contract, version)
        wanted = files_of_days(live, contract, days)
        if not altered:
            refuse_altered_files(table, wanted)
        return [StagedFile(table, f.path, f.partition, listed=f.size) for f in wanted]

    def rows(
        self,
        table: str,
        version: int | None = None,
        columns: Sequence[str] | None = None,
        where: str = "true",
    ) -> list[dict[str, Any]]:
        """The rows of a small table for which the SQL condition `where` holds, with these `columns`
        (None: all), at a version (None: the newest). Raises BackfillError if a data file is
        gone."""
        newest = self.head(table)
        if not exists_at(newest):
            return []
        path = self.lake.table_place(table)
        pinned = LOGS.opened(path, newest if version is None else version)
        names = list(columns) if columns else [f.name for f in pinned.schema().fields]
        try:
            if path.is_store and where == "true" and not pinned.metadata().partition_columns:
                return rows_of_files(path, [f.path for f in live_files(pinned, "")], names)
            query = f"SELECT {', '.join(map(quoted_name, names))} FROM t WHERE {where}"
            batches = list(self.query(query, {"t": (table, pinned.version())}))
        except Exception as error:
            if gone := gone_or_altered(path, live_files(pinned, "")):
                raise _lost_files_error(path, gone) from error
            raise
        rows = []
        for batch in batches:
            columns_of = [batch.column(name).to_pylist() for name in names]
            rows += [dict(zip(names, row, strict=True)) for row in zip(*columns_of, strict=True)]
        return rows

    def logged_rows(self, engine: "DuckDBPyConnection", table: str, version: int) -> str:
        """Query for the rows of a version of a table without a known contract, with the columns
        that its log names."""
        return delta_rows(engine, self.lake.table_place(table), version, is_lakes=True)[1]

    def moves_rows(self, table: str, version: int) -> bool:
        """Whether a commit added or removed files whose rows are not those of others."""
        place = self.lake.table_place(table)
        return any(change.moves_rows for change in log.file_changes(place, version))

    def marks(self, contract: Contract, version: int) -> tuple[dict[str, str], str]:
        """Type of each column of the contract in a version of its table, which may have been
        narrower, and the table's id in Delta's log: another one after its folder was moved away and
        it was made again."""
        opened = LOGS.opened(self.lake.table_place(contract.name), version)
        kinds, types = column_types_by_day(opened, contract.day_column), {}
        for column in contract.columns:
            types[column.name] = str(kinds.get(column.name) or column.type)
        return types, str(opened.metadata().id)

    def own_rows(self, table: str, day_column: str) -> list[dict[str, Any]]:
        """Rows that commits of ours appended to a small table without partitions, whatever other
        programs changed since. Raises BackfillError if a data file of ours is gone."""
        place = self.lake.table_place(table)
        if not LOGS.state(place, day_column).others:  # no commit that is not ours changed rows
            return self.rows(table)
        return rows_of_files(place, self.own_files(table, day_column))

    def own_rows_where(
        self, table: str, files: Sequence[str], where: "pc.Expression"
    ) -> list[dict[str, Any]]:
        """The rows of some of the `own_files` of a table for which `where` holds; raises as
        `own_rows` does."""
        with self.explaining_lost(table):
            return rows_where(self.lake.table_place(table), files, where)

    def own_files(self, table: str, day_column: str) -> list[str]:
        """The names in a table without partitions of the data files that commits of ours added and
        none of ours removed, whatever other programs changed since; raises as `own_rows` does."""
        path = self.lake.table_place(table)
        state = LOGS.state(path, day_column)
        if not state.exists:
            return []
        if not state.others:
            return [file.path for file in live_files(LOGS.opened(path, state.version), "")]
        own_files = _own_files(path)
        if gone := [f for f in own_files if not path.exists(f)]:
            culprit = (
                f"another program changed it, and {len(gone)} data file(s) of ours are gone, "
                f"first {gone[0]}"
            )
            fix = "Restore the table's folder from a backup; nothing else knows what had landed"
            raise BackfillError(f"the table {table}", culprit, "It was not read", fix)
        return own_files

    def own_paths(self, table: str, day_column: str) -> list[str]:
        """The paths of `own_files` for engines of this machine; of a store's those of copies."""
        place = self.lake.table_place(table)
        return [str(place.local(name)) for name in self.own_files(table, day_column)]

    @contextmanager
    def explaining_lost(self, table: str) -> Iterator[None]:
        """Raises BackfillError in place of an error while data files of a table are read, if some
        of the newest version are gone or altered."""
        try:
            yield
        except BackfillError:
            raise
        except Exception as error:
            path, newest = self.lake.table_place(table), self.head(table)
            live = live_files(LOGS.opened(path, newest), "") if newest >= 0 else []
            if gone := gone_or_altered(path, live):
                raise _lost_files_error(path, gone) from error
            raise

    def query(self, sql: str, tables: Mapping[str, tuple[str, int | None]]) -> Iterator[Any]:
        """Arrow batches of a query; `tables` maps the names it uses to (table, version; None: the
        newest). Raises BackfillError where a data file cannot be read."""
        engine = QueryBuilder()
        for name, (table, version) in tables.items():
            engine = engine.register(name, LOGS.opened(self.lake.table_place(table), version))
        try:
            yield from engine.execute(sql)
        except Exception as error:
            self.lake.place.refuse_loss(error)
            named = ", ".join(table for table, _ in tables.values())
            cause, _, _ = str(error).partition("\n")
            raise BackfillError(
                f"the table {named}",
                f"it is unreadable ({cause})",
                "Nothing was read",
                "`backfill-assets verify` names damaged files, and the way back",
            ) from error

    def lock(self, table: str) -> AbstractContextManager[None]:
        """One writer at a time: hold it to replace or append. Raises TransientError if it is held
        for an hour.

        The kernel frees it when its holder dies. Raises BackfillError for a table that a candidate
        only reads.
        """
        self.lake.refuse_shared(table)
        return table_lock(self.lake.place, table)

    def replace_days(
        self,
        contract: Contract,
        staged: Staged | None,
        days: Collection[date],
        receipt: Receipt,
        since: int | None = None,
    ) -> int:
        """In one commit add the staged rows of `days` and remove the present rows of `days`;
        returns its version.

        Without days it commits only the receipt. Deletes staged files that it did not use. Raises
        Conflict if another commit came first, also one that wrote days after version `since`
        (`NO_VERSION`: before the first), Swept as `Staged`, BackfillError if a file is not as it
        should be; then it wrote nothing. Tried once."""
        if staged is not None and staged.tried and since is not None:
            staged.committing(since + 1)  # first of all: its files may be swept since the last try
        self._ensure_table(contract, since)
        with staged.explaining_loss() if staged is not None else nullcontext():
            adds, removes = self._changed_files(contract, staged, days, since)
            receipt = replace(receipt, bytes=sum(f.size for f in adds))
            return self._commit_changes(contract, staged, receipt, (adds, removes), since)

    def append(self, contract: Contract, staged: Staged, receipt: Receipt) -> int:
        """In one commit add the staged rows; returns its version. Raises as `replace_days` does."""
        self._ensure_table(contract, NO_VERSION)
        with staged.explaining_loss():
            return self._commit_changes(contract, staged, receipt, (staged.files, ()))

    def commit_alone(self, receipt: Receipt) -> int:
        """Commit a receipt to its table, without files; returns the version. The caller
        holds the table's lock. Raises as `kernel.tables.committer.commit_files` does."""
        self.lake.refuse_shared(receipt.table)
        return commit_receipt(self.lake.table_place(receipt.table), receipt)

    def _ensure_table(self, contract: Contract, known: int | None) -> None:
        self.lake.refuse_shared(contract.name)
        refuse_external(contract)
        if known is None or not exists_at(known):
            ensure_table(self.lake, contract)

    def _commit_changes(
        self,
        contract: Contract,
        staged: Staged | None,
        receipt: Receipt,
        files: tuple[Sequence[StagedFile], Sequence[LiveFile]],
        since: int | None = None,
    ) -> int:
        """Add and remove the files, unless another commit wrote days after version `since`."""
        table, (adds, removes) = self.lake.table_place(contract.name), files
        committing: Committing = staged.committing if staged is not None else announce_nothing
        if since is not None:
            committing = newer_writes_check(table, since, committing)
        if staged is not None:
            staged.tried = True  # first of all: an exception may come at any moment from here on
        version = commit_files(table, contract, receipt, adds, removes, committing)
        if staged is not None:
            staged.keep({f.name for f in adds})
        return version

    def _changed_files(
        self, contract: Contract, staged: Staged | None, days: Collection[date], since: int | None
    ) -> tuple[Sequence[StagedFile], Sequence[LiveFile]]:
        """The files to add and to remove so that these days are replaced. In a store one look
        (`since`) is enough: if the table moved on, the commit is refused."""
        if not days:
            return (), ()
        is_known = self.lake.place.is_store and since != NO_VERSION
        live = files_of_version(self.lake, contract, since if is_known else None)
        if not contract.is_by_day:
            return merge_days(self.lake, contract, staged, live, days)
        replaced = files_of_days(live, contract, days)
        if staged is None:
            return (), replaced
        named = {str(d) for d in days}
        return [f for f in staged.files if f.partition in named], replaced


def ensure_table(lake: LakeFolder, contract: Contract) -> None:
    """Create the table with its whole schema and properties, unless it exists. The caller holds its
    lock; should that be lost, another process may create it first."""
    table = lake.table_place(contract.name)
    if exists_at(LOGS.head(table)):
        return
    if table.is_store and table_at(lake.place, contract.name) != table:
        raise stale_commit_error(table, "it was adopted, and lies elsewhere")
    try:
        days = lake.settings.retention.rollback_days
        log.asked_again(table, lambda: _create_table(table, contract, days))
    except Exception as error:  # the log decides whether it exists
        if not log.commit_versions(table):
            raise store_refusal_error(table, error) from error
    lake.place.sync_new([f"{TABLES}/{contract.name}/{log.commit_name(0)}"])


def _create_table(table: Place, contract: Contract, rollback_days: int) -> None:
    """Create the table by delta-rs, which raises where it exists."""
    DeltaTable.create(
        table.uri(),
        delta_schema(contract.columns),
        mode="error",
        partition_by=[contract.partition_column] if contract.partition_column else None,
        description=contract.description,
        configuration={
            "delta.checkpointInterval": str(CHECKPOINT_EVERY),
            # A log that is never changed holds no values of a column.
            "delta.dataSkippingNumIndexedCols": "0",
            "delta.enableDeletionVectors": "false",  # other engines read plain files
            **KEEPS_LOG,
            "delta.deletedFileRetentionDuration": f"interval {rollback_days} days",
            "delta.setTransactionRetentionDuration": "interval 30 days",
        },
    )


def _own_files(table: Place) -> list[str]:
    """Data files that our commits added and that no commit of ours removed."""
    added: dict[str, None] = {}
    for commit in log.read_commits(table):
        for change in log.file_changes(table, commit.version):
            if commit.receipt is not None or not change.moves_rows:
                added.pop(change.path, None)
                added |= {change.path: None} if change.is_added else {}
    return list(added)


def _lost_files_error(table: Place, gone: Sequence[LiveFile]) -> BackfillError:
    return BackfillError(
        f"the table {table.name}",
        f"{len(gone)} data file(s) that its log names are gone or altered, first {gone[0].path}",
        "It was not read",
        "Run `backfill-assets doctor`, which says how each table is mended; a ledger (files, "
        "arrivals) is by "
        f"{log.mend_command(table)}, then `backfill-assets catch-up`",
    )
