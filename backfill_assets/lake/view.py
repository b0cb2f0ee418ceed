"""Reading the view of a lake: heads and receipts of its tables, and its ledgers. No JVM, milliseconds.

Lives here: making a `core.view.LakeView` of what the store of tables knows. Does not live here: what follows from it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.core.contracts import Contract
from backfill_assets.core.ledgers import TOO_LATE, named
from backfill_assets.core.view import Deliveries, LakeView, TableView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, FILES, QUARANTINE, landed_days, read_arrivals, read_files
from backfill_assets.lake.store import TableStore
from backfill_assets.lake.too_late import releases


def read_view(lake: Lake, contracts: Iterable[Contract]) -> LakeView:
    """The view of the lake now; `contracts` stand upstream first.

    A table is read before its inputs, and before arrivals: what another run writes in between shows as days to be made
    again or not yet loaded, and as newer than the version that a write of ours is fenced by (`lake.replace`).
    """
    known = tuple(contracts)
    read = {c.name: lake.store.view(c.name, c.day_column) for c in reversed(known)}
    tables = {c.name: read[c.name] for c in known}
    landed = {c.source: c.name for c in reversed(known) if c.is_landed}  # the first of a source is the one
    delivered = {table: _delivered(lake, source, tables) for source, table in (landed or {"": ""}).items()}
    return LakeView(lake.settings.start_date, lake.settings.as_of, lake.settings.grace, tables, delivered)


def _delivered(lake: Lake, source: str, tables: dict[str, TableView]) -> Deliveries:
    """What a source delivered; the heads of its ledgers are put beside the other tables."""
    store, files = lake.store, named(FILES.name, source)
    for ledger in (QUARANTINE.name, TOO_LATE, ARRIVALS.name):
        tables[named(ledger, source)] = store.view(named(ledger, source), ARRIVALS.day_column)
    arrivals = named(ARRIVALS.name, source)
    version = tables[arrivals].version
    days, lines = store.unmoved(arrivals, "days", lambda: _arrived(store, version, source), version)
    tables[arrivals] = _doubting(tables[arrivals], lines)
    return Deliveries(
        landed=store.unmoved(files, "landed days", lambda: landed_days(read_files(store, source))),
        arrivals=days,
        releases=releases(lake, source),
        name=source,
    )


def _arrived(
    store: TableStore, version: int, source: str
) -> tuple[dict[date, tuple[tuple[date, str], ...]], Mapping[date, int]]:
    """What a version of the ledger lists for each event day, and how many rows it has of each arrival day."""
    days = read_arrivals(store, version, source)
    return days, Counter(day for rows in days.values() for day, _ in rows)


def _doubting(ledger: TableView, lines: Mapping[date, int]) -> TableView:
    """The ledger, of which days are not trusted whose rows are not as many as their receipts say: up to the version of
    2026-11-22 a load could write a day twice that came again as it was. The next load writes them anew."""
    wrong = {d for d, s in ledger.stamps.items() if s.entry.rows != lines.get(d, 0)}
    return replace(ledger, foreign=ledger.foreign | wrong) if wrong else ledger
