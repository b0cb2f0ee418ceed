"""The port `Session` filled by plain Python: rows of the three tables follow by arithmetic.

Here: what the package asks of an engine, and the arithmetic. Not here: raw's rows, which a load
writes (`world`). A staging of an event day is the sum of what was delivered for it, whenever that
arrived; a feature is the sum of the stagings of its window.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import date
from typing import Any, Self

from deltalake import DeltaTable

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.write.model import Chunk, Table
from backfill_assets.kernel.write.session import DuckDBAuditor
from backfill_assets_tests.builders import START, WINDOW, day
from backfill_assets_tests.files import stage_by_hand

Row = dict[str, Any]
CODE_STEP = 1000  # what a later version of the code adds to each number of staging


@dataclass(frozen=True)
class Frame:
    """Rows in memory, with the few verbs of a DataFrame that the kernel uses."""

    rows: Sequence[Row]
    columns: tuple[str, ...]

    def select(self, *names: str) -> "Frame":
        """Only these columns."""
        return Frame([{n: row[n] for n in names} for row in self.rows], names)

    def unionByName(self, other: "Frame") -> "Frame":  # Spark's name
        """The rows of both."""
        return Frame([*self.rows, *other.rows], self.columns)

    def __getitem__(self, name: str) -> "Condition":
        return Condition(lambda row: row[name])

    def where(self, holds: "Condition") -> "Frame":
        """The rows for which a condition holds."""
        return Frame([row for row in self.rows if holds.of(row)], self.columns)


@dataclass(frozen=True)
class Condition:
    """A column, or what is asked of it."""

    of: Callable[[Row], Any]

    def isNull(self) -> "Condition":  # Spark's name
        """Whether it is NULL."""
        return Condition(lambda row: self.of(row) is None)

    def isin(self, values: Collection[Any]) -> "Condition":
        """Whether it is one of these."""
        return Condition(lambda row: self.of(row) in values)

    def __or__(self, other: "Condition") -> "Condition":
        return Condition(lambda row: self.of(row) or other.of(row))

    def __invert__(self) -> "Condition":
        return Condition(lambda row: not self.of(row))


@dataclass(frozen=True)
class Session:
    """A lake and this engine, by a version of the code."""

    lake: Lake
    code: int
    began: Callable[[str], None]  # others may go on before it reads
    computes: Callable[[], None]  # it takes its time

    made_by = "arithmetic"
    computes_here = True
    own_server = ""

    def of_source(self, name: str) -> Self:
        """There is one source."""
        return self

    def expect(self, rows: int) -> None:
        """Nothing has to be prepared."""

    def read(
        self, table: str, version: int, day_column: str, days: Iterable[date] | None = None
    ) -> Frame:
        """As the port says."""
        self.began(f"the engine reads {table} v{version}")
        rows = rows_at(self.lake, table, version)
        wanted = None if days is None else {*days}
        found = [row for row in rows if wanted is None or row[day_column] in wanted]
        return Frame(found, ("entity", "value", day_column))

    def transformed_frame(
        self,
        table: Table,
        frames: Mapping[str, Frame],
        chunk: Chunk,
        contracts: Mapping[str, Contract],
    ) -> Frame:
        """As the port says."""
        contract = table.contract
        inputs = {name: frame.rows for name, frame in frames.items()}
        wanted = chunk.wanted or chunk.days
        found = made_rows(inputs, sorted(wanted), self.code)
        rows = [{"entity": "A", "value": v, contract.day_column: d} for d, v in found.items()]
        return Frame(rows, contract.column_names)

    def write(self, contract: Contract, frame: Frame, days: int) -> Staged:
        """As the port says; its files are there, and it takes some more time."""
        staged = stage_by_hand(self.lake, contract, frame.rows)
        self.computes()
        return staged

    def auditor(
        self, contract: Contract, files: object, *, is_duckdbs: bool = False
    ) -> DuckDBAuditor:
        """DuckDB, in this process."""
        return DuckDBAuditor(self.lake)

    def refuse_changed_settings(self, named: str) -> None:
        """Nobody changes any."""

    def refuse_expressions(self, tables: object) -> None:
        """There are none."""

    def explaining_losses(self) -> AbstractContextManager[None]:
        """It is never lost."""
        return nullcontext()


def rows_at(lake: Lake, table: str, version: int) -> list[Row]:
    """The rows of a version of a table, as an engine reads them. Raises where a file is gone."""
    opened = DeltaTable(lake.table_place(table).uri(), version=version)
    rows: list[Row] = opened.to_pyarrow_table().to_pylist()
    return rows


def made_rows(
    inputs: Mapping[str, Sequence[Row]], days: Sequence[date], code: int
) -> dict[date, int]:
    """The number of each of these days of a table that is made from these rows: of raw sums of
    event days, of a table of such sums those of windows."""
    if "raw" in inputs:
        sums = defaultdict[str, int](int)
        for row in inputs["raw"]:
            sums[row["entity"]] += row["value"]
        return {d: sums[event_name(d)] + CODE_STEP * code for d in days}
    (of_events,) = inputs.values()
    by_day = {row["event_date"]: row["value"] for row in of_events}
    window = [ONE_DAY * n for n in range(WINDOW)]
    return {d: sum(by_day.get(d - back, 0) for back in window) for d in days}


def event_name(of: date) -> str:
    """How raw names an event day."""
    return f"E{(of - START).days}"


def event_day(name: str) -> date:
    """The event day of a name of raw's."""
    return day(int(name.removeprefix("E")))
