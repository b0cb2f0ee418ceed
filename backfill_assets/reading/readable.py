"""Which tables of a lake can be looked at: one whose log others broke must not hide the others.

Here: looking at the tables that others write, and telling those that cannot be read, and what is
made from them, apart from the rest. Not here: what may break
a log (`kernel.log.log_bounds`), and runs, which read what they need and end where that cannot be
read.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from backfill_assets.engines.loss import failing_alone
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError, TransientError
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline

Unread = Mapping[str, BackfillError]
IsFollowed = Callable[[Lake, Contract], bool]
Observed = tuple[Sequence[Any], list[BackfillError]]


def observe_others(lake: Lake, contracts: Sequence[Contract]) -> Observed:
    """Look at the tables that others write; return what was found (`foreign.external.Observation`),
    and why some cannot be read."""
    observe: Callable[[Lake, Sequence[Contract]], Observed] | None = offered_function(
        "observe_each"
    )
    return observe(lake, contracts) if observe is not None else ([], [])


def readable_tables(lake: Lake, pipeline: Pipeline) -> tuple[Pipeline, Unread]:
    """The pipeline without the tables whose state cannot be known, and why, by table: those of
    others whose log cannot be read, and what is made from them. Looks at the newest commits, as
    reading a view does; a table that only this lake writes is not looked at. Raises TransientError
    for a store that does not answer."""
    unread = dict[str, BackfillError]()
    is_followed: IsFollowed = offered_function("is_followed") or _follows_none
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


def _follows_none(_lake: Lake, _contract: Contract) -> bool:
    """Without the room of others' tables nobody looks for commits of others."""
    return False


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
