"""The frontier: the instant up to which all landed files of a source are loaded; of a table the
least of its sources.

Not here: the cut of a day and maturity, which it decides (`kernel.core.days`), and the clock, which
decides no content.
"""

import json
from collections.abc import Iterable, Mapping, Set
from datetime import date, datetime

from backfill_assets.kernel.core.contracts import Contract, Input, InputKind
from backfill_assets.kernel.core.days import end_of_day, midnight
from backfill_assets.kernel.core.digests import raw_digest
from backfill_assets.kernel.core.records import MISREAD
from backfill_assets.kernel.core.view import LakeView, Source, TableView

# The tag of a receipt with the frontier of each source, where sources have names.
FRONTIERS = "frontiers"


def is_loaded(day: date, source: Source) -> bool:
    """Whether the landed table holds the arrival day as today's files give it, the ledger
    `arrivals` names its version, and no other program has touched its ledgers since."""
    receipt = source.loaded.latest.get(day)
    if receipt is None or source.is_doubted(day):
        return False
    is_named = receipt.version <= source.loaded_version
    return is_named and receipt.entry.input_digest == raw_digest(day, source)


def recorded_frontier(table: TableView, source: Source) -> datetime | None:
    """The greatest frontier of the source that a receipt of the table names."""
    if source.name:
        return table.frontiers.get(source.table)
    return table.frontier


def is_as_of_lowered(source: Source) -> bool:
    """Whether `as_of` lies before loaded deliveries of the source: a load refuses that."""
    as_of = source.view.as_of
    loaded = recorded_frontier(source.ledger, source)
    if as_of is None:
        return False
    if loaded is not None and loaded > as_of:
        return True
    return any(
        midnight(day) >= as_of
        for day, receipt in source.loaded.latest.items()
        if receipt.entry.rows
    )


def frontier_of(source: Source) -> datetime | None:
    """The frontier of a source (aware, UTC), or None before anything was loaded.

    Midnight after the newest loaded arrival day that holds a delivery, but not past the start of
    the oldest arrival day with usable landed rows that is not loaded; `as_of` itself once nothing
    before it waits. Never less than any frontier in a receipt of any table: late files only stop it
    rising.
    """
    as_of = source.view.as_of
    found = [recorded_frontier(table, source) for table in source.view.tables.values()]
    found.append(_frontier_by_days(source))
    known = [frontier for frontier in found if frontier is not None]
    if as_of is not None and known:
        return min(max(known), as_of)
    return max(known, default=None)


def _frontier_by_days(source: Source) -> datetime | None:
    """The frontier by the days that are loaded and those that wait; None where neither says one."""
    latest, as_of = source.loaded.latest, source.view.as_of
    loaded = {day for day in latest if is_loaded(day, source)}
    waiting = _waiting_days(source, loaded)
    has_all_through_as_of = not waiting and source.ledger.exists
    if as_of is not None and has_all_through_as_of:
        return as_of
    with_rows = [day for day in loaded if latest[day].entry.rows]
    if not with_rows:
        return None
    end = end_of_day(max(with_rows))
    if waiting:
        return min(end, midnight(min(waiting)))
    return end


def _waiting_days(source: Source, loaded: Set[date]) -> list[date]:
    """The arrival days with usable landed rows that may be loaded and are not."""
    with_rows = {day for day, landed in source.landed.items() if landed.usable_rows}
    return [day for day in with_rows - loaded if source.view.is_due(day)]


def landed_tables_upstream(contracts: Iterable[Contract]) -> dict[str, frozenset[str]]:
    """Per table (upstream first) the landed tables that it is made from, whatever lies between;
    itself if landed."""
    by_table: dict[str, frozenset[str]] = {}
    for contract in contracts:
        found = frozenset({contract.name} if contract.is_landed else ())
        for wanted in contract.inputs:
            if wanted.kind is not InputKind.FILES:
                found |= by_table.get(wanted.table, frozenset())
        by_table[contract.name] = found
    return by_table


def external_tables_upstream(contracts: Mapping[str, Contract], table: str) -> frozenset[str]:
    """The tables of others that `table` is made from, whatever lies between; itself if it is
    one."""
    found = frozenset({table} if contracts[table].external else ())
    for wanted in contracts[table].inputs:
        if wanted.table in contracts and wanted.table != table:
            found |= external_tables_upstream(contracts, wanted.table)
    return found


class Frontiers:
    """The frontiers of a view: of its sources, and of the tables that are made from them."""

    def __init__(self, contracts: Iterable[Contract], view: LakeView) -> None:
        self.of_source: Mapping[str, datetime | None] = {
            t: frontier_of(s) for t, s in view.sources.items()
        }
        self.below = landed_tables_upstream(contracts)
        self._names = any(s.name for s in view.sources.values())  # whether a source has a name
        self._known: dict[frozenset[str], datetime | None] = {}  # the least, by sources

    def sources_of(self, table: str) -> frozenset[str]:
        """The sources, by landed table, upstream of `table`; all sources if it has none."""
        return self.below.get(table) or frozenset(self.of_source)

    def of_table(self, table: str) -> datetime | None:
        """The least frontier of the sources that the table is made from."""
        return self._least_frontier(self.sources_of(table))

    def of_inputs(self, inputs: Iterable[Input]) -> datetime | None:
        """The least frontier of the sources of these inputs."""
        sources = (self.below.get(i.table, frozenset()) for i in inputs)
        return self._least_frontier(frozenset[str]().union(*sources))

    @property
    def least(self) -> datetime | None:
        """The least frontier of all sources."""
        return self._least_frontier(frozenset())

    @property
    def greatest(self) -> datetime | None:
        """The greatest frontier of the sources."""
        return max((f for f in self.of_source.values() if f is not None), default=None)

    def tags_of(self, table: str) -> dict[str, str]:
        """The tag of a receipt of the table with its sources' frontiers; empty where sources have
        no names."""
        known = dict[str, str]()
        for source in sorted(self.below.get(table, ())):
            frontier = self.of_source.get(source)
            if frontier is not None:
                known[source] = frontier.isoformat()
        if not self._names or not known:
            return {}
        return {FRONTIERS: json.dumps(known)}

    def _least_frontier(self, sources: frozenset[str]) -> datetime | None:
        """The least frontier of these sources (none: of all); None where one of them has none."""
        if sources not in self._known:
            found = [self.of_source.get(s) for s in sources or self.of_source]
            known = [f for f in found if f is not None]
            is_known = len(known) == len(found)
            self._known[sources] = min(known, default=None) if is_known else None
        return self._known[sources]


def frontiers_in(tags: Mapping[str, str]) -> dict[str, datetime]:
    """The sources' frontiers in the tags of a receipt, by landed table; empty where they cannot be
    read."""
    try:
        named = json.loads(tags.get(FRONTIERS, "{}"))
        found = {str(s): datetime.fromisoformat(f) for s, f in named.items()}
    except MISREAD:
        return {}
    return {source: moment for source, moment in found.items() if moment.tzinfo is not None}
