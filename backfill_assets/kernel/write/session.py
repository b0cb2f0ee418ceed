"""What the kernel asks of an engine: `Session`, a lake with the engine that works on it, and
`Auditor`, who counts the rows of files.

DuckDB in this process is an auditor, too (`DuckDBAuditor`). Not here: sessions and the other
auditor, and what an engine can do (the room `engines`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol, Self

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.readings import Sets
from backfill_assets.kernel.tables.embedded import (
    AT_ONCE,
    BYTES_AT_ONCE,
    duckdb_cursor,
    file_batches,
    rows_query,
)
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.query_files import add_standing_rows
from backfill_assets.kernel.tables.staging import Staged, StagedFile
from backfill_assets.kernel.write.audit import Profiles, audit_files, count_rows
from backfill_assets.kernel.write.model import Chunk, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answer = tuple[list[str], list[tuple[Any, ...]]]  # the names of a query's columns, and its rows


class Auditor(Protocol):
    """Whoever counts the rows of files of a table, with the same figures to the last bit."""

    def profiles(self, contract: Contract, staged: Staged, parts: Sets) -> Profiles:
        """Profile every day that occurs in the staged files (None: rows whose day is NULL), with
        the fingerprints of the column sets `parts`; may note digests of the files. Raises
        ContractBroken for text that is not UTF-8."""
        ...

    def keep_rows(
        self, contract: Contract, staged: Staged, version: int, days: Sequence[date]
    ) -> dict[date, int]:
        """Upsert: add to the staging the rows of these days at a version whose keys it lacks, and
        return how many were added, for days that have any (`query_files.add_standing_rows`)."""
        ...

    def answers(
        self,
        contract: Contract,
        query: Callable[..., str],
        *sides: Sequence[StagedFile],
        where: str = "true",
        at_once: int = AT_ONCE,
    ) -> Iterator[Answer]:
        """Yield what `query`, a function of queries for the rows of each of these sets of files
        `where` it holds, finds, in DuckDB's SQL; DuckDB reads `at_once` files in one query."""
        ...

    def rows_by(self, contract: Contract, staged: Staged, column: str) -> list[tuple[Any, ...]]:
        """Return day, value of the column and how many of the staged rows have them."""
        ...


