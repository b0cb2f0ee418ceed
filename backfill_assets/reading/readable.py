"""Which tables of a lake can be looked at: one whose log others broke must not hide the others.

Here: telling such tables, and what is made from them, apart from the rest. Not here: what may break
a log (`kernel.log.log_bounds`), and runs, which read what they need and end where that cannot be
read.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from backfill_assets.engines.loss import failing_alone
from backfill_assets.foreign.adopting import is_followed
from backfill_assets.kernel.core.errors import BackfillError, TransientError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline

Unread = Mapping[str, BackfillError]


def readable_tables(lake: Lake, pipeline: Pipeline) -> tuple[Pipeline, Unread]:
    """The pipeline without the tables whose state cannot be known, and why, by table: those of
    others whose log cannot be read, and what is made from them. Looks at the newest commits, as
    reading a view does; a table that only this lake writes is not looked at. Raises TransientError
    for a store that does not answer."""
    unread = dict[str, BackfillError]()
    for contract in pipeline.contracts:  # upstream first
        broken = next((read.table for read in contract.inputs if read.table in unread), "")
        if broken:
            unread[contract.name] = BackfillError(
                f"the table {contract.name}",
                f"it is made from {broken}, which cannot be read",
                "Its days were not judged",
                f"Mend {broken} first",
            )
        elif is_followed(lake, contract):
            try:
                with failing_alone(f"the table {contract.name}"):
                    lake.store.view(contract.name, contract.day_column)
            except TransientError:
                raise
            except BackfillError as error:
                unread[contract.name] = error
    return without_tables(pipeline, unread), unread


def without_tables(pipeline: Pipeline, names: Collection[str]) -> Pipeline:
    """The pipeline without the tables of these names."""
    return replace(pipeline, tables=tuple(t for t in pipeline.tables if t.name not in names))


def readable_with(lake: Lake, pipeline: Pipeline, tables: Iterable[str]) -> Pipeline:
    """The pipeline without the tables whose state cannot be known, as `readable_tables` tells them.
    Raises the BackfillError of the first of `tables` that is one of them."""
    known, unread = readable_tables(lake, pipeline)
    if failed := next((unread[name] for name in tables if name in unread), None):
        raise failed
    return known
