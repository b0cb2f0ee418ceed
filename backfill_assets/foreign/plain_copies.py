"""Copies of those files of a table of others that do not give its rows as they lie: some of their
rows are deleted by a deletion vector, their columns are called otherwise than in the table, or no
folder of theirs names their day.

Not here: which days changed (`foreign.observing`), and how such a file is read
(`intake.plain_form`). A copy lies in the lake's folder of the table, whose log names it in the
file's place, so that every reader and engine reads plain files. Its name says which rows it has:
another vector, or another name of a column, is another copy, which tells that its days may have
changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from backfill_assets.foreign.external import PLAIN, Reference, external_table_error
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.log.log import commit_name, file_changes
from backfill_assets.kernel.log.log_bounds import data_fault
from backfill_assets.kernel.place.choice import place_of_others
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.columns import duckdb_name
from backfill_assets.kernel.tables.embedded import duckdb_cursor
from backfill_assets.kernel.tables.folder import LakeFolder

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

COPIES = "plain"  # the folder of copies, in the lake's folder of a table
RENAME = (
    "Have its owner rename the column, or purge the table (REORG TABLE … APPLY (PURGE)), or name "
    "another table"
)
KEPT = timedelta(days=7)  # after a look took a copy out: runs that began before still read it


class FileForm(Protocol):
    """What `intake.plain_form` offers."""

    mapping: str
    is_scattered: bool

    def id_of(self, name: str) -> str:
        """What tells the rows of a file; empty where it gives them as it lies."""

    def deleted_in(self, name: str) -> int:
        """How many of its rows are none of the table."""

    def stored_name(self, column: str) -> str:
        """What a column is called in files."""

    def fault_of(self, name: str, source: Path) -> str:
        """Why the rows of a file cannot be told."""

    def copy_rows(
        self,
        engine: "DuckDBPyConnection",
        name: str,
        source: Path,
        columns: Mapping[str, str],
        target: Path,
    ) -> int:
        """Write the rows of a file to another one."""


def plain_form_of(opened: "DeltaTable", contract: Contract) -> FileForm:
    """How the files of an opened table of others become plain ones. Raises BackfillError where
    that cannot be read."""
    name, asked = contract.name, offered_function("plain_form")
    if asked is None:
        raise external_table_error(name, "no room of this installation reads its features", PLAIN)
    try:
        form: FileForm = asked(place_of_others(contract.external), opened)
    except (ValueError, OSError) as error:
        culprit = f"a deletion vector of it cannot be read ({' '.join(str(error).split())[:200]})"
        raise external_table_error(name, culprit, "Have its owner restore it") from error
    return form


class PlainCopies:
    """The copies of files of one version of a table of others."""

    def __init__(
        self, lake: LakeFolder, contract: Contract, opened: "DeltaTable", path: Place, prefix: str
    ) -> None:
        """`path`: the lake's folder of the table, whose lock the caller holds; `prefix`: what names
        of others' files begin with there."""
        self.lake, self.contract, self.path, self.prefix = lake, contract, path, prefix
        self.form = plain_form_of(opened, contract)
        # What the day is called in files that are copied, since only the log tells it; else "".
        are_copied = self.form.mapping or self.form.is_scattered
        self.day_in_files = self.form.stored_name(contract.day_column) if are_copied else ""

    def plain_reference(self, there: Reference) -> Reference:
        """The reference to a file, or to its copy, which is made where it lacks. Raises
        BackfillError for a file that is gone, or must not be read."""
        named = there.file.path.removeprefix(self.prefix)
        identity = self.form.id_of(named)
        if not identity:
            return there
        layout = ""
        if self.contract.partition_column:
            layout = f"{self.contract.partition_column}={there.file.partition}/"
        copy = f"{COPIES}/{layout}{identity}.parquet"
        size = self.path.size(copy)
        if size is None:
            self._make(there, named, copy)
            size = self.path.size(copy) or 0
        rows = None if there.rows is None else self.row_count(there)
        return replace(there, file=replace(there.file, path=copy, size=size), rows=rows)

    def row_count(self, there: Reference) -> int:
        """The rows of the table that a file has, 0 where the log does not say."""
        named = there.file.path.removeprefix(self.prefix)
        return max(0, (there.rows or 0) - self.form.deleted_in(named))

    def are_used_by(self, names: Iterable[str]) -> bool:
        """Whether a copy is among the files of these names."""
        return any(name.startswith(f"{COPIES}/") for name in names)

    def _make(self, there: Reference, named: str, copy: str) -> None:
        """Make the copy of a file."""
        name = self.contract.name
        if why := data_fault(place_of_others(self.contract.external), [named]):
            raise external_table_error(name, why, PLAIN)
        columns = {
            column.name: duckdb_name(column.kind)
            for column in self.contract.columns
            if column.name != self.contract.partition_column
        }
        target = self.path.prepared(copy.rpartition("/")[0]) / "writing"
        try:
            source = self.path.local(there.file.path)
            if why := self.form.fault_of(named, source):
                raise external_table_error(name, f"its file {named} {why}", RENAME)
            with duckdb_cursor(self.lake) as engine:
                self.form.copy_rows(engine, named, source, columns, target)
        except FileNotFoundError as error:
            culprit = f"its file {named} is gone"
            fix = "Have its owner restore it, or vacuum the table less early"
            raise external_table_error(name, culprit, fix) from error
        self.path.put(copy, target)

    def drop_old(self, live: Iterable[str], newest: int) -> None:
        """Delete the copies that the `newest` version of the lake's log does not name, whose files
        are `live`, and that no version named which was the newest in the last days."""
        since, kept = (utc_now() - KEPT).timestamp(), {*live}
        old = [name for name in self.path.below(COPIES) if name not in kept]
        version = newest
        while old and version >= 0:
            kept |= {c.path for c in file_changes(self.path, version) if not c.is_added}
            token = self.path.token(commit_name(version))
            if token is None or token.changed_at < since:
                break
            version -= 1
        for name in old:
            if name not in kept:
                self.path.delete(name)
