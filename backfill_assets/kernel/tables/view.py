"""The state of a lake (`kernel.core.view.LakeView`) from its store.

Not here: the states of days that follow (`kernel.core.states`), and what a command, run or tick
knows of them (`kernel.write.known`). Readers see versions that stand
together (`versions`), writers always the heads. It needs no JVM and takes milliseconds.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Protocol

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.rooms import added_by_rooms
from backfill_assets.kernel.core.view import DayReceipt, Deliveries, LakeView, TableView
from backfill_assets.kernel.place.port import answers_of
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.tables.versions import versions_seen


class DeliveriesOf(Protocol):
    """What is known of the deliveries of a source (`Room.deliveries`; there is one)."""

    def __call__(
        self, lake: Lake, source: str, view_of: Callable[[str, str], TableView]
    ) -> tuple[Deliveries, Mapping[str, TableView]]:
        """The deliveries of the source of that name, and the views of its ledgers by their names,
        each read by `view_of` of its name and its column with the day."""


def read_view(
    lake: Lake, contracts: Iterable[Contract], versions: Mapping[str, int] | None = None
) -> LakeView:
    """The view of the lake now; `contracts` are upstream first. Tables that `versions` names are
    read at these, all others at their heads.

    A table is read before its inputs, and before arrivals: a write of another run in between shows
    as days to be rebuilt or not yet loaded, and as newer than the version that fences a write of
    ours (`kernel.write.replace`).
    """
    known = tuple(contracts)
    pinned = versions or {}
    landed = dict[str, str]()
    read = dict[str, TableView]()

    def read_table(contract: Contract) -> None:
        """Read the view of a table."""
        read[contract.name] = _table_view(lake, contract.name, contract.day_column, pinned)

    for level in levels_of(known):
        answers_of(lake.place, read_table, level)
    tables = {c.name: read[c.name] for c in known}
    for contract in known:
        if contract.is_landed:
            landed.setdefault(contract.source, contract.name)  # the first of a source is the one
    delivered = {}
    for source, table in (landed or {"": ""}).items():
        delivered[table] = _deliveries_of_source(lake, source, tables, pinned)
    settings = lake.settings
    others_write = [name for name, table in settings.tables.items() if table.others_may_write]
    return LakeView(
        start=settings.start_date,
        as_of=settings.as_of,
        grace=settings.grace,
        tables=tables,
        delivered=delivered,
        others_write=frozenset(others_write),
    )


def levels_of(contracts: Sequence[Contract]) -> list[list[Contract]]:
    """These contracts, upstream first, as levels, downstream first: a table lies in an earlier
    level than all its inputs, and none of a level is made from another one of it."""
    levels, level_of = list[list[Contract]](), dict[str, int]()
    for contract in reversed(contracts):
        own_level = level_of.get(contract.name, 0)
        for read in contract.inputs:
            level_of[read.table] = max(level_of.get(read.table, 0), own_level + 1)
        levels += [[] for _ in range(own_level + 1 - len(levels))]
        levels[own_level].append(contract)
    return [level for level in levels if level]


def refreshed_view(
    lake: Lake, contracts: Iterable[Contract], view: LakeView, moved: Collection[str]
) -> LakeView:
    """`view` with the tables `moved` at their heads, of a landed one with its ledgers; the other
    tables as they were.

    A day made from a moved table's newer rows shows as to be rebuilt, as after `read_view` beside
    another run.
    """
    tables, delivered = {**view.tables}, {**view.delivered}
    for contract in contracts:
        if contract.name not in moved:
            continue
        tables[contract.name] = _table_view(lake, contract.name, contract.day_column, {})
        if contract.name in delivered:
            delivered[contract.name] = _deliveries_of_source(lake, contract.source, tables, {})
    return replace(view, tables=tables, delivered=delivered)


def _table_view(lake: Lake, table: str, day_column: str, pinned: Mapping[str, int]) -> TableView:
    """The view of a table at its pinned version, which a table that was made anew since may not
    have reached."""
    newest = lake.store.view(table, day_column)
    version = pinned.get(table, newest.version)
    return newest if version >= newest.version else lake.store.view(table, day_column, version)


def _deliveries_of_source(
    lake: Lake, source: str, tables: dict[str, TableView], pinned: Mapping[str, int]
) -> Deliveries:
    """Deliveries of a source; adds its ledgers to `tables`."""
    (deliveries_of,) = added_by_rooms("deliveries")
    ask: DeliveriesOf = deliveries_of
    delivered, ledgers = ask(lake, source, lambda table, day: _table_view(lake, table, day, pinned))
    tables.update(ledgers)
    return delivered


def writes_of(
    store: TableStore, table: str, latest: Mapping[date, DayReceipt]
) -> Iterator[tuple[Receipt | None, Mapping[date, DayReceipt]]]:
    """Each write that made some of these days, with those days, in the order of their first; None:
    without a receipt.

    Raises BackfillError if a commit is torn.
    """
    by_version = defaultdict[int, dict[date, DayReceipt]](dict)
    for day, receipt in latest.items():
        by_version[receipt.version][day] = receipt
    for version, days in by_version.items():
        yield store.receipt(table, version), days


def settled_view(lake: Lake, contracts: Iterable[Contract], newest: bool = False) -> LakeView:
    """The view of the lake as readers see it: tables that stand together, by the newest lake
    version; `newest`: each table at its newest commit, also while a run writes others."""
    versions = None if newest else versions_seen(lake)
    return read_view(lake, contracts, versions)