class Session(Protocol):
    """A lake and the engine that works on it, which starts when it is first needed. Methods that
    need it raise EngineLost where it cannot be reached."""

    @property
    def lake(self) -> Lake:
        """The lake."""
        ...

    @property
    def made_by(self) -> str:
        """The engine in words, as receipts name it; starts nothing."""
        ...

    @property
    def computes_here(self) -> bool:
        """Whether the engine computes on this machine; starts nothing."""
        ...

    @property
    def own_server(self) -> str:
        """The name of the engine, if it computes in a server of the lake's own, whose catalog goes
        with it; else empty. Starts nothing."""
        ...

    def of_source(self, name: str) -> Self:
        """The same engine, of the lake narrowed to one of its sources."""
        ...

    def reordered(self) -> "Session":
        """The same engine, whose `read` gives rows in an order of their own, and which groups them
        in another number of partitions."""
        ...

    def spark(self) -> "SparkSession":
        """A live session of Spark Connect on the engine."""
        ...

    def for_reading(self) -> "SparkSession":
        """As `spark`, for callers that only read rows of tables."""
        ...

    def expect(self, rows: int) -> None:
        """Prepare the engine for queries over about so many rows."""
        ...

    def read(
        self, table: str, version: int, day_column: str, days: Iterable[date] | None = None
    ) -> "DataFrame":
        """The rows of some days (None: all) of a table, pinned at a version."""
        ...

    def transformed_frame(
        self,
        table: Table,
        frames: Mapping[str, "DataFrame"],
        chunk: Chunk,
        contracts: Mapping[str, Contract],
    ) -> "DataFrame":
        """The rows that the table's transform plans for the chunk over these inputs. Raises
        ContractBroken for a user's transform that asks for more than its inputs."""
        ...

    def write(self, contract: Contract, frame: "DataFrame", days: int) -> Staged:
        """Compute a frame of at most so many `days` once, conformed to the contract, to a staging,
        which the caller owns. Raises ContractBroken for other columns or types."""
        ...

    def auditor(
        self, contract: Contract, files: Sequence[StagedFile], *, is_duckdbs: bool = False
    ) -> Auditor:
        """Who counts these files of a table, as `[audit]` says; `is_duckdbs`: only DuckDB gives the
        answers that are wanted. Raises SettingsError where it asks for the engine, and only DuckDB
        in this process can judge the table."""
        ...

    def answers_there(
        self, work: Callable[[Any, str], Any], items: Sequence[Any], what: str, size: int
    ) -> list[Any] | None:
        """The results of `work`, a function of an item and of a folder for copies, from tasks on
        the machines of an engine that computes elsewhere and reaches the lake's bucket. None where
        it does not, where its machines cannot (with a warning that names `what`), and where the
        files have a `size` (bytes) that this process reads sooner."""
        ...

    def refuse_changed_settings(self, named: str) -> None:
        """Raise ContractBroken about `named` if a user's code changed settings of the engine, and
        restore them."""
        ...

    def refuse_expressions(self, tables: Iterable[Table]) -> None:
        """Raise SettingsError if the engine computes an expression of `lake.toml` for one of these
        tables otherwise than Spark. Starts nothing."""
        ...

    def is_at_bucket(self) -> bool:
        """Whether the engine reads and writes the bucket of the lake itself."""
        ...

    def reads_undecoded(self) -> bool:
        """Whether Parquet pages that nobody decoded may reach the engine, as what they end is
        started again."""
        ...

    def explaining_losses(self) -> AbstractContextManager[None]:
        """Turn errors of a dead engine or a full disk within the block into one line."""
        ...


class Meter(Protocol):
    """What some work has cost since the meter was made."""

    def waited(self) -> float:
        """Seconds of waiting for an engine to be opened."""
        ...

    def spent(self) -> float | None:
        """Processor seconds on this machine; None where the engine computes elsewhere."""
        ...


@dataclass(frozen=True)
class DuckDBAuditor:
    """The auditor that reads files into this process, without a JVM (`audit`)."""

    lake: Lake

    def profiles(self, contract: Contract, staged: Staged, parts: Sets) -> Profiles:
        """As the port says."""
        return audit_files(self.lake, staged.paths, contract, parts)

    def keep_rows(
        self, contract: Contract, staged: Staged, version: int, days: Sequence[date]
    ) -> dict[date, int]:
        """As the port says."""
        return add_standing_rows(self.lake, contract, staged, version, days)

    def answers(
        self,
        contract: Contract,
        query: Callable[..., str],
        *sides: Sequence[StagedFile],
        where: str = "true",
        at_once: int = AT_ONCE,
    ) -> Iterator[Answer]:
        """Yield the names and rows of what `query` finds, in batches of about `at_once` files of
        all `sides` together; each batch has every file of its days. `query` gets one query for the
        rows of each side in the batch, narrowed by `where`."""
        paths = [{f.path for f in side} for side in sides]
        every = [path for side in paths for path in sorted(side)]
        for batch in file_batches(every, contract, at_once, BYTES_AT_ONCE):
            parts = [rows_query([f for f in batch if f in side], contract) for side in paths]
            text = query(*(f"SELECT * FROM ({part}) WHERE {where}" for part in parts))
            with duckdb_cursor(self.lake) as engine:
                found = engine.execute(text)
                yield [column[0] for column in found.description or ()], found.fetchall()

    def rows_by(self, contract: Contract, staged: Staged, column: str) -> list[tuple[Any, ...]]:
        """As the port says."""
        return count_rows(self.lake, staged.paths, contract, [column])
