"""What a table of others holds by what its commits brought, one after the other, for tests that hold
it against the table's own engine. Here: rows as multisets. Not here: lakes that load such a table."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pyarrow import parquet as pq

from backfill_assets.intake.source_log import content_version
from backfill_assets.intake.table_changes import take_in_content
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.tables import brought

Rows = Counter[tuple[tuple[str, object], ...]]


class ReplayedTable:
    """The rows of a table, by the contents of its commits as a lake takes them in."""

    def __init__(self, lake: Lake, table: str, first: int = 0) -> None:
        """`first`: the version whose rows count as brought at once."""
        self.lake, self.table, self.first = lake, table, first
        self.version, self.rows = first - 1, Rows()

    def read_on(self) -> Rows:
        """Take in what commits brought since, and return the rows that the table has then."""
        contents = brought(self.table, self.first)
        for content in contents:
            if content_version(content.name) <= self.version:
                continue
            stored = take_in_content(self.lake, content)
            shared = {name: value for name, (_, value) in stored.partition.items()}
            for row in pq.read_table(stored.parquet, partitioning=None).to_pylist():
                sign = -1 if row.pop("_change_type", "insert") == "delete" else 1
                self.rows[comparable_row({**row, **shared})] += sign
        self.version = max((content_version(c.name) for c in contents), default=self.version)
        assert min(self.rows.values(), default=0) >= 0, "more of a row went than had come"
        return +self.rows


def comparable_row(row: Mapping[str, Any]) -> tuple[tuple[str, object], ...]:
    """A row as one that counts as equal whatever the order of its columns, and without NULLs."""
    return tuple(sorted((name, _plain(value)) for name, value in row.items() if value is not None))


def counted(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """The rows as a multiset."""
    return Counter(map(comparable_row, rows))


def _plain(value: Any) -> object:
    """A value as a text, at any depth."""
    if isinstance(value, dict):
        return comparable_row(value)
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return str(value)
