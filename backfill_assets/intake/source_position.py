"""How far the log of a Delta table that others write was read, and whether it is still the log that
was read.

Not here: what its commits brought (`source_log`), and where a position is kept
(`intake.table_changes`). A log that is as it was up to the position need not be opened there; one
that is not is read from its beginning, and compared.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.records import record_of
from backfill_assets.kernel.log.log import LOG, commit_digest, commit_name
from backfill_assets.kernel.place.port import Place

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
}  # of Delta's types in Spark SQL

VARIANT = '"variant"'  # a type in a schema in Delta's JSON


@dataclass(frozen=True)
class TableState:
    """What the commits up to a version say of the table."""

    id: str = ""
    schema: str = ""
    partitioned_by: tuple[str, ...] = ()
    # Of the newest commit, milliseconds since 1970, each later than the one before; none far ahead.
    time: int = 0
    columns: frozenset[str] = frozenset()  # that the table has or had
    mapping: str = ""  # of its columns to those in its files: `name`, `id`, "" for none
    # Of mapped columns, what they have been called since reading began (`named_paths`).
    paths: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Position:
    """How far a log was read, and what it was like then."""

    version: int  # the newest one that was read
    digest: str  # see `log_digest`
    first: int  # `first_version` of the settings
    state: TableState

    def holds(self, table: Place, commits: range) -> bool:
        """Whether the commits up to it are still those that were read; `commits`: those in the log
        now."""
        return self.version in commits and self.digest == log_digest(
            table, range(commits.start, self.version + 1)
        )


def parsed_position(kept: Mapping[str, Any]) -> Position | None:
    """The position that these JSON values say; None for others."""
    try:
        return record_of(Position, kept)
    except (TypeError, ValueError):
        return None


def log_digest(table: Place, commits: range) -> str:
    """The digest of the last of these commits, and of size and time of each of them, of an object
    also of its ETag."""
    found = table.tokens(LOG)
    tokens = [token for version in commits if (token := found.get(commit_name(version)))]
    etags = [t.mark[0] for t in tokens if table.is_store]  # a listing tells no more of the mark
    return digest_of(
        [commit_digest(table, commits[-1]), [[t.size, t.changed_at] for t in tokens], *etags]
    )


def column_names(schema: str) -> list[str]:
    """The columns of a table's schema."""
    return [f["name"] for f in json.loads(schema)["fields"]]


def column_types(schema: str) -> dict[str, str]:
    """The columns of a table's schema whose types have no parts, in Spark's names."""
    fields = json.loads(schema)["fields"]
    return {
        f["name"]: NAMES.get(f["type"], f["type"]) for f in fields if isinstance(f["type"], str)
    }


def unread_columns(schema: str) -> list[str]:
    """The columns that hold a VARIANT, which is read nowhere here."""
    fields = json.loads(schema)["fields"] if schema else []
    return [str(field["name"]) for field in fields if VARIANT in json.dumps(field["type"])]


def empty_table(schema: str) -> "pa.Table":
    """A table without rows, with the columns of a table's schema that are read."""
    import pyarrow as pa
    from deltalake import Schema

    told, unread = json.loads(schema), unread_columns(schema)
    told["fields"] = [field for field in told["fields"] if field["name"] not in unread]
    return pa.schema(Schema.from_json(json.dumps(told)).to_arrow()).empty_table()
