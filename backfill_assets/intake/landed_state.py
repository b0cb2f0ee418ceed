"""What is known of a source without its rows: landed contents, days that arrived, releases of late
rows.

Not here: what a lake's tables hold (`kernel.tables.view`, which asks for this), and the ledgers'
contracts and readers (`ledger`, `too_late`). It needs no JVM and takes milliseconds.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.intake.landed_days import landed_by_day, with_names
from backfill_assets.intake.ledger import ARRIVALS, QUARANTINE, read_arrivals
from backfill_assets.intake.too_late import recorded_releases
from backfill_assets.kernel.core.ledgers import TOO_LATE, source_table_name
from backfill_assets.kernel.core.view import Deliveries, TableView
from backfill_assets.kernel.tables.home import Lake


def source_deliveries(
    lake: Lake, source: str, view_of: Callable[[str, str], TableView]
) -> tuple[Deliveries, dict[str, TableView]]:
    """The deliveries of a source, and the views of its ledgers by name, as
    `kernel.tables.view.DeliveriesOf` has it."""
    store, arrivals = lake.store, source_table_name(ARRIVALS.name, source)
    names = (
        source_table_name(ledger, source) for ledger in (QUARANTINE.name, TOO_LATE, ARRIVALS.name)
    )
    ledgers = {name: view_of(name, ARRIVALS.day_column) for name in names}
    version = ledgers[arrivals].version
    days = store.kept(
        arrivals, "event days", lambda: read_arrivals(store, version, source), version
    )
    ledgers[arrivals] = _with_doubted_days(ledgers[arrivals], days)
    landed = landed_by_day(lake, source)
    found = Deliveries(landed, arrivals=days, releases=recorded_releases(lake, source), name=source)
    named = with_names(lake, source, landed, found.days_by_names(lake.settings.as_of))
    return replace(found, landed=named), ledgers


def _with_doubted_days(
    ledger: TableView, arrived: Mapping[date, tuple[tuple[date, str], ...]]
) -> TableView:
    """Mark as foreign the days of the ledger whose number of rows differs from their receipts:
    before 2026-11-22 a load could write a day twice that came again unchanged. The next load
    rewrites them."""
    counted = Counter(day for rows in arrived.values() for day, _ in rows)
    doubted = {d for d, r in ledger.latest.items() if r.entry.rows != counted[d]}
    return replace(ledger, foreign=ledger.foreign | doubted) if doubted else ledger
