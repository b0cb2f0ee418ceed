"""Rows of many data files for one query of the embedded engine, read stretch by stretch.

Lives here: the table in which such rows lie until their query is done. Does not live here: which files are a stretch
(`stretches`) and the queries (`load.arrivals_sql`). Of few files nothing is kept: they are read by the query itself.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.audit import connection, selection
from backfill_assets.lake.home import Lake
from backfill_assets.lake.stretches import stretches


@contextlib.contextmanager
def gathered(
    lake: Lake, files: Sequence[str], contract: Contract, asked: Callable[[str], str] = str, *, keep: bool = False
) -> Iterator[str]:
    """A query for what `asked` makes of a query for the rows of these files, good while the block runs.

    `asked` treats every row by itself, because it is asked of each stretch. `keep`: few files are read ahead, too, for
    a query that is asked again and again. What is kept spills like everything of the engine.
    """
    parts = list(stretches(files, contract))
    if len(parts) <= 1 and not keep:
        yield asked(selection(files, contract))
        return
    name = f"gathered_{uuid.uuid4().hex}"
    with connection(lake) as engine:
        try:
            engine.execute(f"CREATE TABLE {name} AS {asked(selection(parts[0] if parts else (), contract))}")
            for some in parts[1:]:
                engine.execute(f"INSERT INTO {name} {asked(selection(some, contract))}")
            yield f"SELECT * FROM {name}"
        finally:
            engine.execute(f"DROP TABLE IF EXISTS {name}")
