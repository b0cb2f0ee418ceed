"""Rows of some days as Arrow, pandas, Polars, a DuckDB relation, or a Spark DataFrame; only the last needs a JVM.

Not here: choosing the files (`reader`). Whole frames are ordered by day and key: the same rows are the same bytes.
"""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from typing import TYPE_CHECKING, Any

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.embedded import new_engine, selection
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.session import LakeSession

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

WHOLE_NUMBERS = {"BIGINT": "Int64", "INT": "Int32"}  # pandas's own, which hold NULL


@dataclass(frozen=True)
class PinnedRows:
    """Chosen rows: a table's version (None: of a snapshot), the files with the days, and the days (None: all)."""

    contract: Contract
    version: int | None
    files: Sequence[str]
    days: Collection[date] | None = None

    @property
    def query(self) -> str:
        """Return DuckDB's query for the rows, unordered."""
        rows = selection(self.files, self.contract)
        if self.days is None:
            return rows
        listed = ", ".join(f"DATE '{d}'" for d in sorted(self.days)) or "NULL"
        return f"SELECT * FROM ({rows}) WHERE {_name(self.contract.day_column)} IN ({listed})"


class Readable:
    """Chosen rows of a lake. Every call chooses files and judges days again; nothing is kept or written."""

    lake: Lake

    def pinned(self) -> PinnedRows:
        """Return the rows that a call would read now; raises as reading would."""
        raise NotImplementedError

    def _frame(self, session: Any, pinned: PinnedRows) -> Any:
        raise NotImplementedError

    def arrow(self) -> Any:
        """Return a `pyarrow.Table`, ordered by day and key; times are microseconds in UTC."""
        return self._arrow(self.pinned())

    def pandas(self) -> Any:
        """Return a `pandas.DataFrame`, ordered by day and key; nullable integers are `Int64` or `Int32`."""
        import pandas as pd

        pinned = self.pinned()
        table = self._arrow(pinned)
        frame = table.to_pandas()
        for column in pinned.contract.columns:
            if column.nullable and column.type in WHOLE_NUMBERS:
                cells = table.column(column.name).to_pylist()
                frame[column.name] = pd.array(cells, dtype=WHOLE_NUMBERS[column.type])
        return frame

    def polars(self) -> Any:
        """Return a `polars.DataFrame`, ordered by day and key; raises BackfillError where Polars is not installed."""
        try:
            polars = import_module("polars")  # no dependency of ours
        except ImportError:
            raise BackfillError(
                "Polars", "it is not installed", "Nothing was read", "Run `pip install polars`, or ask for arrow()"
            ) from None
        return polars.from_arrow(self._arrow(self.pinned()))

    def duckdb(self, connection: "DuckDBPyConnection | None" = None) -> "DuckDBPyRelation":
        """Return an unordered DuckDB relation that reads when used; of `connection`, or of an engine of its own."""
        pinned = self.pinned()
        with _told(pinned.contract):
            return (connection or new_engine(self.lake)).sql(pinned.query)

    def spark(self, session: Any = None) -> Any:
        """Return an unordered Spark DataFrame of `session`, or of the lake's own engine, which starts if it must."""
        pinned = self.pinned()
        return self._frame(session or LakeSession(self.lake).spark(), pinned)

    def _arrow(self, pinned: PinnedRows) -> Any:
        contract = pinned.contract
        order = ", ".join(map(_name, dict.fromkeys((contract.day_column, *contract.key))))
        with _told(contract), new_engine(self.lake) as engine:
            return engine.sql(f"{pinned.query} ORDER BY {order}").to_arrow_table()


def _name(column: str) -> str:
    return quoted(column)


@contextlib.contextmanager
def _told(contract: Contract) -> Iterator[None]:
    """Turn DuckDB's errors into a BackfillError of one line."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise BackfillError(
            f"the table {contract.name}", f"its files cannot be read as it is declared: {str(error).splitlines()[0]}",
            "Nothing was read", "Look at it with `backfill-assets doctor`; of an old version, choose a later one",
        ) from error  # fmt: skip
