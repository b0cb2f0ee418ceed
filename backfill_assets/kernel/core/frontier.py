"""The frontier: the instant up to which all landed files of a source are loaded; of a table the
least of its sources.

Not here: the cut of a day and maturity, which it decides (`kernel.core.days`), and the clock, which
decides no content.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime

from backfill_assets.kernel.core.contracts import Contract, Input, InputKind
from backfill_assets.kernel.core.days import end_of, midnight
from backfill_assets.kernel.core.digests import raw_digest
from backfill_assets.kernel.core.view import LakeView, Source, TableView

# The tag of a receipt with the frontier of each source, where sources have names.
FRONTIERS = "frontiers"


def is_loaded(day: date, source: Source) -> bool:
    """Whether the landed table holds the arrival day as today's files give it, the ledger
    `arrivals` names its version, and no other program has touched its ledgers since."""
    receipt = source.loaded.latest.get(day)
    if receipt is None or receipt.version > source.loaded_version or source.is_doubted(day):
        return False
    return receipt.entry.input_digest == raw_digest(day, source)


def recorded(table: TableView, source: Source) -> datetime | None:
    """The greatest frontier of the source that a receipt of the table names."""
    return table.frontiers.get(source.table) if source.name else table.frontier


def is_lowered(source: Source) -> bool:
    """Whether `as_of` lies before loaded deliveries of the source: a load refuses that."""
    as_of, loaded = source.view.as_of, recorded(source.ledger, source)
    last = max((d for d, r in source.loaded.latest.items() if r.entry.rows), default=None)
    if as_of is None:
        return False
    return (loaded is not None and loaded > as_of) or (last is not None and midnight(last) >= as_of)


def frontier_of(source: Source) -> datetime | None:
    """The frontier of a source (aware, UTC), or None before anything was loaded.

    Midnight after the newest loaded arrival day that holds a delivery, but not past the start of
    the oldest arrival day with usable landed rows that is not loaded; `as_of` itself once nothing
    before it waits. Never less than any frontier in a receipt of any table: late files only stop it
    rising.
    """
    as_of = source.view.as_of
    latest = source.loaded.latest
    held = {d for d in latest if is_loaded(d, source)}
    waiting = [
        d
        for d, r in source.landed.items()
        if r.usable_rows and source.view.is_due(d) and d not in held
    ]
    loaded = [d for d in held if latest[d].entry.rows]
    candidates = [f for t in source.view.tables.values() if (f := recorded(t, source)) is not None]
    if waiting and loaded:
        candidates.append(min(midnight(min(waiting)), end_of(max(loaded))))
    elif as_of is not None and not waiting and source.ledger.version >= 0:
        candidates.append(as_of)
    elif loaded:
        candidates.append(end_of(max(loaded)))
    if not candidates:
        return None
    newest = max(candidates)
    return newest if as_of is None else min(newest, as_of)


def landed_below(contracts: Iterable[Contract]) -> dict[str, frozenset[str]]:
    """Per table (upstream first) the landed tables that it is made from, whatever lies between;
    itself if landed."""
    by_table: dict[str, frozenset[str]] = {}
    for contract in contracts:
        of_inputs = [
            by_table.get(i.table, frozenset())
            for i in contract.inputs
            if i.kind is not InputKind.FILES
        ]
        by_table[contract.name] = frozenset[str]().union(
            *of_inputs, (contract.name,) if contract.is_landed else ()
        )
    return by_table


def externals_below(contracts: Mapping[str, Contract], table: str) -> frozenset[str]:
    """The tables of others that `table` is made from, whatever lies between; itself if it is
    one."""
    above = (i.table for i in contracts[table].inputs if i.table in contracts and i.table != table)
    own = frozenset({table} if contracts[table].external else ())
    return own.union(*(externals_below(contracts, name) for name in above))


class Frontiers:
    """The frontiers of a view: of its sources, and of the tables that are made from them."""

    def __init__(self, contracts: Iterable[Contract], view: LakeView) -> None:
        self.of_source: Mapping[str, datetime | None] = {
            t: frontier_of(s) for t, s in view.sources.items()
        }
        self.below = landed_below(contracts)
        self._names = any(s.name for s in view.sources.values())
        self._known: dict[frozenset[str], datetime | None] = {}

    def sources_of(self, table: str) -> frozenset[str]:
        """The sources, by landed table, upstream of `table`; all sources if it has none."""
        return self.below.get(table) or frozenset(self.of_source)

    def of_table(self, table: str) -> datetime | None:
        """The least frontier of the sources that the table is made from."""
        return self._least(self.sources_of(table))

    def of_inputs(self, inputs: Iterable[Input]) -> datetime | None:
        """The least frontier of the sources of these inputs."""
        return self._least(
            frozenset[str]().union(*(self.below.get(i.table, frozenset()) for i in inputs))
        )

    @property
    def least(self) -> datetime | None:
        """The least frontier of all sources."""
        return self._least(frozenset())

    @property
    def greatest(self) -> datetime | None:
        """The greatest frontier of the sources."""
        return max((f for f in self.of_source.values() if f is not None), default=None)

    def tags_of(self, table: str) -> dict[str, str]:
        """The tag of a receipt of the table with its sources' frontiers; empty where sources have
        no names."""
        known = {
            s: f.isoformat()
            for s in sorted(self.below.get(table, ()))
            if (f := self.of_source.get(s))
        }
        return {FRONTIERS: json.dumps(known)} if self._names and known else {}

    def _least(self, sources: frozenset[str]) -> datetime | None:
        if sources not in self._known:
            found = [self.of_source.get(s) for s in sources or self.of_source]
            known = [f for f in found if f is not None]
            self._known[sources] = min(known) if known and len(known) == len(found) else None
        return self._known[sources]


def frontiers_in(tags: Mapping[str, str]) -> dict[str, datetime]:
    """The sources' frontiers in the tags of a receipt, by landed table; empty where they cannot be
    read."""
    try:
        return {
            str(s): datetime.fromisoformat(f)
            for s, f in json.loads(tags.get(FRONTIERS, "{}")).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
