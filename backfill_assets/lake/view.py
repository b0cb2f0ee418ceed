"""The state of a lake (`core.view.LakeView`) from its store.

Not here: the states of days that follow (`core.states`). While several tables are switched (`switch`), readers see
every table as it was before (`settled_view`); writers always read the heads (`read_view`). It needs no JVM and takes
milliseconds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import TransientError
from backfill_assets.core.ledgers import TOO_LATE, named
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.view import Deliveries, LakeView, Stamp, TableView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, FILES, QUARANTINE, landed_days, read_arrivals, read_files
from backfill_assets.lake.store import TableStore
from backfill_assets.lake.switch import switch_of
from backfill_assets.lake.too_late import releases

LOOKS = 10  # a switch of six tables takes a second, a look milliseconds


def read_view(lake: Lake, contracts: Iterable[Contract]) -> LakeView:
    """The view of the lake now; `contracts` are upstream first.

    A table is read before its inputs, and before arrivals: a write of another run in between shows as days to be
    rebuilt or not yet loaded, and as newer than the version that fences a write of ours (`lake.replace`).
    """
    known = tuple(contracts)
    read = {c.name: lake.store.view(c.name, c.day_column) for c in reversed(known)}
    tables = {c.name: read[c.name] for c in known}
    landed = {c.source: c.name for c in reversed(known) if c.is_landed}  # the first of a source is the one
    delivered = {table: _delivered(lake, source, tables) for source, table in (landed or {"": ""}).items()}
    return LakeView(lake.settings.start_date, lake.settings.as_of, lake.settings.grace, tables, delivered)


def _delivered(lake: Lake, source: str, tables: dict[str, TableView]) -> Deliveries:
    """Deliveries of a source; adds the heads of its ledgers to `tables`."""
    store, files = lake.store, named(FILES.name, source)
    for ledger in (QUARANTINE.name, TOO_LATE, ARRIVALS.name):
        tables[named(ledger, source)] = store.view(named(ledger, source), ARRIVALS.day_column)
    arrivals = named(ARRIVALS.name, source)
    version = tables[arrivals].version
    days = store.kept(arrivals, "event days", lambda: read_arrivals(store, version, source), version)
    tables[arrivals] = _doubting(tables[arrivals], days)
    return Deliveries(
        landed=store.kept(files, "landed days", lambda: landed_days(read_files(store, source))),
        arrivals=days,
        releases=releases(lake, source),
        name=source,
    )


def _doubting(ledger: TableView, arrived: Mapping[date, tuple[tuple[date, str], ...]]) -> TableView:
    """Mark as foreign the days of the ledger whose number of rows differs from their receipts: before 2026-11-22 a load
    could write a day twice that came again unchanged. The next load rewrites them."""
    counted = Counter(day for rows in arrived.values() for day, _ in rows)
    doubted = {d for d, s in ledger.stamps.items() if s.entry.rows != counted[d]}
    return replace(ledger, foreign=ledger.foreign | doubted) if doubted else ledger


def writes_of(
    store: TableStore, table: str, stamps: Mapping[date, Stamp]
) -> Iterator[tuple[Receipt | None, Mapping[date, Stamp]]]:
    """Each write that made some of these days, with those days, in the order of their first; None: without a receipt.

    Raises BackfillError if a commit is torn.
    """
    by_version = defaultdict[int, dict[date, Stamp]](dict)
    for day, stamp in stamps.items():
        by_version[stamp.version][day] = stamp
    if by_version:
        receipts = {c.version: c.receipt for c in store.commits(table, min(by_version) - 1) if c.version in by_version}
        yield from ((receipts[version], days) for version, days in by_version.items())


def settled_view(lake: Lake, contracts: Iterable[Contract]) -> LakeView:
    """The view of the lake as readers see it: all tables before a switch or all after it, never between.

    Raises TransientError if switches come too fast to look between them.
    """
    known = tuple(contracts)
    for _ in range(LOOKS):
        switch = switch_of(lake)
        view = read_view(lake, known)
        if switch_of(lake).number == switch.number:
            columns = {c.name: c.day_column for c in known if c.name in switch.tables}
            pinned = {n: lake.store.view(n, columns[n], switch.tables[n]) for n in columns}
            return replace(view, tables={**view.tables, **pinned}) if pinned else view
    raise TransientError(
        f"the lake {lake.root}", "its tables were switched at every look", "Nothing was read", "Read again"
    )
