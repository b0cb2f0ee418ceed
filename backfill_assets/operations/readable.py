"""Rows of some days as programs like them: Arrow, pandas, Polars, a DuckDB relation, or a Spark DataFrame.

Lives here: the five forms of one choice of Parquet files, the first four without a JVM. Does not live here: which files
are meant (`reader`). Whole frames come ordered by day and key: the same rows are the same bytes.
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
from backfill_assets.lake.fingerprints import Dialect, quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.session import LakeSession

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

WHOLE_NUMBERS = {"BIGINT": "Int64", "INT": "Int32"}  # pandas's own, which hold NULL


@dataclass(frozen=True)
class PinnedRows:
    """What is read: a table's version (None: of a snapshot), its files with those days, and the days (None: all)."""

    contract: Contract
    version: int | None
    files: Sequence[str]
    days: Collection[date] | None = None

    @property
    def query(self) -> str:
        """DuckDB's query for the rows, in no order."""
        rows = selection(self.files, self.contract)
        if self.days is None:
            return rows
        listed = ", ".join(f"DATE '{d}'" for d in sorted(self.days)) or "NULL"
        return f"SELECT * FROM ({rows}) WHERE {_name(self.contract.day_column)} IN ({listed})"


class Readable:
    """Rows that were asked for and not read yet. Every call chooses and judges anew; nothing is kept or written."""

    lake: Lake

    def pinned(self) -> PinnedRows:
        """What would be read now; raises as reading would."""
        raise NotImplementedError

    def _frame(self, session: Any, pinned: PinnedRows) -> Any:
        raise NotImplementedError

    def arrow(self) -> Any:
        """A `pyarrow.Table`, ordered by day and key; times are microseconds in UTC."""
        return self._arrow(self.pinned())

    def pandas(self) -> Any:
        """A `pandas.DataFrame`, ordered so; whole numbers that may be NULL are `Int64` or `Int32`, never floats."""
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
        """A `polars.DataFrame`, ordered so; raises BackfillError where Polars is not installed."""
        try:
            polars = import_module("polars")  # no dependency of ours: whoever wants it has it
        except ImportError:
            raise BackfillError(
                "Polars", "it is not installed", "Nothing was read", "Run `pip install polars`, or ask for arrow()"
            ) from None
        return polars.from_arrow(self._arrow(self.pinned()))

    def duckdb(self, connection: "DuckDBPyConnection | None" = None) -> "DuckDBPyRelation":
        """A DuckDB relation, in no order, read when it is used; of `connection`, or of an engine of its own."""
        pinned = self.pinned()
        with _told(pinned.contract):
            return (connection or new_engine(self.lake)).sql(pinned.query)

    def spark(self, session: Any = None) -> Any:
        """A Spark DataFrame, in no order; of `session`, or of the lake's own engine, which is started if need be."""
        pinned = self.pinned()
        return self._frame(session or LakeSession(self.lake).spark(), pinned)

    def _arrow(self, pinned: PinnedRows) -> Any:
        contract = pinned.contract
        order = ", ".join(map(_name, dict.fromkeys((contract.day_column, *contract.key))))
        with _told(contract), new_engine(self.lake) as engine:
            return engine.sql(f"{pinned.query} ORDER BY {order}").to_arrow_table()


def _name(column: str) -> str:
    return quoted(column, Dialect.DUCKDB)


@contextlib.contextmanager
def _told(contract: Contract) -> Iterator[None]:
    """What DuckDB cannot read is told in one line."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise BackfillError(
            f"the table {contract.name}", f"its files cannot be read as it is declared: {str(error).splitlines()[0]}",
            "Nothing was read", "Look at it with `backfill-assets doctor`; of an old version, choose a later one",
        ) from error  # fmt: skip
