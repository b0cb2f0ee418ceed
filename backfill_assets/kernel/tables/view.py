"""The state of a lake (`kernel.core.view.LakeView`) from its store.

Not here: the states of days that follow (`kernel.core.states`), and what a command, run or tick
knows of them (`kernel.write.known`). Readers see versions that stand
together (`versions`), writers always the heads. It needs no JVM and takes milliseconds.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.intake.ledger import (
    ARRIVALS,
    FILES,
    QUARANTINE,
    landed_days,
    read_arrivals,
    read_files,
)
from backfill_assets.intake.too_late import releases
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.ledgers import TOO_LATE, named
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.view import DayReceipt, Deliveries, LakeView, TableView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.tables.versions import versions_seen


def read_view(
    lake: Lake, contracts: Iterable[Contract], versions: Mapping[str, int] | None = None
) -> LakeView:
    """The view of the lake now; `contracts` are upstream first. Tables that `versions` names are
    read at these, all others at their heads.

    A table is read before its inputs, and before arrivals: a write of another run in between shows
    as days to be rebuilt or not yet loaded, and as newer than the version that fences a write of
    ours (`kernel.write.replace`).
    """
    known, pinned = tuple(contracts), versions or {}
    read = {c.name: _view(lake, c.name, c.day_column, pinned) for c in reversed(known)}
    tables = {c.name: read[c.name] for c in known}
    landed = {
        c.source: c.name for c in reversed(known) if c.is_landed
    }  # the first of a source is the one
    delivered = {
        table: _delivered(lake, source, tables, pinned)
        for source, table in (landed or {"": ""}).items()
    }
    settings = lake.settings
    others_write = frozenset(
        name for name, table in settings.tables.items() if table.others_may_write
    )
    return LakeView(
        settings.start_date, settings.as_of, settings.grace, tables, delivered, others_write
    )


def renewed(
    lake: Lake, contracts: Iterable[Contract], view: LakeView, moved: Collection[str]
) -> LakeView:
    """`view` with the tables `moved` at their heads, of a landed one with its ledgers; the other
    tables as they were.

    A day made from a moved table's newer rows shows as to be rebuilt, as after `read_view` beside
    another run.
    """
    tables, delivered = {**view.tables}, {**view.delivered}
    for contract in (c for c in contracts if c.name in moved):
        tables[contract.name] = _view(lake, contract.name, contract.day_column, {})
        if contract.name in delivered:
            delivered[contract.name] = _delivered(lake, contract.source, tables, {})
    return replace(view, tables=tables, delivered=delivered)


def _view(lake: Lake, table: str, day_column: str, pinned: Mapping[str, int]) -> TableView:
    """The view of a table at its pinned version, which a table that was made anew since may not
    have reached."""
    newest = lake.store.view(table, day_column)
    version = pinned.get(table, newest.version)
    return newest if version >= newest.version else lake.store.view(table, day_column, version)


def _delivered(
    lake: Lake, source: str, tables: dict[str, TableView], pinned: Mapping[str, int]
) -> Deliveries:
    """Deliveries of a source; adds its ledgers to `tables`."""
    store, files = lake.store, named(FILES.name, source)
    settings = lake.settings.delivered.get(source)
    are_dumps = settings is not None and settings.kind == "snapshot"
    for ledger in (QUARANTINE.name, TOO_LATE, ARRIVALS.name):
        tables[named(ledger, source)] = _view(
            lake, named(ledger, source), ARRIVALS.day_column, pinned
        )
    arrivals = named(ARRIVALS.name, source)
    version = tables[arrivals].version
    days = store.kept(
        arrivals, "event days", lambda: read_arrivals(store, version, source), version
    )
    tables[arrivals] = _doubting(tables[arrivals], days)
    return Deliveries(
        landed=store.kept(
            files, "landed days", lambda: landed_days(read_files(store, source), are_dumps)
        ),
        arrivals=days,
        releases=releases(lake, source),
        name=source,
    )


def _doubting(ledger: TableView, arrived: Mapping[date, tuple[tuple[date, str], ...]]) -> TableView:
    """Mark as foreign the days of the ledger whose number of rows differs from their receipts:
    before 2026-11-22 a load could write a day twice that came again unchanged. The next load
    rewrites them."""
    counted = Counter(day for rows in arrived.values() for day, _ in rows)
    doubted = {d for d, r in ledger.latest.items() if r.entry.rows != counted[d]}
    return replace(ledger, foreign=ledger.foreign | doubted) if doubted else ledger


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
    yield from ((store.receipt(table, version), days) for version, days in by_version.items())


def settled_view(lake: Lake, contracts: Iterable[Contract], newest: bool = False) -> LakeView:
    """The view of the lake as readers see it: tables that stand together, by the newest lake
    version; `newest`: each table at its newest commit, also while a run writes others."""
    return read_view(lake, contracts, None if newest else versions_seen(lake))
