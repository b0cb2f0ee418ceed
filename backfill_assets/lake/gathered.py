"""Rows of many data files for one query of the embedded engine, read stretch by stretch.

Lives here: the few files in which such rows lie until their query is done: staged, and so swept where a process is
killed, and never published. Does not live here: which files are a stretch (`stretches`) and the queries
(`load.arrivals_sql`). Of few files nothing is kept: they are read by the query itself.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.audit import connection, literal, selection
from backfill_assets.lake.home import Lake
from backfill_assets.lake.staging import begin
from backfill_assets.lake.stretches import stretches


@contextlib.contextmanager
def gathered(
    lake: Lake, files: Sequence[str], contract: Contract, asked: Callable[[str], str] = str, *, keep: bool = False
) -> Iterator[str]:
    """A query for what `asked` makes of a query for the rows of these files, good while the block runs.

    `asked` treats every row by itself, because it is asked of each stretch. `keep`: few files are read ahead, too, for
    a query that is asked again and again.
    """
    parts = list(stretches(files, contract))
    if len(parts) <= 1 and not keep:
        yield asked(selection(files, contract))
        return
    staged = begin(lake, contract)
    try:
        copies = list[str]()
        with connection(lake) as engine:
            for number, some in enumerate(parts or [[]]):
                copies.append(literal(str(staged.folder / f"{number}.parquet")))
                engine.execute(f"COPY ({asked(selection(some, contract))}) TO {copies[-1]} (FORMAT parquet)")
        yield f"SELECT * FROM read_parquet([{', '.join(copies)}], hive_partitioning = false)"
    finally:
        staged.drop()
