"""Numbers per day that a query gives of files of a table, by whoever counts their rows (`auditor`):
DuckDB, or the lake's engine where the files lie.

A query is written once, for DuckDB. Not here: the queries (`pipeline.transforms.queries`), and
profiles of days.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from backfill_assets.engines.auditor import is_for_engine, rows_of
from backfill_assets.engines.engine_sql import EngineRows
from backfill_assets.engines.engine_sql import Found as Found
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.tables.embedded import AT_ONCE, connection, file_batches, selection
from backfill_assets.kernel.tables.staging import Staged, StagedFile
from backfill_assets.kernel.write.audit import count_rows
from backfill_assets.kernel.write.model import Table


def rows_by(
    lake_session: LakeSession, contract: Contract, staged: Staged, column: str
) -> list[tuple[Any, ...]]:
    """Per day and value of the column how many of the staged rows have it."""
    if not is_for_engine(lake_session, contract, staged.files):
        return count_rows(lake_session.lake, staged.paths, contract, [column])
    rows = rows_of(lake_session.spark(), staged.files, contract)
    return [tuple(row) for row in rows.groupBy(contract.day_column, column).count().collect()]


def numbers(
    lake_session: LakeSession,
    table: Table,
    query: Callable[..., str],
    *sides: Sequence[StagedFile],
    where: str = "true",
    at_once: int = AT_ONCE,
) -> Iterator[Found]:
    """What `query` makes of queries for the rows of each of these sets of files `where` it holds, a
    part of the days after the other. The engine is asked if its figures are DuckDB's
    (`Table.counts_alike`)."""
    contract, files = table.contract, [f for side in sides for f in side]
    if table.counts_alike and files and is_for_engine(lake_session, contract, files):
        session = lake_session.spark()
        frames = {f"side_{n}": rows_of(session, side, contract) for n, side in enumerate(sides)}
        rows = (f"SELECT * FROM {name} WHERE {where}" for name in frames)
        yield EngineRows(session, **frames).found(query(*rows))
        return
    paths = [{f.path for f in side} for side in sides]
    for batch in file_batches([path for side in paths for path in sorted(side)], contract, at_once):
        parts = (selection([f for f in batch if f in side], contract) for side in paths)
        with connection(lake_session.lake) as duckdb:
            result = duckdb.execute(
                query(*(f"SELECT * FROM ({part}) WHERE {where}" for part in parts))
            )
            yield [column[0] for column in result.description or ()], result.fetchall()
