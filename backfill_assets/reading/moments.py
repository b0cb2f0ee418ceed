"""A table as of a moment: a version of it, in this lake or in another one.

Not here: what differs between two moments (`compare`), and the moment that a reader of a lake
means (`reader`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import numbered_version, versions_seen


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
            version = together[table]
        else:
            version = self._version_by_commits(table)
        if not exists_at(version):
            raise BackfillError(
                f"the table {table} of {self.lake.address}",
                f"it has no {self._in_words()}",
                "Nothing was compared",
                f"`backfill-assets audit --table {table}` lists all writes",
            )
        return version

    def _version_by_commits(self, table: str) -> int:
        """Return the version of the table by its own commits; -1 where it had none then."""
        by = self._instant()
        newest = -1
        for commit in self.lake.store.commits(table):
            is_in_time = by is None or commit.at <= by
            if is_in_time and self.version in (None, commit.version):
                newest = commit.version
        return newest

    def _instant(self) -> datetime | None:
        """Return the instant that `at` means, of a lake version when it was written; None where the
        moment has no `at`. Raises BackfillError for a lake version that the lake does not keep."""
        if isinstance(self.at, int):
            return numbered_version(self.lake, self.at).at
        return self.at

    def _in_words(self) -> str:
        """Return the moment in words, as sentences name it."""
        if isinstance(self.at, int):
            return f"commit in lake version {self.at}"
        if self.version is not None:
            return f"version {self.version}"
        return f"commit by {self.at or 'now'}"


@contextmanager
def errors_of_files(contract: Contract, undone: str) -> Iterator[None]:
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
