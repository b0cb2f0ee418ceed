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

from backfill_assets.intake.log_reading import ListedLog, log_versions
from backfill_assets.intake.stored_names import stored_name
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.records import record_of
from backfill_assets.kernel.log.log import commit_digest
from backfill_assets.kernel.place.port import Token

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
}  # of Delta's types in Spark SQL

VARIANT = "variant"  # a type in a schema in Delta's JSON


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
    numbered: int = 0  # the newest number of a mapped column, or of a field in one, so far
    # The types that columns had since reading began, before the last schema (`typed_columns`).
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Position:
    """How far a log was read, and what it was like then."""

    version: int  # the newest one that was read
    digest: str  # see `log_digest`
    first: int  # `first_version` of the settings
    state: TableState
    newest: str = ""  # see `newest_mark`

    def holds(self, listed: ListedLog) -> bool:
        """Whether the commits up to it are still those that were read, as a listing of the log
        says."""
        commits = log_versions(listed)
        return self.version in commits and self.digest == log_digest(
            listed, range(commits.start, self.version + 1)
        )


def parsed_position(kept: Mapping[str, Any]) -> Position | None:
    """The position that these JSON values say; None for others."""
    try:
        return record_of(Position, kept)
    except (TypeError, ValueError):
        return None


def log_digest(listed: ListedLog, commits: range) -> str:
    """The digest of size and time of each of these commits, and of an object's ETag; in a folder,
    where a file can be written to, of the bytes of the last one, too."""
    tokens = [token for version in commits if (token := listed.token(version))]
    if listed.table.is_store:
        return digest_of([_listed_mark(token) for token in tokens])
    of_last = commit_digest(listed.table, commits[-1])
    return digest_of([of_last, [[t.size, t.changed_at] for t in tokens]])


def newest_mark(listed: ListedLog, version: int) -> str:
    """What tells the newest commit of a log in a store from one that took its place, as listings
    say it: while that is the same and the newest, nothing is new. Empty of a folder."""
    token = listed.token(version) if listed.table.is_store else None
    return "" if token is None else digest_of(_listed_mark(token))


def _listed_mark(token: Token) -> list[object]:
    """What a listing says of an object, which of the mark is the ETag alone."""
    return [token.mark[0], token.size, token.changed_at]


def column_names(schema: str) -> list[str]:
    """The columns of a table's schema."""
    return [f["name"] for f in json.loads(schema)["fields"]]


def column_types(schema: str) -> dict[str, str]:
    """The types of the columns of a table's schema, in Spark's words."""
    return {f["name"]: _spark_type(f["type"]) for f in json.loads(schema)["fields"]}


def typed_columns(schema: str) -> frozenset[str]:
    """The columns of a table's schema as they are called in files, whatever they are called in the
    table later, each with its type as a text."""
    fields = json.loads(schema)["fields"] if schema else []
    return frozenset(json.dumps([stored_name(f), _spark_type(f["type"])]) for f in fields)


def _spark_type(kind: Any) -> str:
    """A type of a schema in Delta's JSON, in Spark's words."""
    if isinstance(kind, str):
        return NAMES.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{_spark_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_spark_type(kind['keyType'])},{_spark_type(kind['valueType'])}>"
    fields = ((f["name"].replace("`", "``"), _spark_type(f["type"])) for f in kind["fields"])
    return f"struct<{','.join(f'`{name}`:{inner}' for name, inner in fields)}>"


def unread_columns(schema: str) -> list[str]:
    """The columns that hold a VARIANT, which is read nowhere here."""
    fields = json.loads(schema)["fields"] if schema else []
    return [str(field["name"]) for field in fields if _holds_variant(field["type"])]


def _holds_variant(kind: Any) -> bool:
    """Whether a type is VARIANT or has one in it; a field may be called so, too."""
    if isinstance(kind, str):
        return kind == VARIANT
    within = [field["type"] for field in kind.get("fields", ())]
    within += [kind[part] for part in ("elementType", "keyType", "valueType") if part in kind]
    return any(map(_holds_variant, within))


def empty_table(schema: str) -> "pa.Table":
    """A table without rows, with the columns of a table's schema that are read."""
    import pyarrow as pa
    from deltalake import Schema

    told, unread = json.loads(schema), unread_columns(schema)
    told["fields"] = [field for field in told["fields"] if field["name"] not in unread]
    return pa.schema(Schema.from_json(json.dumps(told)).to_arrow()).empty_table()
