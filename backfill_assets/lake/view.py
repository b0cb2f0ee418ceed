"""Reading the view of a lake: heads and receipts of its tables, and its ledgers. No JVM, milliseconds.

Lives here: making a `core.view.LakeView` of logs and delta-rs reads. Does not live here: what follows from it.
"""

from collections.abc import Iterable

from backfill_assets.core.contracts import Basis, Contract, first_reading
from backfill_assets.core.ledgers import TOO_LATE
from backfill_assets.core.view import LakeView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, FILES, QUARANTINE, landed_days, read_arrivals, read_files
from backfill_assets.lake.log import Logs
from backfill_assets.lake.too_late import releases


def read_view(lake: Lake, contracts: Iterable[Contract], logs: Logs | None = None) -> LakeView:
    """The view of the lake now. Tables are read before arrivals, so that a load in between shows as not yet loaded.

    `logs` spare who looks again and again from reading old commits again.
    """
    table_view = (logs or Logs()).view
    tables, known = {}, tuple(contracts)
    landed = first_reading(known, Basis.FILES)
    for contract in (*known, QUARANTINE):
        tables[contract.name] = table_view(lake.table_path(contract.name), contract.day_column)
    tables[TOO_LATE] = table_view(lake.table_path(TOO_LATE), ARRIVALS.day_column)
    arrivals = table_view(lake.table_path(ARRIVALS.name), ARRIVALS.day_column)
    tables[ARRIVALS.name] = arrivals
    return LakeView(
        start=lake.settings.start_date,
        as_of=lake.settings.as_of,
        grace=lake.settings.grace,
        tables=tables,
        landed=landed_days(read_files(lake.table_path(FILES.name), logs)),
        arrivals=read_arrivals(lake.table_path(ARRIVALS.name), arrivals.version),
        landed_table=landed.name if landed else "",
        releases=releases(lake, logs),
    )
