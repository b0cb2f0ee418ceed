"""What a table of others holds by what its commits brought, one after the other, and as an input of a
lake, for tests that hold both against the table's own engine. Here: rows as multisets. Not here:
lakes that load such a table."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from pyarrow import parquet as pq

from backfill_assets.foreign.external import external_contract, external_table
from backfill_assets.foreign.observing import observe_table
from backfill_assets.intake.source_log import content_version
from backfill_assets.intake.table_changes import take_in_content
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.tables.embedded import duckdb_cursor, rows_query
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


class ObservedTable:
    """The rows of a table, by its newest version as a lake takes it in as an input."""

    def __init__(self, lake: Lake, table: str, day: str) -> None:
        """`day`: its column with the day."""
        self.lake, self.day = lake, day
        self.declared = external_table("orders", table=table, day=day)
        self.rows, self.days = Rows(), frozenset[date]()
        self.columns: tuple[str, ...] = ()

    def look(self) -> Rows:
        """Look at the table, and return the rows that the lake reads then. `days`: those that the
        look found changed; `columns`: those that the lake has of it."""
        before = self._contract()
        self.days = frozenset(observe_table(self.lake, [before], before).days)
        contract = self._contract()
        self.columns = contract.column_names
        rows = rows_query(self.lake.store.data_files(contract), contract)
        query = f"FROM ({rows}) WHERE {self.day} IS NOT NULL"  # others are of no day
        with duckdb_cursor(self.lake) as engine:
            self.rows = counted(engine.sql(query).to_arrow_table().to_pylist())
        return self.rows

    def _contract(self) -> Contract:
        return external_contract(self.lake.root, self.declared)


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
    if isinstance(value, Decimal):  # one of a wider type has more zeros
        return str(value.normalize())
    return str(value)
