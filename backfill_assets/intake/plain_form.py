"""The rows of a data file of a table of others as a plain file would have them: without those that
a deletion vector takes away, under the names that the table gives its columns.

Not here: where copies of such files lie, and when they are made (`foreign.plain_copies`, which asks
for this by a word), and what commits of a source changed (`intake.table_rows`).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from backfill_assets.intake.deleted_rows import deleted_by_file
from backfill_assets.intake.stored_names import (
    column_expressions,
    mapping_mode,
    named_paths,
    stored_columns,
)
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.embedded import sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

SCATTERED = "delta.randomizeFilePrefixes"  # of a table: in folders of any name
DELETED = "deleted_rows"  # the name of the numbers of deleted rows in a query
NUMBER = "file_row_number"  # of a row in its file, as DuckDB calls it


@dataclass(frozen=True)
class PlainForm:
    """How the data files of a version of a table become plain ones."""

    schema: str  # as Delta writes it
    mapping: str  # of columns to those in files: `name`, `id`, "" for none
    # Rows that are no rows of the table, by the names of their files in it.
    deleted: Mapping[str, "pa.Int64Array"] = field(default_factory=dict)
    # Whether the folders of files may name no partition, so that only the log tells it.
    is_scattered: bool = False

    def id_of(self, name: str) -> str:
        """What tells the rows of a file in this version, under their names, from those in another;
        empty where the file gives them as it lies."""
        rows = self.deleted.get(unquote(name))
        if rows is None and not self.mapping and not self.is_scattered:
            return ""
        numbers = b"" if rows is None else rows.to_numpy().tobytes()
        return digest_of([name, self._names, hashlib.sha256(numbers).hexdigest()])

    @cached_property
    def _names(self) -> list[str]:
        """What columns are called, in the table and in files; none without a mapping."""
        return sorted(named_paths(self.schema)) if self.mapping else []

    def deleted_in(self, name: str) -> int:
        """How many rows of a file are no rows of the table."""
        return len(self.deleted.get(unquote(name), ()))

    def stored_name(self, column: str) -> str:
        """What a column is called in files."""
        named = {name: stored for stored, name in stored_columns(self.schema).items()}
        return named.get(column, column) if self.mapping else column

    def fault_of(self, name: str, source: Path) -> str:
        """Why the rows of a file, which lies at `source`, cannot be told, as a part of a sentence
        about it; empty if they can."""
        import pyarrow.parquet as pq

        if not self.deleted_in(name):
            return ""
        taken = [c for c in pq.read_schema(source).names if c.lower() == NUMBER]
        why = "a name that reading rows needs of which a deletion vector takes some away"
        return f"has the column {taken[0]}, {why}" if taken else ""

    def copy_rows(
        self,
        engine: "DuckDBPyConnection",
        name: str,
        source: Path,
        columns: Mapping[str, str],
        target: Path,
    ) -> int:
        """Write the rows of a file, which lies at `source`, in their order to a Parquet file, with
        these columns, cast to types of DuckDB (NULL where the file lacks one). Returns how many
        these are."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        found = column_expressions(self.schema, self.mapping, pq.read_schema(source))
        cast = ", ".join(
            f"CAST({found.get(column, 'NULL')} AS {kind}) AS {quoted_name(column)}"
            for column, kind in columns.items()
        )
        rows = self.deleted.get(unquote(name), pa.array([], pa.int64()))
        options, chosen = "hive_partitioning = false", ""
        if len(rows):
            options += f", {NUMBER} = true"
            chosen = f" WHERE {NUMBER} NOT IN (SELECT number FROM {DELETED})"
        engine.register(DELETED, pa.table({"number": rows}))
        query = f"SELECT {cast} FROM read_parquet({sql_literal(str(source))}, {options}){chosen}"
        copy = f"COPY ({query}) TO {sql_literal(str(target))} (FORMAT parquet, COMPRESSION zstd)"
        try:
            (count,) = engine.execute(copy).fetchall()[0]
        finally:
            engine.unregister(DELETED)
        return int(count)


def plain_form(table: Place, opened: "DeltaTable") -> PlainForm:
    """How the data files of a table that is `opened` become plain ones. Raises as `deleted_by_file`
    does."""
    metadata = opened.metadata()
    return PlainForm(
        opened.schema().to_json(),
        mapping_mode(metadata.configuration),
        deleted_by_file(table, opened),
        is_scattered=bool(metadata.partition_columns)
        and metadata.configuration.get(SCATTERED) == "true",
    )
