"""Reading the view of a lake: heads and receipts of its tables, and its ledgers. No JVM, milliseconds.

Lives here: making a `core.view.LakeView` of what the store of tables knows. Does not live here: what follows from it.
"""

from collections.abc import Iterable

from backfill_assets.core.contracts import Basis, Contract, first_reading
from backfill_assets.core.ledgers import TOO_LATE
from backfill_assets.core.view import LakeView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, FILES, QUARANTINE, landed_days, read_arrivals, read_files
from backfill_assets.lake.too_late import releases


def read_view(lake: Lake, contracts: Iterable[Contract]) -> LakeView:
    """The view of the lake now. Tables are read before arrivals, so that a load in between shows as not yet loaded."""
    store, known = lake.store, tuple(contracts)
    landed = first_reading(known, Basis.FILES)
    tables = {c.name: store.view(c.name, c.day_column) for c in (*known, QUARANTINE)}
    tables[TOO_LATE] = store.view(TOO_LATE, ARRIVALS.day_column)
    tables[ARRIVALS.name] = arrivals = store.view(ARRIVALS.name, ARRIVALS.day_column)
    return LakeView(
        start=lake.settings.start_date,
        as_of=lake.settings.as_of,
        grace=lake.settings.grace,
        tables=tables,
        landed=store.unmoved(FILES.name, "landed days", lambda: landed_days(read_files(store))),
        arrivals=store.unmoved(ARRIVALS.name, "days", lambda: read_arrivals(store, arrivals.version)),
        landed_table=landed.name if landed else "",
        releases=releases(lake),
    )
